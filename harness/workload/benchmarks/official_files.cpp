// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/benchmarks/official_files.h"

#include <algorithm>
#include <optional>

#include "harness/base/compressed.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json_lines.h"
#include "harness/base/nearest.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t largest_file = std::size_t{1} << 30;

// The file that stands for NAME in a folder; empty: none does.
fs::path standing_for(const fs::path& folder, const std::string& name) {
  const fs::path plain = folder / name;
  if (is_file(plain)) return plain;
  if (const fs::path packed = plain.string() + ".gz"; is_file(packed)) return packed;
  const std::string head = plain.stem().string() + ".first";
  const std::string tail = plain.extension().string() + ".gz";
  for (const fs::path& entry : entries_of(plain.parent_path())) {
    const std::string file = entry.filename().string();
    if (file.starts_with(head) && file.ends_with(tail)) return entry;
  }
  return {};
}

std::optional<official_text> find_in(const fs::path& folder, const std::string& name) {
  if (const fs::path path = standing_for(folder, name); !path.empty()) {
    return official_text{path.string(), read_plain_or_gzip(path, largest_file)};
  }
  for (const fs::path& entry : entries_of(folder, ".zip")) {
    if (auto text = read_zip_member(entry, name, largest_file)) {
      return official_text{entry.string() + ":" + name, std::move(*text)};
    }
  }
  return std::nullopt;
}

}  // namespace

official_text official_files::text(const std::string& dataset,
                                   const std::vector<std::string>& names) const {
  for (const fs::path& root : roots_) {
    for (const fs::path& folder : {root / dataset, root}) {
      for (const std::string& name : names) {
        if (auto found = find_in(folder, name)) return std::move(*found);
      }
    }
  }
  std::string where;
  for (const fs::path& root : roots_) where += (where.empty() ? "" : ", ") + root.string();
  throw environment_error(
      dataset + ": there is no " + joined(names, " or ") + " in " +
      (where.empty() ? "any folder: give `path`" : where + " or its folder " + dataset));
}

fs::path official_files::folder(const std::string& dataset, const std::string& name) const {
  std::error_code ignored;
  for (const fs::path& root : roots_) {
    for (const fs::path& folder : {root / dataset / name, root / name}) {
      if (fs::is_directory(folder, ignored)) return folder;
    }
  }
  return {};
}

const tokenizer& official_files::tokens(const std::string& dataset) const {
  if (tokens_ == nullptr) {
    throw usage_error(dataset + " needs the model's tokenizer to make its items");
  }
  return *tokens_;
}

void each_object(const official_text& file,
                 const std::function<void(const json_reader&, std::size_t)>& visit) {
  std::size_t row = 0;
  for_each_object(file.text, file.name,
                  [&](const json_reader& object, std::size_t) { visit(object, row++); });
}

std::vector<std::vector<std::string>> csv_rows(const official_text& file) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool quoted = false, any = false;
  const std::string& text = file.text;
  const auto end_row = [&] {
    if (any) rows.push_back(std::move(row));
    row.assign(1, "");
    any = false;
  };
  for (std::size_t i = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        row.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        row.back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"' && row.back().empty()) {
      quoted = any = true;
    } else if (c == ',') {
      row.emplace_back();
      any = true;
    } else if (c == '\n' || c == '\r') {
      end_row();
    } else {
      row.back() += c;
      any = true;
    }
  }
  if (quoted) throw environment_error(file.name + ": a quoted field never ends");
  end_row();
  return rows;
}

}  // namespace unmask
