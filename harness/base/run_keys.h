// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The keys of [run] that say what a point runs with, besides its model, workload and method. The
// list below is the only one: reading, sweeps and --set, checks, point ids, rows, tables, selectors,
// manifests and help are made from it, so that a new key is one line here and the code that heeds it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/base/ranks/shots.h"

namespace unmask {

// X(type, key, unit, default, lowest, highest, words, used, meaning)
//   words: what a text may be, parted by blanks; WORD@DEVICE is for that device alone
//   used:  a row's model holds what the key came to, "auto" resolved, beside what was asked for
// A key at its default is no part of a point's id, so that new keys leave old ids alone; of the
// device, "cpu" is none: it was the default when the first ids were made.
#define UNMASK_RUN_KEYS(X)                                                                      \
  X(std::int64_t, batch_size, "requests", 1, 1, 1 << 20, "", false,                             \
    "decoded together; with kind = \"serve\": batch slots")                                     \
  X(std::int64_t, gen_length, "tokens", 0, 0, 1 << 24, "", false,                               \
    "to generate; 0: what each item asks for")                                                  \
  X(std::int64_t, seed, "", 0, 0, INT64_MAX, "", false, "seed of sampling and remasking noise") \
  X(std::string, device, "", "auto", 0, 0, "auto cpu cuda reference cuda-emulated", false,      \
    "device whose kernels run; auto: cuda if there is a usable GPU, else cpu, and the row "     \
    "records which; cuda-emulated counts what kernels do, and its times mean nothing")          \
  X(std::string, format, "", "auto", 0, 0, "auto f32 bf16 int8", true,                          \
    "number format of packed weights; auto: f32")                                               \
  X(std::string, kv_type, "", "auto", 0, 0, "auto f32 bf16@cuda", true,                         \
    "number format of the KV cache; auto: bf16 on cuda with bf16 weights, f32 otherwise")       \
  X(std::string, gemm, "", "auto", 0, 0, "auto own library fastest@cpu", false,                 \
    "product path: own kernels, a library (oneDNN, cuBLASLt), or whichever is faster; auto: "   \
    "own on cpu, library on cuda")                                                              \
  X(std::string, graphs, "", "auto", 0, 0, "auto on off", false,                                \
    "whether a GPU replays recorded layers as CUDA graphs; auto: on")                           \
  X(std::string, kernels, "", "auto", 0, 0, "auto new before", false,                           \
    "which kernel runs if a GPU has two for an operation; auto: at the first use of the GPU "   \
    "the faster of those that are right, without a device check the one before")                \
  X(std::string, device_check, "", "auto", 0, 0, "auto off", false,                             \
    "check of the kernels against the reference when the program meets a GPU for the first "    \
    "time; off: rows are UNCHECKED")                                                            \
  X(std::string, impose, "", "none", 0, 0, "", false,                                           \
    "unmasking that is replayed while every layer is computed: replay:FILE, steady:N, "         \
    "published statistics such as sdar-8b/sharegpt, or lengths: the workload's lengths")        \
  X(std::int64_t, repeat_window, "", 0, 0, 1 << 16, "", false,                                  \
    "stop a response that repeats its last N tokens three times, for any N from 8 to this "     \
    "(from 1 within its first 23 tokens); 0: never; FOCUS' throughput runs: 32")                \
  X(std::string, isa, "", "auto", 0, 0, "auto avx512 avx2 portable", false,                     \
    "instruction set of the CPU kernels; auto: the widest that this processor has")             \
  X(std::int64_t, ranks, "processes", 1, 1, 64, "", false,                                      \
    "that run the model together (tensor parallel), each with its share of heads and of the "   \
    "width of the feed-forward; on cuda each has a GPU; a launcher may start them on several "  \
    "machines")                                                                                 \
  X(std::int64_t, pieces, "", 0, 0, 64, "", false,                                              \
    "parts in which sums over heads and over the width are added, `ranks` times 1, 2, 4, ...; " \
    "runs with as many have the same bits on any number of ranks; 0: as many as ranks")         \
  X(std::string, experts, "", "hidden", 0, 0, "hidden experts", false,                          \
    "what ranks share of routed experts: hidden: each a part of every expert's width; "         \
    "experts: each some whole experts (expert parallel)")                                       \
  X(std::string, sums, "", "f32", 0, 0, "f32 bf16", false,                                      \
    "number format in which parts of sums travel between ranks; bf16: rounded once, half "      \
    "the bytes, other tokens now and then")                                                     \
  X(std::int64_t, two_shots, "bytes", two_shots_above, 0, INT64_MAX, "", false,                 \
    "up to which ranks send each other whole parts of a sum; of larger ones each adds a "       \
    "stretch and sends what it found, if fewer bytes move: the same bits; the default is a "    \
    "guess, not measured")

struct run_keys {
#define UNMASK_FIELD(type, key, unit, value, low, high, words, used, meaning) type key = value;
  UNMASK_RUN_KEYS(UNMASK_FIELD)
#undef UNMASK_FIELD
  bool operator==(const run_keys&) const = default;
};

struct key_word {
  std::string word, device;  // device empty: any
};

struct run_key {
  const char *name, *unit;
  std::int64_t low, high;  // of numbers
  const char* words;
  bool used;
  const char* meaning;
  std::variant<std::int64_t run_keys::*, std::string run_keys::*> field;

  std::string text(const run_keys& run) const;
  bool is_part_of_ids(const run_keys& run) const;
  std::vector<key_word> words_of() const;
  std::vector<std::string> choices() const;  // without their devices
};

const std::vector<run_key>& run_key_list();
const run_key* find_run_key(std::string_view name);  // null: no such key

// Usage error for a number out of its range or a word that is none of its key's.
void check_run_keys(const run_keys& run);
// One more word of a key, from then on: the name of a device that is registered.
void allow_word(const std::string& key, const std::string& word);

}  // namespace unmask
