// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/prior.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "methods/parts/specs.h"

namespace unmask {
namespace {

using prior_tokens = std::vector<std::array<std::int32_t, 2>>;  // [place in the response, token]

prior_tokens read_prior(const std::string& method, const model_config& model,
                        const std::string& text) {
  prior_tokens all;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto refuse = [&](const std::string& problem) {
    throw usage_error(method + ": prior is '" + text + "' but " + problem);
  };
  const auto number = [&](char before) {
    std::int32_t n = -1;
    const bool begins = before == 0 || (at != end && *at++ == before);
    const auto [behind, failed] = std::from_chars(at, end, n);
    if (!begins || n < 0 || failed != std::errc())
      refuse("must hold places and tokens, as 4:17,12:90");
    at = behind;
    return n;
  };
  while (at != end) {
    const std::int32_t place = number(all.empty() ? '\0' : ','), token = number(':');
    if (token >= model.vocabulary || token == model.mask_id) {
      refuse("token " + std::to_string(token) + " is the mask or outside the vocabulary");
    }
    if (std::ranges::any_of(all, [&](const auto& other) { return other[0] == place; })) {
      refuse("names place " + std::to_string(place) + " twice");
    }
    all.push_back({place, token});
  }
  return all;
}

class prior_pace final : public pace_policy {
 public:
  prior_pace(std::string method, prior_tokens prior, std::unique_ptr<pace_policy> pace)
      : pace_policy(pace->shape()),
        method_(std::move(method)),
        prior_(std::move(prior)),
        pace_(std::move(pace)) {}

  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override {
    for (const auto& [place, token] : prior_) {
      if (place < request.gen_length) continue;
      throw usage_error(method_ + ": prior names place " + std::to_string(place) +
                        " of a response of " + std::to_string(request.gen_length) + " tokens");
    }
    return pace_->canvas_length(model, request);
  }
  void start(batch& b, std::int32_t s) override {
    for (const auto& [place, token] : prior_) {
      const std::int32_t position = b.at(s).prompt_length + place;
      b.canvas().row<std::int32_t>(s)[position] = token;
      b.set_state(s, position, position + 1, state_decoded);
    }
    pace_->start(b, s);
  }
  std::int32_t prefill_rows(const batch& b, std::int32_t s) const override {
    return pace_->prefill_rows(b, s);
  }
  void begin(const batch& b, const schedule_action* parts) override { pace_->begin(b, parts); }
  sequence_step plan(const batch& b, std::int32_t s) override { return pace_->plan(b, s); }
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override {
    pace_->observe(b, s, step, outcome);
  }
  bool closed(const batch& b, std::int32_t s, std::int32_t first,
              std::int32_t last) const override {
    return pace_->closed(b, s, first, last);
  }
  std::string learnt() const override { return pace_->learnt(); }

 private:
  std::string method_;
  prior_tokens prior_;
  std::unique_ptr<pace_policy> pace_;
};

}  // namespace

parameter_spec prior_parameter() {
  return later(text_spec("prior", "",
                         "Dream, Dimple: tokens that the response has before the first step, as "
                         "places and token ids: 4:17,12:90",
                         "Dimple generation_utils.py (generation_tokens_hook_func)"));
}

std::unique_ptr<pace_policy> with_prior(const std::string& method, const model_config& model,
                                        const parameters& p, std::unique_ptr<pace_policy> pace) {
  if (!has_prior(p)) return pace;
  return std::make_unique<prior_pace>(method, read_prior(method, model, p.text("prior")),
                                      std::move(pace));
}

}  // namespace unmask
