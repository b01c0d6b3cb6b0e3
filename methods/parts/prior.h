// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Tokens that a response has before the first step: Dimple's structure priors.
#pragma once

#include <memory>
#include <string>

#include "harness/decode/registry.h"

namespace unmask {

// prior: places in the response and their token ids, as 4:17,12:90.
parameter_spec prior_parameter();

// The pace with the tokens of `prior` written and decoded when a request starts, so that it never
// counts them as masks; `pace` itself if there are none. Usage error that begins with `method` for a
// text of another form, for a place given twice, for the mask and for a token outside the vocabulary;
// canvas_length() throws it for a place behind the response.
std::unique_ptr<pace_policy> with_prior(const std::string& method, const model_config& model,
                                        const parameters& p, std::unique_ptr<pace_policy> pace);

// Whether a method that takes the parameter is given one.
inline bool has_prior(const parameters& p) {
  return p.values().contains("prior") && !p.text("prior").empty();
}

}  // namespace unmask
