// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/sparse_d/pattern_keys.h"
#include "kernels/shared_vector.h"

#include <algorithm>

#include "kernels/rows.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "methods/baselines/vanilla/canvas_recipe.h"

namespace unmask {

std::int32_t pattern_keys::first_answer_block(std::int32_t length, std::int32_t gen_length,
                                              std::int32_t block_size) {
  const std::int32_t prompt = length - gen_length;
  return std::min((prompt + block_size - 1) / block_size, (length - 1) / block_size);
}

std::int32_t pattern_keys::kept_blocks(std::int32_t n, double select) {
  return std::min(n, static_cast<std::int32_t>(n * select) + 1);
}

void pattern_keys::allocate(const batch& b) {
  if (!keep_.empty()) return;
  const ops& backend = b.backend();
  const model_config& model = b.model();
  const std::int64_t s = b.capacity();
  blocks_ = (b.max_length() + settings_.block_size - 1) / settings_.block_size;
  const auto tiles = [&](dtype type) {
    return backend.allocate(type, {s, model.heads, blocks_, blocks_});
  };
  for (std::int32_t l = 0; l < model.layers; ++l) {
    keep_.push_back(tiles(dtype::u8));
    keys_.push_back(backend.allocate(dtype::f32, {s, blocks_}));
  }
  mass_ = tiles(dtype::f32);
  applies_ = backend.allocate(dtype::u8, {s});
  made_ = backend.allocate(dtype::u8, {s});
  for (tensor* t : {&make_.length, &make_.blocks, &make_.zero, &make_.last, &make_.last_slot,
                    &make_.count, &make_.last_count}) {
    *t = backend.allocate(dtype::i32, {s});
  }
  const std::int64_t n = s * b.max_length();
  rows_.begin = backend.allocate(dtype::i32, {s + 1});
  rows_.position = backend.allocate(dtype::i32, {n});
  rows_.sequence = backend.allocate(dtype::i32, {n});
  flops_.assign(static_cast<std::size_t>(s), 0.0);
}

key_set pattern_keys::select(const batch& b, const step_plan& plan, std::int32_t layer,
                             const tensor_view& q, const paged_kv& cache,
                             const std::int32_t* kv_length) {
  allocate(b);
  layer_ = layer;
  bool make = false, sparse = false;
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const bool active = plan.of[static_cast<std::size_t>(s)].active;
    const sequence& one = b.at(s);
    const std::int32_t end =
        active ? static_cast<std::int32_t>(planned_steps(schedule_, one.request.gen_length) *
                                           settings_.skip) +
                     1
               : 0;
    made_.as<std::uint8_t>()[s] = active && one.step == end ? 1 : 0;
    applies_.as<std::uint8_t>()[s] = active && one.step > end ? 1 : 0;
    make = make || (active && one.step == end);
    sparse = sparse || (active && one.step > end);
  }
  std::fill(flops_.begin(), flops_.end(), 0.0);
  if (make) make_pattern(b, plan, layer, q, cache);
  key_set keys = key_policy::select(b, plan, layer, q, cache, kv_length);
  if (sparse) {
    keys.tiles = {keep_[static_cast<std::size_t>(layer)].as<std::uint8_t>(),
                  applies_.as<std::uint8_t>(), blocks_, settings_.block_size};
  }
  return keys;
}

void pattern_keys::make_pattern(const batch& b, const step_plan& plan, std::int32_t layer,
                                const tensor_view& q, const paged_kv& cache) {
  const ops& backend = b.backend();
  const model_config& model = b.model();
  const std::int32_t size = settings_.block_size;
  std::int32_t* length = make_.length.as<std::int32_t>();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const auto i = static_cast<std::size_t>(s);
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
    // Every query with every key, and with the keys of the answer once more.
    flops_[i] = 2.0 * model.heads * model.head_dim * n * (2.0 * n - last * size);
  }
  // The rows of this forward are those of every active sequence; sequences that make nothing keep
  // their rows in the list and are left alone because their length is 0.
  shared_vector<std::int32_t> first, last;
  for (const sequence_step& step : plan.of) {
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
  if (rows_.rows != q.rows()) throw std::logic_error("sparse_d: a row of the canvas is missing");
  const row_set rows = rows_.set(b.capacity());
  const tensor& keep = keep_[static_cast<std::size_t>(layer)];
  const auto of = [](const tensor& t) { return t.as<std::int32_t>(); };
  backend.run(
      op::block_mass{rows, q, cache, length, of(make_.zero), size, settings_.pattern_scale, mass_});
  backend.run(op::keep_top_blocks{mass_, of(make_.blocks), of(make_.zero), of(make_.last),
                                  of(make_.count), keep});
  backend.run(op::block_mass{rows, q, cache, length, of(make_.last_slot), size,
                             settings_.pattern_scale, mass_});
  backend.run(op::keep_top_blocks{mass_, of(make_.blocks), of(make_.last), of(make_.blocks),
                                  of(make_.last_count), keep});
  backend.run(op::block_mask_keys{keep, made_.as<std::uint8_t>(), size, length,
                                  keys_[static_cast<std::size_t>(layer)]});
  backend.synchronize();  // the lists end here, and mean_keys_of_row reads the result
}

double pattern_keys::mean_keys_of_row(const batch& b, const key_set& keys, std::int32_t s,
                                      std::int32_t position) const {
  if (keys.tiles.keep == nullptr || keys.tiles.applies[s] == 0) {
    return key_policy::mean_keys_of_row(b, keys, s, position);
  }
  return keys_[static_cast<std::size_t>(layer_)].row<float>(s)[position / settings_.block_size];
}

double pattern_keys::selection_flops(const batch&, std::int32_t s) const {
  return flops_[static_cast<std::size_t>(s)];
}

}  // namespace unmask
