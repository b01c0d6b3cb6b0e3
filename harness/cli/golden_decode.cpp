// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "harness/cli/golden.h"
#include "harness/decode/registry.h"
#include "harness/decode/step_loop.h"

namespace unmask {
namespace {

using nlohmann::json;

std::string sha1_hex(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha1(), nullptr);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

// Which method and which settings replay a golden file. One entry per golden method name.
struct translation {
  std::string method;
  parameter_map (*settings)(const json& params);
};

parameter_map copy_known(const json& params, const std::vector<std::string>& names) {
  parameter_map m;
  for (const std::string& name : names) {
    if (!params.contains(name) || params.at(name).is_null()) continue;
    const json& v = params.at(name);
    if (v.is_boolean()) {
      m[name] = v.get<bool>();
    } else if (v.is_number_integer()) {
      m[name] = v.get<std::int64_t>();
    } else if (v.is_number()) {
      m[name] = v.get<double>();
    } else {
      m[name] = v.get<std::string>();
    }
  }
  return m;
}

parameter_map vanilla_llada(const json& p) {
  parameter_map m = copy_known(p, {"steps", "block_length", "remasking", "temperature", "threshold",
                                   "factor", "until_clean"});
  m["schedule"] = std::string("llada");
  return m;
}

parameter_map vanilla_dream(const json& p) {
  parameter_map m =
      copy_known(p, {"steps", "alg", "eps", "temperature", "threshold", "alg_temp", "top_p"});
  m["schedule"] = std::string("dream");
  return m;
}

// The pace and unmasking of methods built on the whole-canvas recipe.
parameter_map whole_canvas(const json& p) {
  return p.contains("alg") ? vanilla_dream(p) : vanilla_llada(p);
}

parameter_map sparse_d(const json& p) {
  parameter_map m = whole_canvas(p);
  for (const auto& [name, value] : copy_known(p, {"skip", "select", "block_size"})) m[name] = value;
  m["pattern_scale"] = std::string(p.at("pattern_scale") == "sqrt(n_heads)" ? "heads" : "head_dim");
  return m;
}

parameter_map dllm_cache(const json& p) {
  parameter_map m = whole_canvas(p);
  for (const auto& [name, value] :
       copy_known(p, {"prompt_interval_kp", "response_interval_kr", "transfer_ratio"})) {
    m[name] = value;
  }
  return m;
}

parameter_map block_diffusion(const json& p) {
  parameter_map m = copy_known(
      p, {"block_length", "steps", "remasking", "threshold", "accept_compare", "temperature"});
  m["loop"] = p.at("preset").get<std::string>();
  m["stop_in_prompt_block"] = p.at("preset") != "engine";
  std::string stop = "none";
  if (!p.at("stop_ids").is_null()) {
    stop = fmt::format("{}", fmt::join(p.at("stop_ids").get<std::vector<int>>(), ","));
  }
  m["stop"] = stop;
  return m;
}

const std::map<std::string, translation>& translations() {
  static const std::map<std::string, translation> all = {
      {"vanilla_llada", {"vanilla", vanilla_llada}},
      {"vanilla_dream", {"vanilla", vanilla_dream}},
      {"block_diffusion", {"block_diffusion", block_diffusion}},
      {"sparse_d", {"sparse_d", sparse_d}},
      {"dllm_cache", {"dllm_cache", dllm_cache}},
  };
  return all;
}

// Compares every forward with the golden one; keeps the first difference.
class replay final : public step_observer {
 public:
  replay(const json& golden, const transformer& model) : golden_(golden), model_(model) {}

  void on_step(const step_view& step) override {
    const std::size_t i = forward_++;
    if (!difference_.empty()) return;
    const json& forwards = golden_.at("forwards");
    if (i >= forwards.size()) {
      difference_ = fmt::format("forward {}: the golden run has only {}", i, forwards.size());
      return;
    }
    compare_rows(i, forwards[i], step);
    if (difference_.empty()) compare_logits(i, forwards[i], step);
    if (difference_.empty()) compare_committed(i, forwards[i], step);
  }

  const std::string& difference() const { return difference_; }
  std::size_t forwards() const { return forward_; }

 private:
  void compare_rows(std::size_t i, const json& want, const step_view& step) {
    const std::int32_t rows = step.entered.rows;
    if (want.at("rows").get<std::int32_t>() != rows) {
      difference_ = fmt::format("forward {}: {} rows, golden {}", i, rows,
                                want.at("rows").get<std::int32_t>());
      return;
    }
    std::vector<std::int32_t> position;
    for (const json& range : want.at("pos")) {
      for (auto p = range[0].get<std::int32_t>(); p < range[1].get<std::int32_t>(); ++p) {
        position.push_back(p);
      }
    }
    if (!std::equal(position.begin(), position.end(), step.entered.position,
                    step.entered.position + rows)) {
      difference_ = fmt::format("forward {}: other positions than the golden run", i);
      return;
    }
    const std::vector<std::int32_t> ids(step.tokens, step.tokens + rows);
    if (want.contains("ids")) {
      const auto golden = want.at("ids").get<std::vector<std::int32_t>>();
      const auto at = std::mismatch(ids.begin(), ids.end(), golden.begin(), golden.end());
      if (at.first != ids.end() || at.second != golden.end()) {
        const auto k = static_cast<std::size_t>(at.first - ids.begin());
        difference_ = fmt::format("forward {}: input id at position {} is {}, golden {}", i,
                                  position[k], ids[k], golden[k]);
      }
    } else if (sha1_hex(fmt::format("{}", fmt::join(ids, ","))) !=
               want.at("ids_sha1").get<std::string>()) {
      difference_ = fmt::format("forward {}: input ids differ (SHA-1)", i);
    }
    if (difference_.empty() && want.contains("kind") &&
        want.at("kind").get<std::string>() != name_of(step.plan.of[0].what)) {
      difference_ = fmt::format("forward {}: {}, golden {}", i, name_of(step.plan.of[0].what),
                                want.at("kind").get<std::string>());
    }
  }

  void compare_logits(std::size_t i, const json& want, const step_view& step) {
    if (!want.contains("logits_abs_sum")) return;
    const std::int64_t n = step.left.rows;
    const tensor logits = model_.backend().allocate(dtype::f32, {n, model_.config().vocabulary});
    std::vector<std::int32_t> index(static_cast<std::size_t>(n));
    std::iota(index.begin(), index.end(), 0);
    model_.backend().logits(step.head_input, model_.head(), index.data(), logits);
    double sum = 0;
    for (std::int64_t k = 0; k < logits.view().elements(); ++k)
      sum += std::abs(logits.as<float>()[k]);
    const double golden = want.at("logits_abs_sum").get<double>();
    if (!(std::abs(sum - golden) <= 1e-4 * golden)) {
      difference_ =
          fmt::format("forward {}: sum of |logits| {:.3f}, golden {:.3f}", i, sum, golden);
    }
  }

  void compare_committed(std::size_t i, const json& want, const step_view& step) {
    if (!golden_.contains("trace") || want.at("kind") == "commit") return;
    if (step.plan.of[0].candidate_first == step.plan.of[0].candidate_last) return;
    // The engine preset traces its commit forwards too; they decide nothing.
    const json& trace = golden_.at("trace");
    while (trace_ < trace.size() && trace[trace_].value("kind", "") == "commit") ++trace_;
    if (trace_ == trace.size()) {
      difference_ = fmt::format("forward {}: the golden trace has ended", i);
      return;
    }
    const json& entry = trace[trace_++];
    json committed = json::array();
    const auto begin = entry.at("block_start").get<std::int32_t>();
    for (std::int32_t c = 0; c < step.candidates.count; ++c) {
      if (step.candidates.accept.as<std::uint8_t>()[c] == 0) continue;
      committed.push_back({step.candidates.position.as<std::int32_t>()[c] - begin,
                           step.candidates.token.as<std::int32_t>()[c]});
    }
    if (committed != entry.at("committed")) {
      difference_ = fmt::format("forward {}: committed {}, golden {}", i, committed.dump(),
                                entry.at("committed").dump());
    }
  }

  const json& golden_;
  const transformer& model_;
  std::size_t forward_ = 0, trace_ = 0;
  std::string difference_;
};

std::string run_case(const json& golden, const translation& how, const transformer& model) {
  const json& params = golden.at("params");
  sequence_request request{golden.at("prompt_ids").get<std::vector<std::int32_t>>(),
                           params.at("gen_length").get<std::int32_t>(), 0};
  recipe r = method_registry::instance().make(how.method, model.config(), "", how.settings(params));
  const std::int32_t length = r.pace->canvas_length(model.config(), request);
  step_loop loop(model, std::move(r), {1, length, 0});
  replay watcher(golden, model);
  loop.observe(&watcher);
  loop.admit(request);
  while (loop.step()) {
  }
  if (!watcher.difference().empty()) return watcher.difference();
  const auto want = golden.at("output_ids").get<std::vector<std::int32_t>>();
  const std::vector<std::int32_t> got = loop.output(0);
  if (got != want) {
    const auto at = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
    return fmt::format("output differs at token {} (lengths {} and {})", at.first - got.begin(),
                       got.size(), want.size());
  }
  if (golden.contains("canvas_ids")) {
    const auto canvas = golden.at("canvas_ids").get<std::vector<std::int32_t>>();
    std::vector<std::int32_t> ours = loop.canvas(0);
    ours.resize(std::min(ours.size(), canvas.size()));  // a stopped run leaves later blocks closed
    if (ours != canvas) return "canvas differs";
  }
  const auto nfe = golden.at("nfe").get<std::size_t>();
  if (watcher.forwards() != nfe) {
    return fmt::format("{} forwards, golden {}", watcher.forwards(), nfe);
  }
  const auto& counters = loop.state().at(0).counters;
  std::int64_t rows = 0;
  for (const json& f : golden.at("forwards")) rows += f.at("rows").get<std::int64_t>();
  if (counters.rows != rows || counters.forwards != static_cast<std::int64_t>(nfe)) {
    return fmt::format("counted {} rows in {} forwards, golden {} in {}", counters.rows,
                       counters.forwards, rows, nfe);
  }
  return "";
}

bool wanted(const golden_options& options, const std::string& golden, const std::string& method) {
  if (options.methods.empty()) return true;
  const auto has = [&](const std::string& name) {
    return std::find(options.methods.begin(), options.methods.end(), name) != options.methods.end();
  };
  return has(golden) || has(method);
}

}  // namespace

golden_summary replay_decode(const golden_options& options) {
  golden_summary sum;
  const std::filesystem::path folder = options.directory / "decode";
  if (!std::filesystem::is_directory(folder)) {
    throw environment_error("no golden runs: " + folder.string() + " is not a directory");
  }
  std::vector<std::filesystem::path> files;
  for (const auto& f : std::filesystem::directory_iterator(folder)) files.push_back(f.path());
  std::sort(files.begin(), files.end());
  std::map<std::string, std::unique_ptr<transformer>> models;
  for (const std::filesystem::path& file : files) {
    const std::string name = file.stem().string();
    const auto how = translations().find(name);
    if (!wanted(options, name, how == translations().end() ? name : how->second.method)) continue;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      if (line.empty()) continue;
      const json golden = json::parse(line);
      const std::string id = golden.at("id").get<std::string>();
      if (how == translations().end()) {
        ++sum.skipped;
        if (!options.quiet) fmt::print("SKIP {}  no method '{}' is registered\n", id, name);
        continue;
      }
      const auto model_name = golden.at("model").get<std::string>();
      std::unique_ptr<transformer>& model = models[model_name];
      if (!model) {
        const std::filesystem::path directory = options.directory / "models" / model_name;
        const model_config config = read_model_config(directory);
        model = std::make_unique<transformer>(config, load_weights(config, directory),
                                              *options.backend, weight_format::f32, 256);
      }
      const std::string difference = run_case(golden, how->second, *model);
      (difference.empty() ? sum.passed : sum.failed)++;
      if (!options.quiet || !difference.empty()) {
        fmt::print("{} {}{}\n", difference.empty() ? "PASS" : "FAIL", id,
                   difference.empty() ? "" : "  " + difference);
      }
    }
  }
  return sum;
}

}  // namespace unmask
