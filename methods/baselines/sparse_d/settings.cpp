// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/settings.h"

namespace unmask {
namespace {

using enum model_family;

const register_settings sparse_d({.method = "sparse_d",
                                  .refused = {sdar},
                                  .settings = {
                                      {"sparse_d_llada",
                                       llada,
                                       {{"block_length", 8}, {"block_size", 8}, {"skip", 0.1}},
                                       "",
                                       layer_recording::never},
                                      {"sparse_d_dream",
                                       dream,
                                       {{"block_size", 5}, {"select", 0.2}},
                                       "",
                                       layer_recording::never}}});

}  // namespace
}  // namespace unmask
