// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the step loop counts for each sequence, never a method. The list below is the only one:
// fields, sums, checks, metrics of a row and their documentation are made from it, so that a new
// counter is one line here and the line of the loop that counts it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace unmask {

// X(type, field, metric, unit, whole, meaning). `metric` is its name in a result row; `whole` is
// the metric that it is a part of and can never exceed, or "". Integers are counted, reals are
// computed from shapes and counts ("analytic").
#define UNMASK_COUNTERS(X)                                                                       \
  X(std::int64_t, forwards, "nfe", "forwards", "", "forwards that a request took part in")       \
  X(std::int64_t, prefill_forwards, "prefill_forwards", "forwards", "nfe",                       \
    "of those, forwards in which its prompt entered the cache")                                  \
  X(std::int64_t, commit_forwards, "commit_forwards", "forwards", "nfe",                         \
    "of those, forward passes that only wrote the KV of unmasked tokens")                        \
  X(std::int64_t, denoise_steps, "denoise_steps", "forwards", "nfe",                             \
    "of those, denoising steps: forward passes that could unmask a token")                       \
  X(std::int64_t, rows, "rows", "rows", "", "computed positions: rows that entered layer 0")     \
  X(std::int64_t, decode_rows, "decode_rows", "rows", "rows",                                    \
    "of those, rows of forwards outside prefill")                                                \
  X(std::int64_t, layer_rows, "layer_rows", "rows", "",                                          \
    "rows that passed the attention of a layer, summed over layers")                             \
  X(std::int64_t, late_layer_rows, "late_layer_rows", "rows", "layer_rows",                      \
    "of those, rows of layers 2 and up (the first is 0) of forwards outside prefill; of a "      \
    "method that drops rows elsewhere, of the layers behind that")                               \
  X(std::int64_t, feed_forward_rows, "feed_forward_rows", "rows", "layer_rows",                  \
    "of those of all layers, rows that passed the feed-forward as well")                         \
  X(std::int64_t, head_rows, "head_rows", "rows", "", "rows multiplied with the LM head")        \
  X(std::int64_t, committed, "committed", "tokens", "head_rows",                                 \
    "unmasked tokens, less those that were masked again")                                        \
  X(std::int64_t, replaced, "replaced", "tokens", "head_rows",                                   \
    "unmasked tokens that were replaced by another token")                                       \
  X(std::int64_t, flips, "flips", "tokens", "replaced",                                          \
    "of those, back to a token that the position had before")                                    \
  X(std::int64_t, reopened, "reopened", "tokens", "head_rows",                                   \
    "unmasked tokens that were masked again")                                                    \
  X(double, keys_seen, "keys_seen", "keys", "",                                                  \
    "keys attended, summed over rows and layers, mean over the heads")                           \
  X(double, flops, "flops", "FLOP", "",                                                          \
    "arithmetic of all layers and of the head, attention over the keys really seen")             \
  X(double, selection_flops, "selection_flops", "FLOP", "flops",                                 \
    "of that, arithmetic spent to choose keys or rows")                                          \
  /* How often slots of a recipe did other than their defaults; 0: it changed nothing. */        \
  X(std::int64_t, rows_skipped, "rows_skipped", "rows", "",                                      \
    "rows: positions that a forward took in but did not compute")                                \
  X(std::int64_t, rows_dropped, "rows_dropped", "rows", "",                                      \
    "rows: rows that were evicted inside a forward")                                             \
  X(double, keys_hidden, "keys_hidden", "keys", "",                                              \
    "keys: keys that the mask of the model shows but the method left out, counted as keys_seen") \
  X(std::int64_t, kv_reused, "kv_reused", "keys", "",                                            \
    "cache: visible positions whose KV a pass outside prefill did not compute again")            \
  X(std::int64_t, decided_early, "decided_early", "tokens", "committed",                         \
    "unmask: tokens that a pass unmasked beyond the schedule's number, at least one")            \
  X(std::int64_t, mask_decided, "mask_decided", "tokens", "head_rows",                           \
    "unmask: positions unmasked as the mask token itself; by its state such a position is "      \
    "done, by its id it stays a mask")

struct sequence_counters {
#define UNMASK_FIELD(type, field, metric, unit, whole, meaning) type field = 0;
  UNMASK_COUNTERS(UNMASK_FIELD)
#undef UNMASK_FIELD
};

struct counter_spec {
  const char *metric, *unit, *whole, *meaning;
  std::variant<std::int64_t sequence_counters::*, double sequence_counters::*> field;
  bool counted() const { return field.index() == 0; }  // otherwise analytic
  double of(const sequence_counters& c) const;
};

// In the order of the list above.
const std::vector<counter_spec>& counter_list();

// Adds the counts of one more part of the same work.
void add_counters(sequence_counters& to, const sequence_counters& more);

// What is wrong with these counts, as a sentence; empty when all are finite and not negative and no
// part exceeds its whole.
std::string broken_counters(const sequence_counters& c);

}  // namespace unmask
