// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/pictures/prepared.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/nearest.h"
#include "harness/base/package.h"
#include "harness/model/safetensors.h"
#include "harness/model/vision/one_vision.h"
#include "harness/model/vision/tower.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t largest_picture = std::size_t{1} << 28, shown_digits = 16, length_bytes = 8;
constexpr std::size_t files_of_a_call = 256;
constexpr const char* file_version = "1";
constexpr const char* rule = "columns-then-rows";
constexpr std::int32_t most_pixels = 1 << 28;

fs::path cache_folder() {
  const fs::path memory = user_hash_memory().file;
  if (!memory.empty()) return memory.parent_path() / "pictures";
  return temporary_folder() / ("unmask-pictures-" + std::to_string(getuid()));
}

std::vector<fs::path> folders_to_look_in() {
  std::vector<fs::path> folders;
  const char* given = std::getenv("UNMASK_PICTURES");
  std::string list = given == nullptr ? "" : given;
  while (!list.empty()) {
    const std::size_t colon = std::min(list.find(':'), list.size());
    if (colon > 0) folders.emplace_back(list.substr(0, colon));
    list.erase(0, colon + 1);
  }
  folders.emplace_back("pictures");
  folders.push_back(cache_folder());
  return folders;
}

std::string hash_of_values(const vision_config& config) {
  const auto values = byte_values(config);
  // LLaDA-V has one table for all channels: the three are equal.
  const std::size_t tables = config.kind == vision_kind::qwen ? values.size() : 1;
  return sha256_hex(
      {reinterpret_cast<const char*>(values[0].data()), tables * values[0].size() * sizeof(float)});
}

std::optional<fs::path> find_prepared(const std::string& name) {
  for (const fs::path& folder : folders_to_look_in()) {
    if (is_file(folder / name)) return folder / name;
  }
  return std::nullopt;
}

// Into the cache, by one call of the package.
void write_prepared(const std::vector<std::string>& pictures, const std::string& preset,
                    const fs::path& model) {
  const std::string first = pictures.front(), more = pictures.size() > 1 ? " ..." : "";
  const std::string beforehand = ". Prepare " + std::string(more.empty() ? "it" : "them") +
                                 " on a machine that has Python with: unmask pictures " + first +
                                 more + " --model " + model.string();
  std::vector<std::string> command = {"pictures"};
  command.insert(command.end(), pictures.begin(), pictures.end());
  for (const std::string& word :
       {std::string("--model"), model.string(), std::string("--preset"), preset,
        std::string("--quiet"), std::string("-o"), cache_folder().string()}) {
    command.push_back(word);
  }
  package_end end;
  try {
    end = run_package_for_reason(command);
  } catch (const error& problem) {
    throw environment_error(problem.what() + beforehand);
  }
  if (end.status == 0) return;
  const bool usage = end.status == static_cast<int>(exit_code::usage);
  throw error(usage ? exit_code::usage : exit_code::environment,
              first +
                  (more.empty() ? ": NOT RUN: cannot prepare the picture: "
                                : " and others: NOT RUN: cannot prepare the pictures: ") +
                  end.reason + (usage ? "" : beforehand));
}

// "98x62"
bool read_size(const std::string& text, std::int32_t& a, std::int32_t& b) {
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, a);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != 'x') return false;
  const auto second = std::from_chars(first.ptr + 1, end, b);
  return second.ec == std::errc() && second.ptr == end && a > 0 && b > 0 && a <= most_pixels &&
         b <= most_pixels;
}

class metadata {
 public:
  explicit metadata(const safetensors_file& file) : path_(file.path()) {
    const auto mapped = mapped_file::open(path_);
    const auto bytes = mapped->bytes();
    std::uint64_t length = 0;  // within the file: it was read as safetensors
    for (std::size_t i = length_bytes; i-- > 0;) {
      length = (length << 8) | std::to_integer<std::uint64_t>(bytes[i]);
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + length_bytes,
                                static_cast<std::size_t>(length));
    root_ = parse_json(text, path_);
  }
  const std::string& text(const char* key) const {
    const json_value* all = root_.find("__metadata__");
    const json_value* value = all == nullptr ? nullptr : all->find(key);
    if (value == nullptr || value->text() == nullptr) fail(key, "is missing");
    return *value->text();
  }
  void expect(const char* key, const std::string& wanted) const {
    if (text(key) == wanted) return;
    fail(key, "is \"" + text(key).substr(0, 200) + "\"; this model and picture need \"" +
                  wanted.substr(0, 200) + "\"");
  }
  [[noreturn]] void fail(const char* key, const std::string& problem) const {
    throw environment_error(path_ + ": `" + key + "` " + problem +
                            "; `unmask pictures` writes the file anew");
  }

 private:
  std::string path_;
  json_value root_;
};

}  // namespace

std::string prepared_file_name(const vision_config& config, const std::string& preset,
                               const std::string& picture_hash) {
  const std::string said =
      joined({file_version, config.family, preset, config.settings, picture_hash, rule}, "\n");
  return "picture-" + sha256_hex(said).substr(0, shown_digits) + ".safetensors";
}

prepared_picture read_prepared_picture(const fs::path& file, const vision_config& config,
                                       const std::string& preset, const std::string& picture_hash) {
  const auto tensors = std::make_shared<const safetensors_file>(file);
  const metadata said(*tensors);
  said.expect("prepared_picture", file_version);
  said.expect("family", config.family);
  said.expect("preset", preset);
  said.expect("settings", config.settings);
  said.expect("rule", rule);
  said.expect("picture", picture_hash);
  said.expect("tables", hash_of_values(config));
  prepared_picture picture;
  std::int32_t width = 0, height = 0;
  if (!read_size(said.text("size"), width, height)) {
    said.fail("size", "must be the picture's width and height, as 640x480");
  }
  picture.shape = shape_of_picture(config, preset, width, height);
  const bool tiled = picture.shape.across > 0;
  said.expect("tiles", tiled ? fmt::format("{}x{}", picture.shape.across, picture.shape.down)
                             : std::string("none"));
  picture.pixels = tensors->view("views");
  const tensor_view& v = picture.pixels;
  if (v.type != dtype::u8 || v.rank != 4 || v.shape[0] != picture.shape.views() ||
      v.shape[1] != picture.shape.view_height || v.shape[2] != picture.shape.view_width ||
      v.shape[3] != 3) {
    throw environment_error(fmt::format(
        "{}: tensor \"views\" must be U8 [{}, {}, {}, 3] for a picture of {}x{}", file.string(),
        picture.shape.views(), picture.shape.view_height, picture.shape.view_width, width, height));
  }
  picture.preset = preset;
  picture.pillow = said.text("pillow");
  picture.memory = tensors;
  return picture;
}

task_picture picture_in(const fs::path& file) {
  return {file, sha256_hex(read_file(file, largest_picture))};
}

std::vector<prepared_picture> prepare_pictures(const std::vector<task_picture>& pictures,
                                               const vision_config& config, std::string preset,
                                               const fs::path& model) {
  std::vector<std::string> presets = {"pad", "squeeze"};
  if (config.kind == vision_kind::qwen || is_sdar_vl(config)) presets = {config.preset};
  if (config.preset == "tiles" && !is_sdar_vl(config)) presets.emplace_back("tiles");
  if (preset.empty()) preset = config.preset;
  find_known("preset of pictures", preset, presets);
  std::map<std::string, fs::path> lacking;  // by the file's name: one picture may be shown often
  for (const task_picture& picture : pictures) {
    const std::string name = prepared_file_name(config, preset, picture.hash);
    if (!find_prepared(name)) lacking.emplace(name, picture.file);
  }
  std::vector<std::string> files;
  for (const auto& [name, file] : lacking) {
    files.push_back(file.string());
    if (files.size() < files_of_a_call) continue;
    write_prepared(files, preset, model);
    files.clear();
  }
  if (!files.empty()) write_prepared(files, preset, model);
  std::vector<prepared_picture> all;
  for (const task_picture& picture : pictures) {
    const std::string name = prepared_file_name(config, preset, picture.hash);
    all.push_back(read_prepared_picture(find_prepared(name).value_or(cache_folder() / name), config,
                                        preset, picture.hash));
  }
  return all;
}

}  // namespace unmask
