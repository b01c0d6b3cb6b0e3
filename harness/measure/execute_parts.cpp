// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/execute_parts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/base/output.h"
#include "harness/base/ranks/group.h"
#include "harness/decode/likelihood.h"
#include "harness/devices/device.h"
#include "harness/engine/trajectory.h"
#include "harness/measure/official_scores.h"
#include "harness/measure/prompt_maker.h"
#include "harness/model/chat_template.h"
#include "harness/model/checkpoint.h"
#include "harness/model/vision/config.h"
#include "harness/plan/published_decoding.h"
#include "harness/plan/serve_settings.h"
#include "harness/workload/scorer.h"
#include "kernels/refused.h"

namespace unmask {
namespace {

// The smallest model that moves over the same canvas: same attention, block, ids and positions.
model_config shape_only(model_config c) {
  c.layers = 1;
  c.hidden = c.head_dim = c.feed_forward = 8;
  c.heads = c.kv_heads = 1;
  c.rope = {8, 10000.0F};
  c.qkv_bias = c.qk_norm = c.tied_embeddings = false;
  c.moe = {};
  return c;
}

// A model, and the tokens that its head never says.
struct refusing_model {
  explicit refusing_model(transformer made) : model(std::move(made)) {}
  transformer model;
  std::optional<refusal> refused;
};

std::vector<std::int32_t> refused_by(const loaded_model& m) {
  const bool random = m.record.weights != "checkpoint";
  if (random) return {};
  return read_vision_config(m.directory, m.config.vocabulary).refused;
}

// What a rank loads: its share, or all of a model that cannot be dealt, which no point gets to compute.
model_share share_to_load(const model_config& config, const run_settings& run) {
  const model_share share = share_of_run(run);
  try {
    check_share(config, share, weight_format_of(run));
  } catch (const error&) {
    return {};
  }
  return share;
}

// The likelihood of an answer under the rater; an answer without a token stays unscored. Repetition is
// likely too: its share stands with the score, and both numbers of the item's own answer.
void rate_likelihood(const loaded_workload& w, std::size_t item, scored_answer& s) {
  const double value = likelihood_of(*w.rater, w.rated_prompts[item], s.text);
  if (std::isnan(value)) return;
  s.scored = true;
  s.value = value;
  s.measures.push_back(repeated_sequences("repeated_sequences", s.text));
  const double reference = w.rated_references[item];
  if (std::isnan(reference)) return;
  s.measures.push_back({"reference_likelihood", reference, 1});
  s.measures.push_back(repeated_sequences("reference_repeated_sequences", w.items[item].answer));
}

}  // namespace

double likelihood_of(loaded_model& rater, const std::vector<std::int32_t>& prompt,
                     const std::string& text) {
  const std::vector<std::int32_t> answer = prompt_maker(rater).behind(text);
  if (answer.empty()) return std::nan("");
  rater.make_room(static_cast<std::int32_t>(prompt.size() + answer.size()));
  const double sum = causal_log_likelihood(*rater.packed, prompt, answer);
  return std::exp(sum / static_cast<double>(answer.size()));
}

model_share share_of_run(const run_keys& run) {
  const rank_group* ranks = current_ranks();
  if (run.ranks > 1 && (ranks == nullptr || ranks->size() != run.ranks)) {
    throw std::logic_error("a model of several ranks outside their group");
  }
  return share_of(run.ranks > 1 ? ranks->rank() : 0, run);
}

void loaded_model::make_room(std::int32_t rows) {
  if (packed && packed->max_rows() >= rows) return;
  packed.reset();  // never two copies of the weights at once
  const auto made = std::make_shared<refusing_model>(
      transformer(config, weights, backend_of(run), weight_format_of(record.used), rows, kv_dtype,
                  share_of_run(run)));
  packed = std::shared_ptr<const transformer>(made, &made->model);
  const std::vector<std::int32_t> refused = refused_by(*this);
  if (!refused.empty()) made->refused.emplace(packed->head(), refused);
}

std::string model_key(const model_entry& entry, const run_settings& run) {
  return entry.path.string() + "\n" + entry.weights + "\n" + std::to_string(entry.soften) + " " +
         std::to_string(entry.positions) + " " + std::to_string(entry.layers) + "\n" +
         entry.pictures + " " + entry.unread + "\n" + run.device + "\n" + keys_as_used(run).format +
         "\n" + name_of(kv_type_of(run)) + "\n" + run.isa + "\n" + run.gemm + "\n" + run.graphs +
         "\n" + run.kernels + "\n" + run.device_check + "\n" + std::to_string(run.ranks) + " " +
         std::to_string(run.pieces) + " " + run.experts + " " + run.sums + " " +
         std::to_string(run.two_shots) + (runs_dry(run) ? "\ndry" : "");
}

std::shared_ptr<loaded_model> load_model(const model_entry& entry, const run_settings& run) {
  auto m = std::make_shared<loaded_model>();
  m->directory = entry.path;
  m->config = read_model_config(entry.path);
  if (!m->config.release.empty()) {
    tell("note: {} is {} ({}), whose own decoding is {}\n", m->config.name, m->config.release,
         m->config.told_by, describe(decoding_of(m->config)));
  }
  m->run = run;
  m->kv_dtype = kv_type_of(run);
  const bool random = entry.weights != "checkpoint";
  if (entry.layers > 0) {
    if (!random) throw usage_error("--layers needs --weights random:SEED");
    if (entry.layers > m->config.layers) {
      throw usage_error(
          fmt::format("--layers {}: {} has {}", entry.layers, m->config.name, m->config.layers));
    }
    m->config.layers = static_cast<std::int32_t>(entry.layers);
  }
  m->kv_bytes_per_slot = size_of(m->kv_dtype) * 2 * static_cast<std::size_t>(m->config.layers) *
                         static_cast<std::size_t>(m->config.kv_heads * m->config.head_dim);
  m->record = {entry.name,      "", m->config.parameters(), "synthetic", keys_as_used(run),
               m->config.layers};
  m->config.max_positions =
      std::max(m->config.max_positions, static_cast<std::int32_t>(entry.positions));
  std::error_code none;
  // Lengths, a trace and random prompts need no text; load_workload() says when a workload does.
  if (std::filesystem::exists(entry.path / "tokenizer.json", none)) {
    m->tokens = tokenizer::load(entry.path);
    m->chat = chat_template::load(entry.path, m->config);
    m->record.chat_template = m->chat->summary();
  }
  const bool loads = !random && !runs_dry(run);
  if (loads) {
    m->weights = load_weights(m->config, entry.path, true,
                              {entry.pictures == "off", entry.unread == "accept"},
                              share_to_load(m->config, run));
  }
  for (const std::string& said :
       {m->config.caution, caution_of(loads ? m->weights.unread : m->config.unread),
        m->chat ? m->chat->caution() : ""}) {
    if (said.empty()) continue;
    tell("note: {}\n", said);
    m->record.caution += (m->record.caution.empty() ? "" : "; ") + said;
  }
  if (runs_dry(run)) {
    m->run.ranks = run_keys().ranks;  // nothing is computed that several could share
    m->run.pieces = run_keys().pieces;
    m->config = shape_only(m->config);
    m->weights = random_weights(m->config, 0, dtype::f32);
    m->record.hash = "shape only";
    m->record.used.format = "f32";
    return m;
  }
  if (random) {
    m->weights = random_weights(m->config, seed_of_weights(entry.weights).value_or(0), dtype::bf16,
                                share_to_load(m->config, run));
  }
  m->record.hash = random               ? entry.weights
                   : entry.hash.empty() ? hash_of_checkpoint(entry.path)
                                        : entry.hash;
  if (!random) m->record.weights = "checkpoint";
  if (entry.positions > 0) m->record.hash += fmt::format(", {} positions", entry.positions);
  if (entry.soften != 1) {
    soften(m->weights, entry.soften);
    m->record.hash += fmt::format(", logits / {}", entry.soften);
  }
  return m;
}

std::vector<active_knob> knobs_of(const method_info& method, const parameters& settings) {
  std::vector<active_knob> knobs;
  for (const method_knob& knob : method.knobs) {
    const std::string value = to_string(settings.values().at(knob.parameter));
    if (value != knob.neutral) knobs.push_back({knob.parameter + " = " + value, knob.counter});
  }
  return knobs;
}

std::map<std::string, std::string> sized_point::samples(const std::vector<scored_answer>& scores,
                                                        const std::string& run_id,
                                                        const std::string& point_id,
                                                        const std::string& date) const {
  return sample_files_of(scores, workload_->items, date,
                         {{"run_id", json_string(run_id)}, {"point_id", json_string(point_id)}});
}

std::vector<scored_answer> score_answers(const loaded_model& model, const loaded_workload& workload,
                                         const std::vector<answer_record>& answers,
                                         const std::vector<std::size_t>& item_of,
                                         const token_rules& rules) {
  std::vector<scored_answer> all;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const task_item& item = workload.items[item_of[i]];
    scored_answer s{{}, item.id, "", item.family, item_of[i], {}};
    try {
      const auto length = static_cast<std::size_t>(answer_tokens_of(answers[i], rules));
      s.text = model.tokens->decode(std::span(answers[i].tokens).first(length), true);
      for (const std::string& stop : item.stop) s.text = s.text.substr(0, s.text.find(stop));
      if (is_own_scorer(item.scorer)) static_cast<score&>(s) = score_answer(item, s.text);
      if (workload.rater && item.scorer == "none") rate_likelihood(workload, item_of[i], s);
    } catch (const std::exception& problem) {  // of this item alone
      static_cast<score&>(s) = {};
      s.undecided = true;
      s.note = problem.what();
    }
    all.push_back(std::move(s));
  }
  score_officially(all, workload.items);
  return all;
}

}  // namespace unmask
