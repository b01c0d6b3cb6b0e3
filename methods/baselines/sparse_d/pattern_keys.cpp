// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/sparse_d/pattern_keys.h"

#include <algorithm>

#include "kernels/rows.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "methods/parts/canvas_recipe.h"

namespace unmask {

std::int32_t pattern_keys::first_answer_block(std::int32_t length, std::int32_t gen_length,
                                              std::int32_t block_size) {
  const std::int32_t prompt = length - gen_length;
  return std::min((prompt + block_size - 1) / block_size, (length - 1) / block_size);
}

std::int32_t pattern_keys::kept_blocks(std::int32_t n, double select) {
  return std::min(n, static_cast<std::int32_t>(n * select) + 1);
}

void pattern_keys::allocate(const batch& b, std::int64_t heads) {
  if (!keep_.empty()) return;
  const backend& backend = b.backend();
  const model_config& model = b.model();
  const std::int64_t s = b.capacity();
  blocks_ = (b.max_length() + settings_.block_size - 1) / settings_.block_size;
  const auto tiles = [&](dtype type) {
    return backend.allocate(type, {s, heads, blocks_, blocks_});
  };
  for (std::int32_t l = 0; l < model.layers; ++l) {
    keep_.push_back(tiles(dtype::u8));
    keys_.push_back(backend.allocate(dtype::f32, {s, blocks_}, memory_use::host_visible));
  }
  mass_ = tiles(dtype::f32);
  applies_ = backend.allocate(dtype::u8, {s}, memory_use::host_visible);
  made_ = backend.allocate(dtype::u8, {s}, memory_use::host_visible);
  for (tensor* t : {&make_.length, &make_.blocks, &make_.zero, &make_.last, &make_.last_slot,
                    &make_.count, &make_.last_count}) {
    *t = backend.allocate(dtype::i32, {s}, memory_use::host_visible);
  }
  const std::int64_t n = s * b.max_length();
  rows_.begin = backend.allocate(dtype::i32, {s + 1}, memory_use::host_visible);
  rows_.position = backend.allocate(dtype::i32, {n}, memory_use::host_visible);
  rows_.sequence = backend.allocate(dtype::i32, {n}, memory_use::host_visible);
}

void pattern_keys::choose(const layer_rows& layer, const paged_kv& cache) {
  const batch& b = layer.state;
  allocate(b, layer.q.shape[1]);
  bool make = false;
  sparse_ = false;
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const bool active = layer.plan.of[static_cast<std::size_t>(s)].active;
    const sequence& one = b.at(s);
    const std::int32_t end =
        active ? static_cast<std::int32_t>(planned_steps(schedule_, one.request.gen_length) *
                                           settings_.skip) +
                     1
               : 0;
    made_.as<std::uint8_t>()[s] = active && one.step == end ? 1 : 0;
    applies_.as<std::uint8_t>()[s] = active && one.step > end ? 1 : 0;
    make = make || (active && one.step == end);
    sparse_ = sparse_ || (active && one.step > end);
  }
  if (make) make_pattern(layer, cache);
}

layer_keys pattern_keys::select(const batch& b, const step_choice& plan, std::int32_t layer,
                                const std::int32_t* kv_length) const {
  layer_keys keys = key_policy::select(b, plan, layer, kv_length);
  if (!sparse_) return keys;
  const auto at = static_cast<std::size_t>(layer);
  keys.set.tiles = {keep_[at].as<std::uint8_t>(), applies_.as<std::uint8_t>(), blocks_,
                    settings_.block_size};
  keys.keys_of_blocks = keys_[at].view();
  return keys;
}

void pattern_keys::make_pattern(const layer_rows& layer, const paged_kv& cache) {
  const batch& b = layer.state;
  const backend& backend = b.backend();
  const std::int32_t size = settings_.block_size;
  std::int32_t* length = make_.length.as<std::int32_t>();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const bool makes = made_.as<std::uint8_t>()[s] != 0;
    const sequence& one = b.at(s);
    const std::int32_t n = makes ? one.length : 0;
    const std::int32_t blocks = (n + size - 1) / size;
    const std::int32_t last = makes ? first_answer_block(n, one.request.gen_length, size) : 0;
    length[s] = n;
    make_.blocks.as<std::int32_t>()[s] = blocks;
    make_.zero.as<std::int32_t>()[s] = 0;
    make_.last.as<std::int32_t>()[s] = last;
    make_.last_slot.as<std::int32_t>()[s] = last * size;
    make_.count.as<std::int32_t>()[s] = kept_blocks(blocks, settings_.select);
    make_.last_count.as<std::int32_t>()[s] = kept_blocks(blocks - last, settings_.select);
  }
  // The rows of this forward are those of every active sequence; sequences that make nothing keep
  // their rows in the list and are left alone because their length is 0.
  shared_vector<std::int32_t> first, last;
  for (const sequence_step& step : layer.plan.of) {
    first.push_back(step.active ? step.first : 0);
    last.push_back(step.active ? step.last : 0);
  }
  rows_.rows = backend.run(op::compact{b.capacity(),
                                       {},
                                       0,
                                       first.data(),
                                       last.data(),
                                       rows_.begin.as<std::int32_t>(),
                                       rows_.position.as<std::int32_t>(),
                                       rows_.sequence.as<std::int32_t>()});
  if (rows_.rows != layer.q.rows())
    throw std::logic_error("sparse_d: a row of the canvas is missing");
  const row_set rows = rows_.set(b.capacity());
  const auto at = static_cast<std::size_t>(layer.layer);
  const tensor& keep = keep_[at];
  const auto of = [](const tensor& t) { return t.as<std::int32_t>(); };
  // Every query with every key, and with the keys of the answer once more.
  b.score(op::block_mass{rows, layer.q, cache, length, of(make_.zero), size,
                         settings_.pattern_scale, mass_});
  backend.run(op::keep_top_blocks{mass_, of(make_.blocks), of(make_.zero), of(make_.last),
                                  of(make_.count), keep});
  b.score(op::block_mass{rows, layer.q, cache, length, of(make_.last_slot), size,
                         settings_.pattern_scale, mass_});
  backend.run(op::keep_top_blocks{mass_, of(make_.blocks), of(make_.last), of(make_.blocks),
                                  of(make_.last_count), keep});
  backend.run(op::block_mask_keys{keep, made_.as<std::uint8_t>(), size, length, keys_[at]});
}

}  // namespace unmask
