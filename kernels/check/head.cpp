// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check's cases of a head with many candidates, and the races of both newer kernels of a head.
#include <numeric>

#include "kernels/check/checker.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/head_tiles.h"
#include "kernels/head.h"

namespace unmask::device_checks {
namespace {

// More candidates than one tile has, and tokens whose last tile is no whole one, of which some are banned; k ends
// within a step. A margin asks for the second largest logit too.
void many_candidates_of(checker& c, std::int64_t tokens, std::int64_t width) {
  const std::int64_t count = cuda::head_tile_rows * 2 - 19;
  // Logits as large in any width, so that the best token has a share of the whole that errors change.
  const mirrored x = c.reals({count, width}),
                 weight = c.reals({tokens, width}, 4 / std::sqrt(static_cast<float>(width)));
  const packed_handle here = c.reference().pack(weight.here, weight_format::bf16),
                      there = c.device().pack(weight.here, weight_format::bf16);
  std::vector<std::int32_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  const auto candidates = static_cast<std::int32_t>(count);
  const mirrored row = c.ints(all), begin = c.ints({0, candidates}),
                 banned = c.ints({0, static_cast<std::int32_t>(tokens) - 1});
  for (const bool seconds : {false, true}) {
    const mirrored p = c.poisoned({count}), margin = c.poisoned({count}),
                   token = c.poisoned(dtype::i32, {count});
    c.both([&](const side& s) {
      confidence_params params;
      params.banned = s.at(banned);
      params.banned_count = 2;
      confidence_out o;
      o.token = s.at(token);
      o.probability = s.at<float>(p);
      if (seconds) o.margin = s.at<float>(margin);
      s.with().run(op::confidence{s(x),
                                  s.is_device() ? *there : *here,
                                  {1, candidates, s.at(begin), s.at(row), s.at(row)},
                                  params,
                                  o});
    });
    // As of few candidates (layers.cpp): inputs are rounded to bfloat16.
    const std::string what = "bf16 " + c.text({count, tokens, width});
    c.compare("confidence", what, p, 0.2, 2e-2);
    if (seconds) c.compare("confidence", what + " margin", margin, 0.2, 2e-2);
  }
}

// More steps of k than stages, so that each is filled again; and more tiles than the card computes at once, so that
// blocks compute two in turn. The second of them fills the stage that the first read last.
void many_candidates(checker& c) {
  constexpr std::int64_t depth = cuda::head_tile_depth, cluster = cuda::head_tile_cluster,
                         stages = cuda::head_tile_stages;
  many_candidates_of(c, c.size(4 * cuda::head_tile_tokens - 15, 16003),
                     c.size((stages + 1) * depth + 8, 512));
  const std::int64_t clusters =
      cuda::multiprocessors_of(c.device().where() == target::cuda) / cluster;
  many_candidates_of(c, (clusters / 2 + 1) * cluster * cuda::head_tile_tokens - 15,
                     (stages - 1) * depth + 8);
}

// A head of 32,000 tokens.
std::function<void()> asked_of(const backend& device, std::int64_t count) {
  constexpr std::int64_t width = 512, tokens = 32000;
  struct operands {
    tensor x, w;
    packed_handle head;
    tensor lists, token, p;
  };
  const auto numbers = [&](std::int64_t rows) {
    tensor t = device.allocate(dtype::f32, {rows, width});
    std::vector<float> v(static_cast<std::size_t>(rows * width));
    for (std::size_t i = 0; i < v.size(); ++i) {
      v[i] = static_cast<float>(i * 2654435761U % 1024) / 512.0F - 1.0F;
    }
    device.write(t.view().data, v.data(), t.bytes());
    return t;
  };
  const auto all = std::make_shared<operands>();
  all->x = numbers(count);
  all->w = numbers(tokens);
  all->head = device.pack(all->w.view(), weight_format::bf16);
  all->lists = device.allocate(dtype::i32, {count + 2}, memory_use::host_visible);
  all->token = device.allocate(dtype::i32, {count}, memory_use::host_visible);
  all->p = device.allocate(dtype::f32, {count}, memory_use::host_visible);
  auto* list = all->lists.as<std::int32_t>();
  std::iota(list, list + count, 0);
  list[count] = 0;
  list[count + 1] = static_cast<std::int32_t>(count);
  return [&device, all, count] {
    const auto* at = all->lists.as<std::int32_t>();
    confidence_out out;
    out.token = all->token.as<std::int32_t>();
    out.probability = all->p.as<float>();
    device.run(op::confidence{all->x.view(),
                              *all->head,
                              {1, static_cast<std::int32_t>(count), at + count, at, at},
                              confidence_params{},
                              out});
  };
}

// The fold of chunks is told from the one before by candidates that the other kernel does not take.
constexpr std::int64_t folded = 320, multiplied_too = 512;
static_assert(!cuda::head_tiles_pay(folded) && cuda::head_tiles_pay(multiplied_too));

const register_device_check of_many("bf16 confidence of many rows", many_candidates,
                                    cuda::products_of(weight_format::bf16),
                                    cuda::multiplied::head_product);
const register_device_race raced_fold("head", cuda::multiplied::head,
                                      [](const backend& on) { return asked_of(on, folded); });
const register_device_race raced_product("head's product", cuda::multiplied::head_product,
                                         [](const backend& on) {
                                           return asked_of(on, multiplied_too);
                                         });

}  // namespace
}  // namespace unmask::device_checks
