// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How each published model is decoded by those who made it: one table.
#pragma once

#include <span>
#include <string>

#include "harness/model/config.h"

namespace unmask {

struct published_decoding {
  const char* model;    // in words
  model_family family;  // with `attention` and `release` what a checkpoint must be
  mask_kind attention;
  const char* release;   // model_config::release
  const char* method;    // of the registry
  const char* preset;    // of that method; "": its defaults
  const char* settings;  // on top: name=value, separated by spaces
  const char* source;    // where those settings are published
  const char* missing;   // what of it no method here does; "": nothing
};

std::span<const published_decoding> published_decodings();

// The row of the table that a checkpoint falls under; every supported architecture has one.
const published_decoding& decoding_of(const model_config& model);

// "llada21 --preset quality: SOURCE; no method here does DELETIONS", for `unmask doctor`.
std::string describe(const published_decoding& decoding);

// What the reader of a row must know: the checkpoint is published with token editing, and this method
// does none, or not all of it. Empty: nothing.
std::string departure_of(const model_config& model, const std::string& method);

}  // namespace unmask
