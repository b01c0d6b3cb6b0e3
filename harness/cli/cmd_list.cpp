// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/base/package.h"
#include "harness/cli/command.h"
#include "harness/cli/lists_json.h"
#include "harness/cli/options.h"
#include "harness/decode/registry.h"
#include "harness/model/checkpoint.h"
#include "harness/model/config.h"
#include "harness/plan/catalogue.h"
#include "harness/plan/format.h"
#include "harness/plan/locate.h"
#include "harness/plan/request.h"
#include "harness/rows/glossary.h"
#include "harness/rows/json_of.h"
#include "harness/rows/row_schema.h"
#include "harness/workload/benchmark_list.h"

namespace unmask {
namespace {

// "  name   text" lines whose texts stand below each other.
void print_columns(const std::vector<std::pair<std::string, std::string>>& lines) {
  std::size_t width = 0;
  for (const auto& [name, text] : lines) width = std::max(width, name.size());
  for (const auto& [name, text] : lines) print("  {:<{}}  {}\n", name, width, text);
}

void list_methods() {
  print("methods\n");
  std::vector<std::pair<std::string, std::string>> lines;
  for (const std::string& name : method_registry::instance().names()) {
    lines.emplace_back(name, method_registry::instance().find(name).summary);
  }
  print_columns(lines);
}

void list_folder(const char* title, const std::filesystem::path& folder, const char* suffix) {
  if (!std::filesystem::is_directory(folder)) return;
  print("{}\n", title);
  for (const auto& file : entries_of(folder, suffix)) print("  {}\n", file.string());
}

// Folders of checkpoints that were made, and of those that are made on demand.
struct model_folders {
  std::vector<std::filesystem::path> made, opt_in;
};

model_folders models_below(const std::filesystem::path& folder) {
  model_folders found;
  for (const std::filesystem::path& entry : entries_of(folder)) {
    if (is_file(entry / "config.json")) {
      found.made.push_back(entry);
    } else if (is_file(entry / delta_file)) {
      found.opt_in.push_back(entry);
    }
  }
  return found;
}

void list_models(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) return;
  const auto [found, opt_in] = models_below(folder);
  print("models\n");
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& path : found) {
    const model_config c = read_model_config(path);
    lines.emplace_back(path.string(),
                       fmt::format("{}, {} layers, d {}, {:.2f} M parameters", name_of(c.family),
                                   c.layers, c.hidden, static_cast<double>(c.parameters()) * 1e-6));
  }
  for (const auto& path : opt_in) {
    lines.emplace_back(path.string(),
                       "opt-in, not made yet: ./dev model " + path.filename().string());
  }
  print_columns(lines);
}

// Experiments, then tables and figures of the papers; an unreadable file makes the exit code one of usage.
int list_experiments(const std::filesystem::path& root, bool as_json) {
  const std::vector<artifact_entry> all = find_artifacts(root, this_machine());
  if (as_json) {
    print("{}", experiments_json(entries_of(root, ".toml"), all));
  } else {
    list_folder("experiments", root, ".toml");
    if (!all.empty()) print("artifacts\n{}", artifact_listing(all));
  }
  const bool good = std::all_of(all.begin(), all.end(),
                                [](const artifact_entry& a) { return a.problem.empty(); });
  return static_cast<int>(good ? exit_code::ok : exit_code::usage);
}

void list_benchmarks() {
  print("benchmarks\n");
  for (const benchmark& b : benchmarks()) {
    const std::string items = b.items > 0 ? fmt::format("{} items", b.items) : "items of a file";
    print("  {:<16} {:<8} {:<46} {:<15} {} shots, prompt {}, {} tokens, {} by {}\n", b.name,
          b.harness, b.config, items, b.shots, b.form, b.gen_length, b.metric, b.scorer);
  }
  for (const auto& [id, version] : benchmark_harnesses()) print("  {:<8} {}\n", id, version);
  print(
      "data, in $UNMASK_DATASETS/NAME or `path` (unmask list benchmarks NAME: files, checksums and "
      "how to get them)\n");
  for (const benchmark_data* d : benchmark_data_sets()) {
    std::vector<std::string> firsts;
    for (const auto& [split, files] : d->files) firsts.push_back(files.front());
    print("  {:<13} {:<30} {} ({})\n", d->name, d->hub.empty() ? d->home : d->hub, joined(firsts),
          d->licence);
  }
}

// What one benchmark is made of, where its files are published and what writes them.
void list_benchmark(const std::string& name) {
  const benchmark_data& d = *find_benchmark(name, "").data;
  print("{}: {}\n  published  {}\n", name, d.title, d.home);
  if (!d.hub.empty()) print("  data set   {} (Hugging Face Hub)\n", d.hub);
  print("  licence    {}\n  folder     $UNMASK_DATASETS/{}, or `path` of the workload\n", d.licence,
        d.name);
  if (!d.tasks.empty()) print("  tasks      {}\n", joined(d.tasks));
  print("files, one of each line; plain, .gz, STEM.firstN.EXT.gz or inside a .zip\n");
  for (const auto& [split, files] : d.files) {
    print("  {:<12} {}\n", split, joined(files, " | "));
  }
  for (const auto& [file, hash] : d.sha256) print("  sha256       {}  {}\n", hash, file);
  print("harnesses\n");
  for (const benchmark& b : benchmarks()) {
    if (b.name != name) continue;
    std::vector<std::string> reads = b.reads;
    if (b.shots > 0) reads.insert(reads.end(), b.example_files.begin(), b.example_files.end());
    print("  {:<8} {:<46} {} shots, prompt {}; reads {}\n", b.harness, b.config, b.shots, b.form,
          joined(reads));
    if (!b.ours.empty()) print("  {:<8} ours: {}\n", "", b.ours);
  }
  print("Python that writes them in this layout, in a folder of $UNMASK_DATASETS\n");
  for (const std::string& line : d.python) print("  {}\n", line);
}

std::string range_of(const parameter_spec& p) {
  if (!p.choices.empty()) return fmt::format("one of {}", joined(p.choices));
  if (p.minimum <= -1e299 && p.maximum >= 1e299) return "";
  return fmt::format("{:g} to {:g}", p.minimum, p.maximum);
}

const char* type_of(const parameter_value& v) {
  constexpr const char* names[] = {"bool", "integer", "real", "text"};
  return names[v.index()];
}

void print_method(const method_info& m) {
  print("{}: {}\n  paper   {}\n  source  {}\n\n", m.name, m.summary, m.paper, m.source);
  print("  pace    {}\n  rows    {}\n  keys    {}\n  cache   {}\n  unmask  {}\n\n", m.pace, m.rows,
        m.keys, m.cache, m.unmask);
  print("parameters\n");
  for (const parameter_spec& p : m.parameters) {
    print("  {:<22}{} = {}\n{:26}{}\n", p.name, type_of(p.default_value),
          to_string(p.default_value), "", p.meaning);
    const std::string range = range_of(p);
    if (!range.empty()) print("{:26}{}\n", "", range);
    if (!p.source.empty()) print("{:26}source: {}\n", "", p.source);
  }
  for (const auto& [name, settings] : m.presets) {
    print("preset {}:", name);
    for (const auto& [key, value] : settings) print(" {}={}", key, to_string(value));
    print("\n");
  }
}

const std::vector<std::string> listings = {"methods",    "models",      "tasks",
                                           "benchmarks", "experiments", "claims"};

// How many there are of each, and how to see them.
void list_counts(const std::filesystem::path& root, bool as_json) {
  const auto has_config = [](const auto& entry) { return is_file(entry / "config.json"); };
  std::size_t claims = 0;
  for (const auto& file : entries_of(root / "claims", ".py")) {
    const std::string text = read_file(file, std::size_t{1} << 24);
    for (std::size_t at = 0; (at = text.find("\n@claim(", at)) != std::string::npos; ++at) ++claims;
  }
  const auto models = entries_of(root / "models");
  const std::size_t counts[] = {
      method_registry::instance().names().size(),
      static_cast<std::size_t>(std::ranges::count_if(models, has_config)),
      entries_of(root / "data", ".jsonl").size(),
      benchmarks().size(),
      entries_of(root, ".toml").size() + find_artifacts(root, this_machine()).size(),
      claims};
  nlohmann::ordered_json all;
  for (std::size_t i = 0; i < listings.size(); ++i) {
    all[listings[i]] = counts[i];
    if (!as_json) print("{:>5} {:<12}  unmask list {}\n", counts[i], listings[i], listings[i]);
  }
  if (as_json) print("{}", json_text(all));
}

// A listing of the program's own, or of the folder of experiments.
void list_one(const std::string& what, const std::filesystem::path& root) {
  if (what == "methods") list_methods();
  if (what == "models") list_models(root / "models");
  if (what == "tasks") list_folder("tasks", root / "data", ".jsonl");
  if (what == "benchmarks") list_benchmarks();
}

std::string json_of_one(const std::string& what, const std::filesystem::path& root) {
  if (what == "methods") return methods_json();
  if (what == "benchmarks") return benchmarks_json();
  if (what == "tasks") return files_json(entries_of(root / "data", ".jsonl"));
  const auto [made, opt_in] = models_below(root / "models");
  return models_json(made, opt_in);
}

}  // namespace

int command_list(const texts& arguments) {
  const command_line line(
      "list [methods|models|tasks|benchmarks [NAME]|experiments|claims] [options]",
      {format_option("print md or json"), experiments_option()}, {"what", "name"}, arguments,
      "Without a word, prints how many there are of each.");
  const std::filesystem::path root = experiments_folder(line);
  const bool as_json =
      parse_table_format(line.text("format"), {"md", "json"}) == table_format::json;
  if (!line.given("what")) {
    list_counts(root, as_json);
    return 0;
  }
  const std::string what = line.list("what").front();
  find_known("listing", what, listings);
  if (line.given("name")) {
    if (what != "benchmarks") throw usage_error("list " + what + " takes no name");
    const std::string name = line.list("name").front();
    if (!as_json) list_benchmark(name);
    if (as_json) print("{}", benchmarks_json(name));
    return 0;
  }
  const bool of_a_folder = what == "models" || what == "tasks" || what == "experiments";
  if (of_a_folder && !std::filesystem::is_directory(root)) {
    throw environment_error("there are no " + what + " to list: " +
                            (root.empty() ? looked_in({}) : root.string() + " is no folder"));
  }
  if (what == "claims") {
    become_package(
        {"claims", "--list", "--format", line.text("format"), "--experiments-dir", root.string()});
  }
  if (what == "experiments") return list_experiments(root, as_json);
  if (!as_json) list_one(what, root);
  if (as_json) print("{}", json_of_one(what, root));
  return 0;
}

int command_show(const texts& arguments) {
  const command_line line(
      "show METHOD|FILE.toml|glossary|format|needs|schema [options]",
      {format_option("print md or json (needs and schema: always json; FILE.toml: md is TOML)")},
      {"method"}, arguments,
      "Shows a method, an experiment file with what it extends, or one of:\n"
      "  glossary  the words of tables, texts and verdicts\n"
      "  format    every key of an experiment file and of a file of tasks, in Markdown\n"
      "  needs     what a scale may need, as JSON\n"
      "  schema    the fields of a result row, as JSON Schema");
  const method_registry& methods = method_registry::instance();
  const std::string asked = line.place(
      "method", fmt::format("show needs a method: {}", fmt::join(methods.names(), ", ")));
  const table_format format = parse_table_format(line.text("format"), {"md", "json"});
  if (asked == "glossary") {
    print("{}", format == table_format::json ? glossary_json() : glossary_page());
    return 0;
  }
  if (asked == "format") {
    print("{}", format == table_format::json ? format_json() : format_page());
    return 0;
  }
  if (asked == "needs") {
    print("{}", needs_text());
    return 0;
  }
  if (asked == "schema") {
    print("{}", row_schema_text());
    return 0;
  }
  if (asked.ends_with(".toml")) {
    print("{}",
          format == table_format::json ? whole_experiment_json(asked) : whole_experiment(asked));
    return 0;
  }
  const method_info& m = methods.find(asked);
  if (format == table_format::json) {
    print("{}", method_json(m));
    return 0;
  }
  print_method(m);
  return 0;
}

}  // namespace unmask
