// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/safetensors.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/json.h"

namespace unmask {
namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::size_t max_rank = 32;

// Bytes of one element; 0: unknown type.
std::uint64_t element_bytes(std::string_view type) {
  if (type == "F64" || type == "I64" || type == "U64" || type == "C64") return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  if (type == "I8" || type == "U8" || type == "BOOL" || type.starts_with("F8_")) return 1;
  return 0;
}

std::string tensor_name(std::string_view name) {
  return "tensor \"" + std::string(name.substr(0, 300)) + "\"";
}

class header_reader {
 public:
  header_reader(std::span<const std::byte> bytes, const std::string& file)
      : bytes_(bytes), file_(file) {}

  std::vector<safetensors_entry> read() {
    const json_value root = parse_json(header_text(), file_ + " (header)");
    if (root.members() == nullptr) fail("the header must be a JSON object");
    std::vector<safetensors_entry> entries;
    for (const auto& [name, value] : *root.members()) {
      if (name == "__metadata__") {
        check_metadata(value);
      } else {
        entries.push_back(read_entry(name, value));
      }
    }
    check_tiling(entries);
    return entries;
  }

 private:
  [[noreturn]] void fail(const std::string& sentence) const {
    throw environment_error(file_ + ": " + sentence);
  }

  std::string_view header_text() {
    refuse_lfs_pointer({reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}, file_);
    if (bytes_.size() < length_bytes) {
      fail("truncated: " + std::to_string(bytes_.size()) +
           " bytes cannot hold the 8-byte header length");
    }
    std::uint64_t length = 0;
    for (std::size_t i = length_bytes; i-- > 0;) {
      length = (length << 8) | std::to_integer<std::uint64_t>(bytes_[i]);
    }
    if (length > safetensors_header_limit) {
      fail("the header length " + std::to_string(length) + " is above the limit of " +
           std::to_string(safetensors_header_limit) + "; not a safetensors file");
    }
    if (length > bytes_.size() - length_bytes) {
      fail("truncated: the header of " + std::to_string(length) + " bytes is longer than the file");
    }
    data_begin_ = length_bytes + length;
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + length_bytes,
                                static_cast<std::size_t>(length));
    if (text.empty() || text.front() != '{') fail("the header must begin with '{'");
    return text;
  }

  void check_metadata(const json_value& value) const {
    if (value.members() == nullptr) fail("`__metadata__` must be an object of strings");
    for (const auto& member : *value.members()) {
      if (member.second.text() == nullptr) fail("`__metadata__` must be an object of strings");
    }
  }

  safetensors_entry read_entry(const std::string& name, const json_value& value) const {
    if (value.members() == nullptr) fail(tensor_name(name) + " must be described by an object");
    safetensors_entry entry;
    entry.name = name;
    const json_value* type = value.find("dtype");
    if (type == nullptr || type->text() == nullptr)
      fail(tensor_name(name) + " has no `dtype` string");
    entry.type = *type->text();
    std::uint64_t bytes = element_bytes(entry.type);
    if (bytes == 0) fail(tensor_name(name) + " has the unknown `dtype` \"" + entry.type + "\"");

    const json_value* shape = value.find("shape");
    if (shape == nullptr || shape->items() == nullptr)
      fail(tensor_name(name) + " has no `shape` array");
    if (shape->items()->size() > max_rank) fail(tensor_name(name) + " has too many dimensions");
    for (const json_value& item : *shape->items()) {
      const std::int64_t* n = item.integer();
      if (n == nullptr || *n < 0) {
        fail(tensor_name(name) + ": `shape` must hold whole numbers from 0");
      }
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(*n), &bytes)) {
        fail(tensor_name(name) + ": `shape` is larger than any file");
      }
      entry.shape.push_back(*n);
    }

    const json_value* offsets = value.find("data_offsets");
    if (offsets == nullptr || offsets->items() == nullptr || offsets->items()->size() != 2) {
      fail(tensor_name(name) + ": `data_offsets` must be an array of two numbers");
    }
    const std::int64_t* begin = (*offsets->items())[0].integer();
    const std::int64_t* end = (*offsets->items())[1].integer();
    if (begin == nullptr || end == nullptr || *begin < 0 || *end < *begin) {
      fail(tensor_name(name) + ": `data_offsets` must be two ascending whole numbers from 0");
    }
    entry.begin = static_cast<std::uint64_t>(*begin);
    entry.end = static_cast<std::uint64_t>(*end);
    const std::uint64_t data = bytes_.size() - data_begin_;
    if (entry.end > data) {
      fail("truncated: " + tensor_name(name) + " ends at byte " + std::to_string(entry.end) +
           " of the data, which has " + std::to_string(data));
    }
    if (entry.end - entry.begin != bytes) {
      fail(tensor_name(name) + ": `shape` and `dtype` need " + std::to_string(bytes) +
           " bytes, but " + "`data_offsets` give " + std::to_string(entry.end - entry.begin));
    }
    entry.begin += data_begin_;
    entry.end += data_begin_;
    return entry;
  }

  // The format forbids holes: bytes nobody reads could smuggle another file along.
  void check_tiling(const std::vector<safetensors_entry>& entries) const {
    std::vector<const safetensors_entry*> order;
    for (const safetensors_entry& entry : entries) order.push_back(&entry);
    std::ranges::sort(order, {}, [](const auto* e) { return std::pair(e->begin, e->end); });
    std::uint64_t at = data_begin_;
    const std::string* before = nullptr;
    for (const safetensors_entry* entry : order) {
      if (entry->begin < at) {
        fail(tensor_name(entry->name) + " overlaps " + tensor_name(*before));
      }
      if (entry->begin > at) {
        fail("a hole of " + std::to_string(entry->begin - at) + " bytes before " +
             tensor_name(entry->name));
      }
      at = entry->end;
      before = &entry->name;
    }
    if (at != bytes_.size()) {
      fail(std::to_string(bytes_.size() - at) + " bytes after the last tensor belong to none");
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::uint64_t data_begin_ = 0;
};

}  // namespace

std::vector<safetensors_entry> parse_safetensors(std::span<const std::byte> bytes,
                                                 const std::string& file) {
  return header_reader(bytes, file).read();
}

safetensors_file::safetensors_file(const std::filesystem::path& path)
    : path_(path.string()),
      mapping_(mapped_file::open(path)),
      entries_(parse_safetensors(mapping_->bytes(), path_)) {}

const safetensors_entry* safetensors_file::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(entries_, name, {}, &safetensors_entry::name);
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

std::span<const std::byte> safetensors_file::bytes_of(const safetensors_entry& entry) const {
  return mapping_->bytes().subspan(entry.begin, entry.end - entry.begin);
}

tensor_view safetensors_file::view(const safetensors_entry& entry) const {
  tensor_view v;
  if (entry.type == "F32") {
    v.type = dtype::f32;
  } else if (entry.type == "U8") {
    v.type = dtype::u8;
  } else if (entry.type == "BF16") {
    v.type = dtype::bf16;
  } else if (entry.type == "F16") {
    v.type = dtype::f16;
  } else {
    throw environment_error(path_ + ": " + tensor_name(entry.name) + " has the `dtype` " +
                            entry.type + "; only F32, BF16, F16 and U8 are read");
  }
  if (entry.shape.empty()) {
    throw environment_error(path_ + ": " + tensor_name(entry.name) + " has no dimension");
  }
  // The mapping itself is page-aligned, so the offset decides.
  if (entry.begin % size_of(v.type) != 0) {
    throw environment_error(path_ + ": " + tensor_name(entry.name) +
                            " does not start at a multiple of its element size; write the file " +
                            "again with the safetensors library");
  }
  v.rank = static_cast<int>(std::min(entry.shape.size(), v.shape.size()));
  std::copy_n(entry.shape.begin(), v.rank, v.shape.begin());
  for (std::size_t d = v.shape.size(); d < entry.shape.size(); ++d)
    v.shape.back() *= entry.shape[d];
  v.row_stride = v.columns();
  v.data = const_cast<std::byte*>(mapping_->bytes().data()) + entry.begin;
  return v;
}

tensor_view safetensors_file::view(std::string_view name) const {
  const safetensors_entry* entry = find(name);
  if (entry == nullptr) throw environment_error(path_ + ": " + tensor_name(name) + " is missing");
  return view(*entry);
}

}  // namespace unmask
