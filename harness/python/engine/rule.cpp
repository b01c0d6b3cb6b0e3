// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/python/engine/rule.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/decode/interpreted.h"
#include "harness/python/engine/arrays.h"
#include "harness/python/engine/held.h"
#include "harness/python/engine/slots.h"
#include "harness/python/engine/steps.h"
#include "kernels/decisions.h"
#include "kernels/head.h"
#include "kernels/rows.h"

namespace unmask::python {
namespace {

// What a rule asks for beyond tokens and their confidences.
struct wanted {
  bool margin = false, entropy = false, logits = false, hidden = false;
  bool together = false;  // it is asked once for all requests of a forward pass
  // Products with the head beyond the base's own.
  std::int32_t more_heads() const { return (margin || entropy ? 1 : 0) + (logits ? 1 : 0); }
};

unmask_traits with_heads(unmask_traits traits, std::int32_t more) {
  traits.more_heads += more;
  return traits;
}

// Rows [C, width] for a rule. A rule may keep them: then the next step gets memory of its own.
class shared_rows {
 public:
  const tensor& room(const backend& on, std::int64_t count, std::int64_t width) {
    if (!rows_ || rows_.use_count() > 1 || rows_->view().rows() < count) {
      rows_ = std::make_shared<tensor>(on.allocate(
          dtype::f32, {std::max<std::int64_t>(count, 1), width}, memory_use::host_visible));
    }
    return *rows_;
  }
  nb::object view(std::int64_t first, std::int64_t count) const {
    auto* owner = new std::shared_ptr<tensor>(rows_);
    const nb::capsule keeps(
        owner, [](void* p) noexcept { delete static_cast<std::shared_ptr<tensor>*>(p); });
    const auto width = static_cast<std::size_t>(rows_->view().shape[1]);
    return nb::cast(nb::ndarray<nb::numpy, float, nb::ndim<2>>(
        rows_->as<float>() + first * static_cast<std::int64_t>(width),
        {static_cast<std::size_t>(count), width}, keeps));
  }

 private:
  std::shared_ptr<tensor> rows_;
};

template <class T>
nb::object copied(const T* all, std::int32_t first, std::int32_t count) {
  return array_of(std::vector<T>(all + first, all + first + count));
}

class python_unmask final : public unmask_policy {
 public:
  python_unmask(std::unique_ptr<unmask_policy> base, std::shared_ptr<const asked_rule> rule,
                wanted wants)
      : unmask_policy(with_heads(base->traits(), wants.more_heads())),
        base_(std::move(base)),
        rule_(std::move(rule)),
        wants_(wants) {}

  void judge(const batch& b, const step_choice& plan, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    base_->judge(b, plan, head_input, head, c);
    const std::int64_t n = c.count;
    if (wants_.margin || wants_.entropy) {
      confidence_out out;
      if (wants_.margin) out.margin = c.margin.as<float>();
      if (wants_.entropy) out.negative_entropy = c.negative_entropy.as<float>();
      b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), {}, out});
    }
    if (wants_.logits) {
      const tensor& room = logits_.room(b.backend(), n, b.model().vocabulary);
      b.backend().run(op::logits{head_input, head, c.row.as<std::int32_t>(), room.view().first(n)});
    }
    if (wants_.hidden) {
      const tensor& room = hidden_.room(b.backend(), n, b.model().hidden);
      b.backend().run(op::gather_rows{head_input, c.row.as<std::int32_t>(), room.view().first(n)});
    }
  }

  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    b.backend().synchronize();
    for (std::int32_t i = 0; i < c.count; ++i) c.accept.as<std::uint8_t>()[i] = decision_keep;
    const std::int32_t* begin = c.begin.as<std::int32_t>();
    std::vector<std::int32_t> asked;  // batch slots
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
      if (step.active && !step.recompute && begin[s] < begin[s + 1]) asked.push_back(s);
    }
    if (!asked.empty()) {
      const nb::gil_scoped_acquire hold;
      rule_->asked([&] {
        if (wants_.together) return decide_together(b, plan, asked, c);
        for (const std::int32_t s : asked) {
          take(rule_->ask("decide", shown(b, plan, s, c)), s, c);
        }
      });
    }
    base_->learn(b, plan, c);
  }

  void learn(const batch& b, const step_choice& plan, const candidate_lists& c) override {
    base_->learn(b, plan, c);
  }

 private:
  void decide_together(const batch& b, const step_choice& plan,
                       const std::vector<std::int32_t>& asked, candidate_lists& c) const {
    nb::list all, words;
    for (const std::int32_t s : asked) all.append(shown(b, plan, s, c));
    words.append(all);
    const nb::object answers = rule_->ask("decide_together", words);
    for (std::size_t i = 0; i < asked.size(); ++i) take(answers[i], asked[i], c);
  }

  // What rules.py is told of the candidates of batch slot s.
  nb::list shown(const batch& b, const step_choice& plan, std::int32_t s,
                 const candidate_lists& c) const {
    const std::int32_t first = c.begin.as<std::int32_t>()[s];
    const std::int32_t count = c.begin.as<std::int32_t>()[s + 1] - first;
    nb::list seen =
        rule_->step(asked_rule::question::decide, b, plan.of[static_cast<std::size_t>(s)], s);
    const sequence& q = b.at(s);
    std::vector<std::int64_t> position;
    std::vector<std::uint8_t> masked;
    std::vector<std::int32_t> current;
    for (std::int32_t i = first; i < first + count; ++i) {
      const std::int32_t at = c.position.as<std::int32_t>()[i];
      const bool is_masked = b.state().row<std::uint8_t>(s)[at] == state_masked;
      position.push_back(at - q.prompt_length);
      masked.push_back(is_masked ? 1 : 0);
      current.push_back(is_masked ? -1 : b.canvas().row<std::int32_t>(s)[at]);
    }
    seen.append(array_of(std::move(position)));
    seen.append(copied(c.token.as<std::int32_t>(), first, count));
    seen.append(copied(c.probability.as<float>(), first, count));
    const nb::object none = nb::none();
    seen.append(traits().revises() ? array_of(std::move(masked)) : none);
    seen.append(traits().revises() ? array_of(std::move(current)) : none);
    seen.append(wants_.margin ? copied(c.margin.as<float>(), first, count) : none);
    seen.append(wants_.entropy ? copied(c.negative_entropy.as<float>(), first, count) : none);
    seen.append(wants_.logits ? logits_.view(first, count) : none);
    seen.append(wants_.hidden ? hidden_.view(first, count) : none);
    return seen;
  }

  // The answer of rules.py: a decision [C] uint8, and tokens [C] int32 or None.
  static void take(const nb::object& answer, std::int32_t s, candidate_lists& c) {
    const std::int32_t first = c.begin.as<std::int32_t>()[s];
    const std::int32_t count = c.begin.as<std::int32_t>()[s + 1] - first;
    using decisions = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    using tokens = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    const auto what = nb::cast<decisions>(answer[0]);
    if (static_cast<std::int32_t>(what.shape(0)) != count) {
      throw std::logic_error("rules.py: a decision for each candidate is missing");
    }
    for (std::int32_t i = 0; i < count; ++i) {
      c.accept.as<std::uint8_t>()[first + i] = what.data()[i];
    }
    if (nb::object(answer[1]).is_none()) return;
    const auto other = nb::cast<tokens>(answer[1]);
    std::copy_n(other.data(),
                std::min<std::size_t>(other.shape(0), static_cast<std::size_t>(count)),
                c.token.as<std::int32_t>() + first);
  }

  std::unique_ptr<unmask_policy> base_;
  std::shared_ptr<const asked_rule> rule_;
  wanted wants_;
  shared_rows logits_, hidden_;
};

parameter_value value_of(const std::string& name, nb::handle v) {
  if (nb::isinstance<nb::bool_>(v)) return nb::cast<bool>(v);
  if (nb::isinstance<nb::int_>(v)) {
    std::int64_t number = 0;
    if (nb::try_cast(v, number)) return number;
    throw usage_error("parameter '" + name + "' is a number of more than 64 bits");
  }
  if (nb::isinstance<nb::float_>(v)) return nb::cast<double>(v);
  if (nb::isinstance<nb::str>(v)) {
    std::string text;
    if (nb::try_cast(v, text)) return text;
    throw usage_error("parameter '" + name + "' is a text with half a surrogate pair");
  }
  throw usage_error("parameter '" + name + "' is a bool, an int, a float or a text, not " +
                    nb::cast<std::string>(nb::str(v.type().attr("__name__"))));
}

parameter_spec spec_of(const nb::dict& p) {
  parameter_spec spec;
  spec.name = nb::cast<std::string>(p["name"]);
  spec.default_value = value_of(spec.name, p["default"]);
  spec.meaning = nb::cast<std::string>(p["meaning"]);
  spec.minimum = nb::cast<double>(p["low"]);
  spec.maximum = nb::cast<double>(p["high"]);
  spec.choices = nb::cast<std::vector<std::string>>(p["choices"]);
  spec.source = "the rule";
  return spec;
}

// A text that says what the rule is: it has one value, and every point's id has it.
parameter_spec fixed_spec(const std::string& name, const std::string& value,
                          const std::string& meaning) {
  parameter_spec spec;
  spec.name = name;
  spec.default_value = value;
  spec.meaning = meaning;
  spec.choices = {value};
  spec.source = "the rule";
  return spec;
}

// The parameters of the base with the rule's settings of them, then the rule's own.
std::vector<parameter_spec> specs_of(const method_info& base, const parameter_map& settings,
                                     std::vector<parameter_spec> own) {
  for (const auto& [name, value] : settings) {
    const auto at = std::ranges::find(base.parameters, name, &parameter_spec::name);
    if (at != base.parameters.end()) continue;
    throw usage_error(unknown_name("parameter of " + base.name, name,
                                   names_in(base.parameters, &parameter_spec::name)));
  }
  const parameter_map resolved = base.resolve("", settings);
  std::vector<parameter_spec> all;
  for (parameter_spec spec : base.parameters) {
    spec.default_value = resolved.at(spec.name);
    const auto mine = std::ranges::find(own, spec.name, &parameter_spec::name);
    if (mine != own.end()) {
      // Both read it: the rule and, as far as it still matters, its base.
      if (mine->default_value.index() != spec.default_value.index()) {
        throw usage_error("parameter '" + spec.name + "' is also one of " + base.name +
                          ", of another type; give it another name or the same type");
      }
      spec.default_value = mine->default_value;
      spec.minimum = std::max(spec.minimum, mine->minimum);
      spec.maximum = std::min(spec.maximum, mine->maximum);
      own.erase(mine);
    }
    all.push_back(std::move(spec));
  }
  std::ranges::move(own, std::back_inserter(all));
  return all;
}

parameters part_of(const parameters& all, const std::vector<std::string>& names) {
  return parameters(take(all.values(), names));
}

// What the base says of itself and a rule does not change.
method_info info_over(const method_info& base, const nb::dict& rule) {
  method_info m;
  m.name = nb::cast<std::string>(rule["name"]);
  m.summary = nb::cast<std::string>(rule["summary"]);
  m.paper = "none";
  m.source = nb::cast<std::string>(rule["source"]);
  m.pace = base.pace;
  m.rows = base.rows;
  m.keys = base.keys;
  m.cache = base.cache;
  const auto functions = nb::cast<std::vector<std::string>>(rule["functions"]);
  const auto in_python = [&](const char* slot) {
    return std::ranges::find(functions, slot) != functions.end();
  };
  if (in_python("pace")) m.pace = "a Python function over: " + base.pace;
  if (in_python("rows")) m.rows = "a Python function over: " + base.rows;
  m.unmask = in_python("decide") ? "a Python function: " + m.summary : base.unmask;
  m.shape = base.shape;
  m.presets = base.presets;
  for (const method_knob& knob : base.knobs) {  // those of the slots that are still the base's
    const bool of_rule = knob.counter == "decided_early" || knob.counter == "replaced" ||
                         knob.counter == "reopened" || knob.counter == "mask_decided";
    if (!of_rule || !in_python("decide")) m.knobs.push_back(knob);
  }
  m.calibrate = base.calibrate;
  return m;
}

wanted wanted_of(const nb::dict& rule) {
  wanted wants;
  for (const auto& name : nb::cast<std::vector<std::string>>(rule["wants"])) {
    wants.margin |= name == "margin";
    wants.entropy |= name == "entropy";
    wants.logits |= name == "logits";
    wants.hidden |= name == "hidden";
  }
  wants.together = nb::cast<bool>(rule["together"]);
  return wants;
}

}  // namespace

parameter_map map_of(const nb::dict& values) {
  parameter_map map;
  for (const auto& [key, value] : values) {
    std::string name;
    if (!nb::isinstance<nb::str>(key) || !nb::try_cast(key, name)) {
      throw usage_error("the name of a parameter is a text");
    }
    map[name] = value_of(name, value);
  }
  return map;
}

nb::object object_of(const parameter_value& value) {
  return std::visit([](const auto& v) { return nb::object(nb::cast(v)); }, value);
}

void put_rule(const nb::dict& rule) {
  const method_info& base = method_registry::instance().find(nb::cast<std::string>(rule["base"]));
  if (is_interpreted(base)) {
    throw usage_error("base '" + base.name +
                      "' is a rule in Python; the base is a compiled method");
  }
  method_info m = info_over(base, rule);
  std::vector<parameter_spec> own;
  for (const nb::handle p : nb::cast<nb::list>(rule["parameters"]))
    own.push_back(spec_of(nb::cast<nb::dict>(p)));
  const std::vector<std::string> own_names = names_in(own, &parameter_spec::name);
  const std::vector<std::string> base_names = names_in(base.parameters, &parameter_spec::name);
  m.parameters = specs_of(base, map_of(nb::cast<nb::dict>(rule["base_settings"])), std::move(own));
  m.parameters.push_back(fixed_spec("base", base.name, "whose other slots"));
  m.parameters.push_back(
      fixed_spec(rule_code, nb::cast<std::string>(rule["code"]), "SHA-256 of the rule's source"));

  const wanted wants = wanted_of(rule);
  const auto begin = std::make_shared<const held>(nb::object(rule["begin"]));
  m.check = [check = base.check, base_names](const model_config& model, const parameters& p) {
    check(model, part_of(p, base_names));
  };
  m.make = [make = base.make, base_names, own_names, name = m.name, wants, begin](
               const model_config& model, const parameters& p) {
    recipe r = make(model, part_of(p, base_names));
    if (r.unmask->traits().without_rows && (wants.more_heads() > 0 || wants.hidden)) {
      throw usage_error(name + ": its base has candidates without rows, which have no margin, " +
                        "entropy, logits or hidden state");
    }
    const auto asked = std::make_shared<const asked_rule>(
        name, *begin, part_of(p, own_names).values(), r.unmask->traits(), model.vocabulary);
    if (asked->has("pace")) r.pace = paced(std::move(r.pace), asked);
    if (asked->has("rows")) r.rows = chosen_rows(std::move(r.rows), *r.cache, asked);
    if (asked->has("decide")) {
      r.unmask = std::make_unique<python_unmask>(std::move(r.unmask), asked, wants);
    }
    return r;
  };
  method_registry::instance().add(std::move(m));
}

}  // namespace unmask::python
