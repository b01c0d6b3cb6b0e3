// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/cost_model/cost_sheet.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/decode/registry.h"
#include "harness/engine/closed_loop.h"
#include "harness/model/share.h"
#include "harness/model/weights.h"
#include "harness/plan/expected_time.h"
#include "kernels/cuda/device/traffic.h"

namespace unmask {
namespace {

// Steps per block and rows per decided token as published for FOCUS (its table 5, ShareGPT); rows
// that enter a step are (steps + 1) / 2 a token decided evenly, and 1.5 more for delayed caching.
struct decoding {
  double block = 32, steps = 15.02, retained_per_token = 3.12;
  double decided() const { return block / steps; }  // a step and sequence
  double masked() const { return block * (steps + 1) / (2 * steps); }
  double entering() const { return ((steps + 1) / 2 + 1.5) * decided(); }
  double retained() const { return retained_per_token * decided(); }
};
constexpr decoding sdar_share_gpt{32, 15.02, 3.12}, mini_share_gpt{32, 19.73, 4.19};
// Full diffusion with a dual cache: a token a step, everything computed anew once a block.
constexpr double cached_block = 32;

struct published_shape {
  const char* folder;
  const char* name;
  const decoding* blocks;  // null: full diffusion
};
constexpr published_shape shapes_of[] = {{"sdar-8b", "SDAR-8B", &sdar_share_gpt},
                                         {"llada-8b", "LLaDA-8B", nullptr},
                                         {"dream-7b", "Dream-7B", nullptr},
                                         {"llada2-mini", "LLaDA2.0-mini", &mini_share_gpt},
                                         {"sdar-30b-a3b", "SDAR-30B-A3B", &sdar_share_gpt}};
constexpr double batches[] = {1, 8, 32, 64, 256};
constexpr double contexts[] = {1024, 2048, 4096, 8192, 16384, 32768};
constexpr double share_gpt_context = 400;  // a prompt of 213 tokens and half of 321

struct recipe_cost {
  std::string method;
  double tokens = 1;     // decided a step and sequence
  double refreshes = 0;  // whole forwards for every step
  cost_step step;        // of one sequence, without keys
  selection_counts selection;
};

std::vector<recipe_cost> recipes_of(const published_shape& s) {
  std::vector<recipe_cost> all;
  if (s.blocks == nullptr) {
    recipe_cost cached{"fast_dllm", 1, 1 / cached_block, {}, count_selection("fast_dllm")};
    cached.step.rows = cached_block;
    cached.step.candidates = (cached_block + 1) / 2;
    return {cached};
  }
  const decoding& d = *s.blocks;
  recipe_cost baseline{"block_diffusion", d.decided(), 0, {}, count_selection("block_diffusion")};
  baseline.step.rows = d.block;
  baseline.step.candidates = d.masked();
  recipe_cost evicting{"focus", d.decided(), 0, {}, count_selection("focus")};
  evicting.step.rows = d.entering();
  evicting.step.late_rows = evicting.step.candidates = d.retained();
  evicting.step.late_from = 1;
  evicting.step.ranked = d.masked();
  return {baseline, evicting};
}

cost_step step_of(const recipe_cost& r, double batch, double context) {
  cost_step step = r.step;
  step.sequences = batch;
  step.keys = context;
  step.launches = r.selection.launches;
  step.waits = r.selection.waits;
  step.bus_bytes = r.selection.bus_bytes * batch;
  return step;
}

// Seconds and limit of a step with its part of the refreshes.
step_cost cost_of(const cost_shape& model, const recipe_cost& r, double batch, double context,
                  const device_ceilings& d) {
  step_cost cost = cost_of_step(model, step_of(r, batch, context), d);
  if (r.refreshes > 0) {
    cost_step whole = step_of(r, batch, context);
    whole.rows = context;
    const step_cost refresh = cost_of_step(model, whole, d);
    cost.seconds += r.refreshes * refresh.seconds;
    cost.limit += r.refreshes * refresh.limit;
  }
  return cost;
}

// `c`: the sizes of one rank. 3 GB for the context, the library and activations of 8192 rows.
bool fits(const model_config& c, double batch, double context, const device_ceilings& d) {
  const double kv = 4.0 * c.layers * c.kv_heads * c.head_dim;
  return 2.0 * static_cast<double>(c.parameters()) + batch * context * kv < d.memory_bytes - 3e9;
}

// Nothing of one.
std::string on_ranks(int ranks) {
  return ranks > 1 ? fmt::format(" · {} ranks", ranks) : "";
}

text_table sheet_of(const std::string& name, const model_config& whole, int ranks,
                    const recipe_cost& r, const device_ceilings& d) {
  const model_config c = largest_share(whole, ranks);
  text_table t;
  t.title = fmt::format("{} · {} · {}{}: expected tokens/s (ms a step, share of the limit)", name,
                        r.method, d.name, on_ranks(ranks));
  t.column("batch", true);
  for (const double context : contexts) t.column(fmt::format("{:.0f}K", context / 1024), true);
  for (const double batch : batches) {
    std::vector<table_cell> line{count_cell(static_cast<std::int64_t>(batch))};
    for (const double context : contexts) {
      if (!fits(c, batch, context, d)) {
        line.emplace_back("no room");
        continue;
      }
      const step_cost cost = cost_of(cost_shape_of(whole, ranks), r, batch, context, d);
      line.emplace_back(fmt::format("{:.0f} ({:.1f}, {:.0f} %)", batch * r.tokens / cost.seconds,
                                    1e3 * cost.seconds, 100 * cost.share()));
    }
    t.add(std::move(line));
  }
  t.notes.push_back(fmt::format(
      "{:.2f} tokens a step and sequence, {:.1f} rows enter{}, {:.1f} are judged{}; {:.1f} kernels "
      "and copies of selection and decision and {:.1f} host waits a step, as the emulator counts "
      "them.",
      r.tokens, r.step.rows,
      r.step.late_rows > 0 ? fmt::format(" and {:.1f} stay", r.step.late_rows) : std::string(),
      r.step.candidates,
      r.refreshes > 0
          ? fmt::format("; everything is computed anew every {:.0f} steps", 1 / r.refreshes)
          : std::string(),
      r.selection.launches, r.selection.waits));
  if (ranks > 1) {
    t.notes.push_back(
        "Two sums of float32 rows a layer, and 40 bytes a candidate and rank behind the head, by "
        "links "
        "whose speed is declared.");
  }
  return t;
}

// The three kernels with the most time above their limit.
std::string held_back_by(const step_cost& cost) {
  std::vector<kernel_cost> kernels = cost.kernels;
  std::ranges::sort(kernels, std::ranges::greater{},
                    [](const kernel_cost& k) { return k.seconds - k.limit; });
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, kernels.size()); ++i) {
    text += fmt::format("{}{} {:.1f} % ({})", i == 0 ? "" : ", ", kernels[i].kernel,
                        100 * (kernels[i].seconds - kernels[i].limit) / cost.seconds,
                        kernels[i].held_by);
  }
  return text;
}

const recipe_cost& named(const std::vector<recipe_cost>& all, const std::string& method) {
  return *std::ranges::find(all, method, &recipe_cost::method);
}

text_table kernels_of(const std::string& title, const step_cost& cost) {
  text_table t{"kernel", ">launches", ">ms", ">limit ms", ">share of the step %", "held by"};
  t.title = title;
  for (const kernel_cost& k : cost.kernels) {
    t.add({k.kernel, number_cell(k.launches, 0), number_cell(k.seconds, 3, 1e3),
           number_cell(k.limit, 3, 1e3), number_cell(k.seconds / cost.seconds, 1, 100), k.held_by});
  }
  t.add({"all", number_cell(cost.launches(), 0), number_cell(cost.seconds, 3, 1e3),
         number_cell(cost.limit, 3, 1e3), number_cell(cost.share(), 1, 100), "share of the limit"});
  for (table_cell& cell : t.rows.back()) cell.bold = true;
  return t;
}

// A small model with the heads for which the kernels of real models are chosen.
model_config small_model(bool blocks) {
  model_config c;
  c.family = blocks ? model_family::sdar : model_family::llada;
  c.name = "small";
  c.layers = 3;
  c.hidden = 128;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 64;
  c.feed_forward = 192;
  c.vocabulary = c.max_positions = 512;
  c.rope = {64, 10000.0F};
  c.mask_id = 510;
  c.eos_id = 511;
  c.stop_ids = {511};
  if (!blocks) return c;
  c.qk_norm = true;
  c.attention = mask_kind::block_causal;
  c.block = 8;
  return c;
}

// Kernels that cost_of_step() adds itself, by the names of their launches.
bool is_of_the_model(const std::string& kernel) {
  static const std::set<std::string> names = {
      "library_product", "embed",         "rms_norm",    "rotate_and_store", "silu_mul",
      "to_bf16",         "head_chunk",    "head_fold",   "head_product",     "head_tiles_merge",
      "head_merge",      "moe_choose",    "moe_plan",    "moe_plan: count",  "moe_plan: place",
      "grouped_tensor",  "grouped_roles", "moe_combine", "importance",       "gather_rows"};
  return names.contains(kernel) || kernel.starts_with("attention");
}

}  // namespace

selection_counts count_selection(const std::string& method) {
  static std::map<std::string, selection_counts> known;  // a second or two each
  if (const auto found = known.find(method); found != known.end()) return found->second;
  constexpr std::int32_t batch = 4, canvas = 8;
  const method_info& info = method_registry::instance().find(method);
  const model_config config =
      small_model(info.shape.extent == row_extent::block && !info.shape.refreshes);
  const transformer model(config, random_weights(config, 7, dtype::f32), cuda_emulated_backend(),
                          weight_format::bf16, 256, dtype::bf16);
  std::vector<sequence_request> requests(batch);
  for (std::int32_t i = 0; i < batch; ++i) {
    for (std::int32_t p = 0; p < 8 + i; ++p) requests[i].prompt.push_back((7 * p + i) % 500);
    requests[i].gen_length = canvas;
  }
  parameter_map given;
  if (config.block == 0) given["block_length"] = 8;
  const parameters settings(info.resolve("", given));
  info.check(config, settings);
  cuda_emulated_backend().synchronize();
  cuda::emulator::begin_counting();
  const closed_loop_result done = run_closed_loop(model, info, settings, requests, batch);
  const cuda::emulator::device_traffic work = cuda::emulator::end_counting();
  selection_counts counts;
  const auto steps = static_cast<double>(done.steps);
  for (const auto& [name, k] : work.kernels) {
    if (is_of_the_model(name)) continue;
    counts.launches += static_cast<double>(k.launches) / steps;
    counts.bus_bytes += static_cast<double>(k.host_bytes) / steps / batch;
  }
  counts.launches += static_cast<double>(work.copies + work.fills) / steps;
  counts.waits = static_cast<double>(work.waits) / steps;
  known[method] = counts;
  return counts;
}

text_table cost_goals(const std::filesystem::path& shapes, const device_ceilings& d) {
  text_table goals{"goal", ">wanted", ">expected", "", "held back by"};
  goals.title = "Goals";
  goals.notes.push_back(fmt::format(
      "Predicted, not measured. Ceilings: {}: {}. Steps, rows and tokens are those published for "
      "FOCUS (ShareGPT); full diffusion decides one token a step. Prompts are not in it. Of ... % "
      "with cuBLASLt: what remains if only its products take more than their limit.",
      d.name, d.source));
  const auto add = [&](const std::string& what, double wanted, double found, const char* unit,
                       bool at_most, const std::string& held) {
    const bool met = at_most ? found <= wanted : found >= wanted;
    goals.add({what, fmt::format("{} {:.0f} {}", at_most ? "<=" : ">=", wanted, unit),
               fmt::format("{:.1f} {}", found, unit), met ? "met" : "NOT MET", held});
  };
  const cost_shape sdar = cost_shape_of(read_model_config(shapes / "sdar-8b")),
                   mini = cost_shape_of(read_model_config(shapes / "llada2-mini")),
                   llada = cost_shape_of(read_model_config(shapes / "llada-8b"));
  const std::vector<recipe_cost> dense = recipes_of(shapes_of[0]),
                                 routed = recipes_of(shapes_of[3]);
  const auto shares = [&](const char* name, const cost_shape& model,
                          const std::vector<recipe_cost>& recipes, const char* method,
                          const std::vector<double>& sizes, double wanted) {
    for (const double batch : sizes) {
      const step_cost c = cost_of(model, named(recipes, method), batch, share_gpt_context, d);
      double library = c.limit;
      for (const kernel_cost& k : c.kernels)
        if (k.kernel.ends_with(" product")) library += k.seconds - k.limit;
      add(fmt::format("{} {}, batch {:.0f}: share of the limit", name, method, batch), wanted,
          100 * c.share(), "%", false,
          fmt::format("{}; of {:.0f} % with cuBLASLt", held_back_by(c), 100 * c.limit / library));
    }
  };
  shares("SDAR-8B", sdar, dense, "block_diffusion", {32, 64, 256}, 85);
  shares("SDAR-8B", sdar, dense, "focus", {32, 64, 256}, 75);
  shares("LLaDA2.0-mini", mini, routed, "block_diffusion", {1, 32, 256}, 60);
  shares("LLaDA2.0-mini", mini, routed, "focus", {1, 32, 256}, 60);
  for (const double keys : {8192.0, 16384.0}) {
    const kernel_cost k = cost_of_attention(llada, 1, keys, keys, d);
    add(fmt::format("LLaDA-8B refresh of {:.0f}K: attention", keys / 1024), 330,
        k.operations / k.seconds * 1e-12, "TFLOP/s", false,
        std::string("attention_tensor: ") + k.held_by);
  }
  for (const double batch : {32.0, 64.0, 256.0}) {
    const step_cost c = cost_of(sdar, named(dense, "focus"), batch, share_gpt_context, d);
    double selection = 0;
    for (const kernel_cost& k : c.kernels) {
      const bool own = k.kernel == "selection and decisions" || k.kernel == "importance" ||
                       k.kernel == "gather_rows";
      if (own) selection += k.seconds;
    }
    add(fmt::format("SDAR-8B focus, batch {:.0f}: selection's part of a step", batch), 1,
        100 * selection / c.seconds, "%", true,
        fmt::format("importance {:.2f} ms, gather_rows {:.2f} ms, {:.1f} small kernels {:.2f} ms",
                    1e3 * c.of("importance").seconds, 1e3 * c.of("gather_rows").seconds,
                    c.of("selection and decisions").launches,
                    1e3 * c.of("selection and decisions").seconds));
  }
  return goals;
}

text_table cost_sums(const std::filesystem::path& shapes, const device_ceilings& d) {
  const published_shape& s = shapes_of[0];
  const model_config c = read_model_config(shapes / s.folder);
  const recipe_cost whole_blocks = named(recipes_of(s), "block_diffusion");
  const device_ceilings& on_pcie = ceilings_of("rtx4090");
  device_ceilings pcie = d;
  pcie.link = on_pcie.link;
  pcie.link_one = on_pcie.link_one;
  pcie.link_two = on_pcie.link_two;
  text_table t{"links", ">batch", ">1 rank", ">2 ranks", ">4 ranks", ">8 ranks"};
  t.title = fmt::format("{} · {} · {}: ms a step (share of the sums)", s.name, whole_blocks.method,
                        d.name);
  for (const auto& [links, on] : {std::pair("its own", d), {"PCIe 4", pcie}}) {
    for (const double batch : {1.0, 64.0}) {
      std::vector<table_cell> line{fmt::format("{}, {:.0f} GB/s", links, 1e-9 * on.link),
                                   count_cell(static_cast<std::int64_t>(batch))};
      for (const int ranks : {1, 2, 4, 8}) {
        const step_cost cost =
            cost_of(cost_shape_of(c, ranks), whole_blocks, batch, share_gpt_context, on);
        line.emplace_back(ranks == 1 ? fmt::format("{:.1f}", 1e3 * cost.seconds)
                                     : fmt::format("{:.1f} ({:.0f} %)", 1e3 * cost.seconds,
                                                   100 * cost.seconds_of_sums() / cost.seconds));
      }
      t.add(std::move(line));
    }
  }
  t.notes.push_back(
      "Predicted, not measured: two sums of float32 rows a layer, and 40 bytes a candidate and "
      "rank "
      "behind the head. Latencies of links are assumed.");
  return t;
}

std::vector<text_table> cost_sheet(const std::filesystem::path& shapes, const device_ceilings& d,
                                   int ranks) {
  std::vector<text_table> tables;
  text_table left_out{"model", "why"};
  left_out.title = "Left out";
  for (const published_shape& s : shapes_of) {
    const model_config c = read_model_config(shapes / s.folder);
    try {
      check_share(c, share_of(0, ranks, 0), weight_format::bf16);
    } catch (const error& why) {
      left_out.add({s.name, why.what()});
      continue;
    }
    for (const recipe_cost& r : recipes_of(s)) {
      tables.push_back(sheet_of(s.name, c, ranks, r, d));
      if (s.blocks == nullptr) continue;
      for (const double batch : {32.0, 256.0}) {
        tables.push_back(
            kernels_of(fmt::format("{} · {} · batch {:.0f} on {:.0f} keys{}", s.name, r.method,
                                   batch, share_gpt_context, on_ranks(ranks)),
                       cost_of(cost_shape_of(c, ranks), r, batch, share_gpt_context, d)));
      }
    }
  }
  if (ranks == 1) tables.push_back(cost_goals(shapes, d));
  if (!left_out.rows.empty()) tables.push_back(std::move(left_out));
  return tables;
}

}  // namespace unmask
