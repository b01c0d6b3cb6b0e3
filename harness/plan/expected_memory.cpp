// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/expected_memory.h"

#include <algorithm>

#include "harness/devices/device.h"
#include "harness/engine/closed_loop.h"
#include "harness/engine/loop_runner.h"
#include "harness/plan/expected_time.h"

namespace unmask {
namespace {

constexpr double f32_bytes = 4, bf16_bytes = 2;

// Bytes of an element, as [run] asks for it.
struct element_sizes {
  double weight = f32_bytes, kv = f32_bytes, activation = f32_bytes;
};

element_sizes sizes_of(const run_settings& run) {
  const weight_format format = weight_format_of(run);
  const bool half = format == weight_format::bf16;
  element_sizes s;
  s.weight = half ? bf16_bytes : format == weight_format::int8 ? 1 : f32_bytes;
  s.kv = static_cast<double>(size_of(kv_type_of(run)));
  if (half && run.gemm != "own" && find_device(run.device).halves_beside_halves)
    s.activation = bf16_bytes;
  return s;
}

double qkv_width(const model_config& c) {
  return (double(c.heads) + 2.0 * c.kv_heads) * c.head_dim;
}

// `c`: the sizes of one rank; every rank has the embedding of the whole vocabulary.
double weights_of(const model_config& c, std::int32_t vocabulary, const recipe& method,
                  double element) {
  const double table = double(c.vocabulary) * c.hidden;
  double packed = double(c.parameters()) - table;
  if (c.tied_embeddings) packed += table;  // the head is packed for itself
  if (method.features) packed += c.layers * qkv_width(c) * c.hidden;  // Q and K apart from V
  return packed * element + double(vocabulary) * c.hidden * bf16_bytes;
}

double slots_in_pages(std::int32_t slots) {
  return double((slots + kv_page_size - 1) / kv_page_size) * kv_page_size;
}

double kept_by(const model_config& c, const recipe& method, double places, std::int32_t longest,
               std::int64_t pages, double element) {
  const kv_storage largest = method.cache->storage(0, longest);
  const double shared = places * slots_in_pages(largest.scratch_slots);
  const double given = double(pages) * kv_page_size;
  double slots = pages > 0 ? given : shared;
  if (largest.layer_slots > 0) {
    slots = c.layers * (pages > 0 ? given : places * slots_in_pages(largest.layer_slots)) + shared;
  }
  double bytes = slots * 2 * c.kv_heads * c.head_dim * element;
  if (method.features) {  // of each layer its attention's output and its feed-forward's
    bytes += (c.layers - method.features->settings().first_layer) * places *
             slots_in_pages(longest) * 2 * c.hidden * f32_bytes;
  }
  return bytes;
}

// Of pictures, as many rows for each place as one of these requests shows at most.
double picture_rows_of(const model_config& c, const std::vector<sequence_request>& widest) {
  std::ptrdiff_t most = 0;
  for (const sequence_request& r : widest) {
    most = std::max(most, std::ranges::count_if(r.prompt, [](auto token) { return token < 0; }));
  }
  return double(widest.size()) * double(most) * c.hidden * f32_bytes;
}

double activations_of(const model_config& c, const recipe& method, double rows, double element) {
  const bool dense = c.moe.experts == 0 || c.moe.first_dense_layers > 0;
  const double shared = double(c.moe.hidden) * c.moe.shared_experts;
  const double widest = std::max(dense ? double(c.feed_forward) : 0, shared);
  const double one = c.hidden * f32_bytes + (qkv_width(c) + double(c.heads) * c.head_dim) * element;
  const row_traits& traits = method.rows->traits();
  double sets = 1;  // those that are gathered from others have room of their own
  if (!traits.narrows_at.empty()) ++sets;
  if (traits.partial_rows) ++sets;
  const double branches = method.features ? 2 * c.hidden * f32_bytes : 0;
  return rows * (sets * one + c.hidden * (f32_bytes + element) + 3 * widest * element + branches);
}

}  // namespace

run_memory expected_memory(const model_config& whole, const method_info& method,
                           const parameters& given, const run_settings& run,
                           const std::vector<sequence_request>& widest) {
  method.check(whole, given);
  const model_config model = largest_share(whole, static_cast<std::int32_t>(run.ranks));
  const recipe made = method.make(whole, given);
  const element_sizes size = sizes_of(run);
  const auto places = static_cast<std::int32_t>(widest.size());
  std::int32_t longest = 1, rows = 0;
  std::int64_t pages = 0;
  for (const sequence_request& r : widest) {
    longest = std::max(longest, made.pace->canvas_length(model, r));
  }
  if (run.kind == "serve") {
    const parameters serve(run.serve);
    pages = serve.integer("kv_pages");
    rows = engine_rows(model, *made.pace, widest, places,
                       static_cast<std::int32_t>(serve.integer("prefill_tokens")),
                       static_cast<std::int32_t>(serve.integer("prefill_chunk")));
  } else {
    rows = rows_needed(model, method, given, widest, places);
  }
  return {weights_of(model, whole.vocabulary, made, size.weight),
          kept_by(model, made, places, longest, pages, size.kv) + picture_rows_of(model, widest),
          activations_of(model, made, rows, size.activation)};
}

}  // namespace unmask
