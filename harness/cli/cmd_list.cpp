// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/cli/command.h"
#include "harness/decode/registry.h"
#include "harness/experiment/artifact_files.h"
#include "harness/experiment/catalogue.h"
#include "harness/experiment/cost_sheet.h"
#include "harness/model/config.h"
#include "harness/model/delta.h"
#include "harness/workload/benchmarks/benchmark.h"

namespace unmask {
namespace po = boost::program_options;
namespace {

void list_methods() {
  fmt::print("methods\n");
  for (const std::string& name : method_registry::instance().names()) {
    fmt::print("  {:<18}{}\n", name, method_registry::instance().find(name).summary);
  }
}

void list_folder(const char* title, const std::filesystem::path& folder, const char* suffix) {
  if (!std::filesystem::is_directory(folder)) return;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == suffix) names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  fmt::print("{}\n", title);
  for (const std::string& name : names) fmt::print("  {}\n", name);
}

void list_models(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder)) return;
  std::vector<std::filesystem::path> found, opt_in;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (std::filesystem::exists(entry.path() / "config.json")) {
      found.push_back(entry.path());
    } else if (std::filesystem::exists(entry.path() / delta_file)) {
      opt_in.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  std::sort(opt_in.begin(), opt_in.end());
  fmt::print("models\n");
  for (const auto& path : found) {
    const model_config c = read_model_config(path);
    fmt::print("  {:<36}{}, {} layers, d {}, {:.2f} M parameters\n", path.string(),
               name_of(c.family), c.layers, c.hidden, static_cast<double>(c.parameters()) * 1e-6);
  }
  for (const auto& path : opt_in) {
    fmt::print("  {:<36}opt-in, not made yet: ./dev model {}\n", path.string(),
               path.filename().string());
  }
}

// Tables and figures of the papers; an unreadable file makes the exit code one of usage.
int list_artifacts(const std::filesystem::path& root) {
  const std::vector<artifact_entry> all = find_artifacts(root, this_machine());
  if (!all.empty()) fmt::print("artifacts\n{}", artifact_listing(all));
  const bool good = std::all_of(all.begin(), all.end(),
                                [](const artifact_entry& a) { return a.problem.empty(); });
  return static_cast<int>(good ? exit_code::ok : exit_code::usage);
}

void list_benchmarks() {
  fmt::print("benchmarks\n");
  for (const benchmark& b : benchmarks()) {
    const std::string items = b.items > 0 ? fmt::format("{} items", b.items) : "items of a file";
    fmt::print("  {:<16} {:<5} {:<46} {:<15} {} shots, prompt {}, {} tokens, {} by {}\n", b.name,
               b.harness, b.config, items, b.shots, name_of(b.form), b.gen_length, b.metric,
               b.scorer);
  }
  std::vector<std::string> named;
  for (const benchmark& b : benchmarks()) {
    if (std::find(named.begin(), named.end(), b.harness) != named.end()) continue;
    named.push_back(b.harness);
    fmt::print("  {:<5} {}\n", b.harness, harness_version(b.harness));
  }
}

// The papers' claims, or those of the papers named.
void list_claims(const std::filesystem::path& root) {
  const std::filesystem::path folder = root / "claims";
  if (!std::filesystem::is_directory(folder)) return;
  fmt::print("claims\n");
  for (const paper_claim& c : read_claims(folder)) {
    fmt::print("  {:<12} {:<38} {} ({}; {}; {})\n", c.paper, c.id, c.statement, c.source,
               name_of(c.kind), fmt::join(c.scales, ", "));
  }
}

std::string range_of(const parameter_spec& p) {
  if (!p.choices.empty()) return fmt::format("one of {}", fmt::join(p.choices, ", "));
  if (p.minimum <= -1e299 && p.maximum >= 1e299) return "";
  return fmt::format("{:g} to {:g}", p.minimum, p.maximum);
}

const char* type_of(const parameter_value& v) {
  constexpr const char* names[] = {"bool", "integer", "real", "text"};
  return names[v.index()];
}

}  // namespace

int command_list(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("experiments-dir", po::value<std::string>()->default_value("experiments"),
                        "where experiment files, tasks and models lie");
  po::variables_map values;
  if (!parse_command("list [methods|models|tasks|benchmarks|experiments|claims]", "", options,
                     {"what"}, arguments, values)) {
    return 0;
  }
  const std::filesystem::path root = values["experiments-dir"].as<std::string>();
  const std::string what =
      values.count("what") ? values["what"].as<std::vector<std::string>>().front() : "";
  const std::vector<std::string> known = {"methods",    "models",      "tasks",
                                          "benchmarks", "experiments", "claims"};
  if (!what.empty() && std::find(known.begin(), known.end(), what) == known.end()) {
    throw usage_error(unknown_name("listing", what, known));
  }
  if (what.empty() || what == "methods") list_methods();
  if (what.empty() || what == "models") list_models(root / "models");
  if (what.empty() || what == "tasks") list_folder("tasks", root / "data", ".jsonl");
  if (what.empty() || what == "benchmarks") list_benchmarks();
  if (what == "claims") list_claims(root);
  if (what.empty() || what == "experiments") {
    list_folder("experiments", root, ".toml");
    return list_artifacts(root);
  }
  return 0;
}

namespace {

// What the cost model expects of the published models on a GPU that is not here.
int show_cost(const po::variables_map& values) {
  device_ceilings device = ceilings_of(values["device"].as<std::string>());
  device = measured_ceilings(device, 1e12 * values["tflops"].as<double>(),
                             1e12 * values["terabytes"].as<double>());
  const std::filesystem::path shapes =
      std::filesystem::path(values["experiments-dir"].as<std::string>()) / "shapes";
  fmt::print("{}", render(cost_sheet(shapes, device),
                          parse_table_format(values["format"].as<std::string>())));
  return 0;
}

}  // namespace

int command_show(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  auto add = options.add_options();
  add("device", po::value<std::string>()->default_value("h200"),
      "cost: the GPU, h100, h200 or a100");
  add("tflops", po::value<double>()->default_value(0),
      "cost: its largest bfloat16 products as measured, TFLOP/s (0: as declared)");
  add("terabytes", po::value<double>()->default_value(0),
      "cost: its copy rate as measured, TB/s (0: as declared)");
  add("format", po::value<std::string>()->default_value("md"), "cost: md, csv, latex or json");
  add("experiments-dir", po::value<std::string>()->default_value("experiments"),
      "cost: where shapes/ lies");
  po::variables_map values;
  if (!parse_command("show METHOD|cost [options]",
                     "\ncost: expected time, tokens/s and share of the limit of five published "
                     "models on a GPU that is not here\n",
                     options, {"method"}, arguments, values)) {
    return 0;
  }
  if (values.count("method") && values["method"].as<std::vector<std::string>>().front() == "cost") {
    return show_cost(values);
  }
  if (!values.count("method")) {
    throw usage_error(fmt::format("show needs a method: {}",
                                  fmt::join(method_registry::instance().names(), ", ")));
  }
  const method_info& m =
      method_registry::instance().find(values["method"].as<std::vector<std::string>>().front());
  fmt::print("{}: {}\n  paper   {}\n  source  {}\n\n", m.name, m.summary, m.paper, m.source);
  fmt::print("  pace    {}\n  rows    {}\n  keys    {}\n  cache   {}\n  unmask  {}\n\n", m.pace,
             m.rows, m.keys, m.cache, m.unmask);
  fmt::print("parameters\n");
  for (const parameter_spec& p : m.parameters) {
    fmt::print("  {:<22}{} = {}\n{:26}{}\n", p.name, type_of(p.default_value),
               to_string(p.default_value), "", p.meaning);
    const std::string range = range_of(p);
    if (!range.empty()) fmt::print("{:26}{}\n", "", range);
    if (!p.source.empty()) fmt::print("{:26}source: {}\n", "", p.source);
  }
  for (const auto& [name, settings] : m.presets) {
    fmt::print("preset {}:", name);
    for (const auto& [key, value] : settings) fmt::print(" {}={}", key, to_string(value));
    fmt::print("\n");
  }
  return 0;
}

}  // namespace unmask
