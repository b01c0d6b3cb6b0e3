// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The device check's cases of Optimus' chunks.
#include "kernels/check/checker.h"
#include "methods/optimus/kernels/chunk.h"

namespace unmask::device_checks {
namespace {

void chunks(checker& c) {
  const std::int64_t sequences = 3, length = 96;
  const mirrored state = c.states(sequences, length);
  const mirrored first = c.ints({0, 32, 64}), last = c.ints({96, 96, 96}),
                 size = c.ints({8, 40, 5});
  const auto list = [&](dtype type) { return c.empty(type, {sequences * length}); };
  const mirrored begin = c.empty(dtype::i32, {sequences + 1}), owner = list(dtype::i32),
                 place = list(dtype::i32), slot = list(dtype::i32), settles = list(dtype::u8);
  std::int32_t rows[2] = {};
  c.both([&](const side& s) {
    chunk_params params;
    params.first = s.at(first);
    params.last = s.at(last);
    params.size = s.at(size);
    params.block = 32;
    rows[s.is_device()] = s.with().run(
        op::select_chunk{static_cast<std::int32_t>(sequences), s(state), params, s.at(begin),
                         s.at(owner), s.at(place), s.at(slot), s.at<std::uint8_t>(settles)});
  });
  c.report("select_chunk", "rows", rows[0] == rows[1] ? 0 : 2);
  c.same("select_chunk", "position", place);
  c.same("select_chunk", "slot", slot);
  c.same("select_chunk", "settles", settles);
}

const register_device_check registered_chunks("select_chunk", chunks);

}  // namespace
}  // namespace unmask::device_checks
