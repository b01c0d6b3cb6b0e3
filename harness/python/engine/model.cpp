// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/python/engine/model.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>

#include "harness/base/error.h"
#include "harness/cli/model_spec.h"
#include "harness/decode/plain_forward.h"
#include "harness/devices/device.h"
#include "harness/measure/decode_point.h"
#include "harness/measure/prompt_maker.h"
#include "harness/plan/settings.h"
#include "harness/python/engine/arrays.h"
#include "harness/python/engine/held.h"
#include "harness/python/engine/rule.h"

namespace unmask::python {
namespace {

constexpr std::int64_t longest_canvas = 1 << 24;

// What was decided and how sure the model was of each candidate, by request.
class trajectory_watch final : public step_observer {
 public:
  void on_step(const step_view& v) override {
    for (const decision_event& e : v.decisions) {
      const sequence& q = v.state.at(e.sequence);
      events_[q.request.id].add(q.step, e.position - q.prompt_length, e.token, e.what,
                                e.confidence);
    }
    const std::int32_t* begin = v.candidates.begin.as<std::int32_t>();
    for (std::int32_t s = 0; v.candidates.count > 0 && s < v.state.capacity(); ++s) {
      if (begin[s] == begin[s + 1]) continue;
      const sequence& q = v.state.at(s);
      columns& seen = seen_[q.request.id];
      for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
        seen.add(q.step, v.candidates.position.as<std::int32_t>()[i] - q.prompt_length,
                 v.candidates.token.as<std::int32_t>()[i], 0,
                 v.candidates.probability.as<float>()[i]);
      }
    }
  }

  // Arrays step, position, token, kind and confidence; once for each request.
  nb::tuple events(std::int64_t request) { return events_[request].taken(); }
  nb::tuple candidates(std::int64_t request) { return seen_[request].taken(); }

 private:
  struct columns {
    std::vector<std::int32_t> step, position, token;
    std::vector<std::uint8_t> kind;
    std::vector<float> confidence;
    void add(std::int32_t at, std::int32_t where, std::int32_t what, std::uint8_t how, float sure) {
      step.push_back(at);
      position.push_back(where);
      token.push_back(what);
      kind.push_back(how);
      confidence.push_back(sure);
    }
    nb::tuple taken() {
      return nb::make_tuple(array_of(std::move(step)), array_of(std::move(position)),
                            array_of(std::move(token)), array_of(std::move(kind)),
                            array_of(std::move(confidence)));
    }
  };
  std::map<std::int64_t, columns> events_, seen_;
};

nb::dict counts_of(const sequence_counters& work) {
  nb::dict counts;
  for (const counter_spec& c : counter_list()) {
    if (c.counted()) {
      counts[c.metric] = static_cast<std::int64_t>(c.of(work));
    } else {
      counts[c.metric] = c.of(work);
    }
  }
  return counts;
}

nb::list answers_of(const std::vector<answer_record>& answers, const loaded_model& model,
                    trajectory_watch* watch) {
  const token_rules rules = rules_of(model.config);
  nb::list all;
  for (const answer_record& a : answers) {
    const auto length = static_cast<std::size_t>(answer_tokens_of(a, rules));
    nb::dict one;
    one["request"] = a.request;
    one["tokens"] = array_of(a.tokens);
    one["length"] = a.canvas_tokens;
    one["text"] = nb::none();
    if (model.tokens) {
      const std::string text = model.tokens->decode(std::span(a.tokens).first(length), true);
      one["text"] = nb::steal(
          PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
    }
    one["counters"] = counts_of(a.work);
    one["seconds"] = a.seconds;
    one["first_seconds"] = a.first_block_seconds;
    if (watch) {
      one["events"] = watch->events(static_cast<std::int64_t>(a.request));
      one["candidates"] = watch->candidates(static_cast<std::int64_t>(a.request));
    }
    all.append(one);
  }
  return all;
}

}  // namespace

python_model::python_model(const std::string& where, const std::string& weights, int threads,
                           const std::vector<std::string>& run)
    : threads_(threads) {
  const computing now(threads);
  experiment_spec spec;
  spec.models = {entry_of_model(where)};
  spec.models.front().weights = weights;
  for (const std::string& assignment : run) apply_override(spec, "run." + assignment);
  base_.model = spec.models.front();
  for (const dotted_setting& setting : spec.overrides) (void)apply_setting(base_, setting, {});
  check_run_keys(base_.run);
  if (base_.run.device == "auto") base_.run.device = choose_device("auto").name;
  check_run_device(base_.run);
  model_ = load_model_of(base_);
}

const std::shared_ptr<loaded_model>& python_model::loaded() const {
  if (!model_) throw usage_error("the model is closed");
  return model_;
}

experiment_point python_model::point_of(const decode_order& order) const {
  experiment_point p = base_;
  p.method = order.method.empty() ? usual_method(model_->config) : order.method;
  p.label = p.method;
  p.preset = order.preset;
  p.run.batch_size = order.batch_size;
  p.run.gen_length = order.gen_length;
  p.run.seed = order.seed;
  check_run_keys(p.run);
  if (order.gen_length < 1 || order.gen_length > longest_canvas) {
    throw usage_error("gen_length is from 1 to " + std::to_string(longest_canvas) + ", not " +
                      std::to_string(order.gen_length));
  }
  const method_info& method = method_registry::instance().find(p.method);
  p.params = method.resolve(p.preset, order.params);
  method.check(model_->config, parameters(p.params));
  return p;
}

std::shared_ptr<const loaded_workload> python_model::workload_of(
    const decode_order& order, const experiment_point& point) const {
  auto w = std::make_shared<loaded_workload>();
  for (std::size_t i = 0; i < order.prompts.size(); ++i) {
    const std::vector<std::int32_t>& prompt = order.prompts[i];
    const bool all_known = std::ranges::all_of(
        prompt, [&](std::int32_t id) { return id >= 0 && id < model_->config.vocabulary; });
    if (prompt.empty() || !all_known) {
      throw usage_error("prompt " + std::to_string(i) +
                        (prompt.empty() ? " has no token"
                                        : " has a token that is not in the vocabulary of " +
                                              std::to_string(model_->config.vocabulary)));
    }
    sequence_request request;
    request.prompt = prompt;
    request.gen_length = static_cast<std::int32_t>(order.gen_length);
    request.seed = request_seed(point.run, i);
    request.id = static_cast<std::int64_t>(i);
    w->requests.push_back(std::move(request));
  }
  w->record.family = "prompts";
  w->record.items = static_cast<std::int64_t>(w->requests.size());
  w->record.prompts_hash = hash_of_prompts(w->requests);
  return w;
}

nb::dict python_model::decode(const decode_order& order) {
  if (order.prompts.empty()) throw usage_error("decode needs a prompt");
  trajectory_watch watch;
  measured_point measured;
  std::vector<answer_record> finished;
  result_row row;
  std::shared_ptr<rule_failure> failed;
  {
    const computing now(threads_);
    const std::shared_ptr<loaded_model> model = loaded();
    const experiment_point point = point_of(order);
    const auto workload = workload_of(order, point);
    decode_point ready(point, model, workload, times_);
    model->make_room(ready.rows());
    row.method = point.method;
    row.params = point.params;
    row.run = point.run;
    row.workload = workload->record;
    row.model = ready.model();
    measured.rules = ready.rules();
    measured.knobs = ready.knobs();
    measured.first_late_layer = ready.first_late_layer();
    try {
      measured.passes.push_back(ready.pass(order.trace ? &watch : nullptr, &finished));
      finished = measured.passes.front().answers;
      measure_row(row, measured);
      for (const auto& [name, value] : ready.measured_settings()) row.params[name] = value;
    } catch (const rule_failure& problem) {
      failed = std::make_shared<rule_failure>(problem);
    }
  }
  nb::dict out;
  out["answers"] = answers_of(finished, *model_, order.trace ? &watch : nullptr);
  out["failed"] = failed ? failed->exception->get() : nb::none();
  nb::dict metrics, params;
  for (const auto& [name, m] : row.metrics) metrics[name.c_str()] = m.value;
  for (const auto& [name, value] : row.params) params[name.c_str()] = object_of(value);
  out["method"] = row.method;
  out["params"] = params;
  out["metrics"] = metrics;
  out["answers_hash"] = row.answers_hash;
  // Of an emulated device only the times mean nothing.
  const bool emulated = row.device && !row.device->times_mean_something;
  const bool only_times = emulated && !failed && row.verdict == row_verdict::invalid;
  out["verdict"] = name_of(only_times ? row_verdict::not_verified : row.verdict);
  out["reason"] = row.reason;
  return out;
}

nb::object python_model::logits(const std::vector<std::int32_t>& ids) {
  auto* rows = new tensor();
  const nb::capsule owner(rows, [](void* p) noexcept { delete static_cast<tensor*>(p); });
  {
    const computing now(threads_);
    const std::shared_ptr<loaded_model> model = loaded();
    decode_order one;
    one.prompts = {ids};
    (void)workload_of(one, base_);  // refuses tokens that are none
    model->make_room(static_cast<std::int32_t>(ids.size()));
    *rows = plain_forward(*model->packed, ids, model->config.attention, model->config.block);
  }
  const std::size_t width = static_cast<std::size_t>(rows->view().shape[1]);
  return nb::cast(
      nb::ndarray<nb::numpy, float, nb::ndim<2>>(rows->as<float>(), {ids.size(), width}, owner));
}

std::vector<std::vector<std::int32_t>> python_model::encode(const std::vector<std::string>& texts,
                                                            bool chat, bool thinking) {
  const nb::gil_scoped_release free;
  const prompt_maker prompts(*loaded(), !thinking);
  std::vector<std::vector<std::int32_t>> all;
  if (chat) {
    for (made_prompt& made : prompts.questions(texts)) all.push_back(std::move(made.tokens));
  } else {
    for (const std::string& text : texts) all.push_back(prompts.raw(text).tokens);
  }
  return all;
}

std::string python_model::text(const std::vector<std::int32_t>& tokens, bool special) {
  const std::shared_ptr<loaded_model> model = loaded();
  if (!model->tokens)
    throw environment_error(model->directory.string() + ": has no tokenizer.json");
  for (const std::int32_t id : tokens) {
    if (id >= 0 && id < model->config.vocabulary) continue;
    throw usage_error("token " + std::to_string(id) + " is not in the vocabulary of " +
                      std::to_string(model->config.vocabulary));
  }
  return model->tokens->decode(tokens, !special);
}

nb::dict python_model::about() const {
  const model_config& c = loaded()->config;
  nb::dict all;
  all["name"] = base_.model.name;
  all["path"] = base_.model.path.string();
  all["device"] = base_.run.device;
  all["vocabulary"] = c.vocabulary;
  all["layers"] = c.layers;
  all["hidden"] = c.hidden;
  all["mask_id"] = c.mask_id;
  all["stop_ids"] = c.stop_ids;
  all["max_positions"] = c.max_positions;
  all["parameters"] = c.parameters();
  all["method"] = usual_method(c);
  all["hash"] = model_->record.hash;
  return all;
}

void python_model::close() {
  const computing now(threads_);
  model_.reset();
}

}  // namespace unmask::python
