// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operations recorded once and repeated: a CUDA graph in the nvcc build, the list of launches in
// the emulator.
#include <algorithm>
#include <string>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/recording_kernels.h"
#include "kernels/cuda/row_buckets.h"
#include "kernels/rows.h"

namespace unmask::cuda::UNMASK_TARGET {
namespace {

class recorded_queue final : public captured_graph {
 public:
  recorded_queue(const device_backend& by, std::shared_ptr<const recorded_launches> work)
      : by_(by), work_(std::move(work)) {}
  const device_backend& by() const { return by_; }
  const recorded_launches& work() const { return *work_; }

 private:
  const device_backend& by_;
  std::shared_ptr<const recorded_launches> work_;
};

}  // namespace

std::int32_t device_backend::graph_bucket(std::int32_t rows) const {
  if (!choices_.graphs || rows > max_graph_rows) return 0;
  return static_cast<std::int32_t>(row_bucket(rows));
}

std::unique_ptr<captured_graph> device_backend::capture(const std::function<void()>& body) const {
  queue_.begin_recording();
  try {
    body();
  } catch (...) {
    queue_.drop_recording();
    throw;
  }
  return std::make_unique<recorded_queue>(*this, queue_.end_recording());
}

void device_backend::replay(const captured_graph& work) const {
  const auto* own = dynamic_cast<const recorded_queue*>(&work);
  if (own == nullptr || &own->by() != this) {
    throw std::logic_error(std::string(backend_name) + ": work recorded by another backend");
  }
  queue_.repeat(own->work());
}

namespace {

void stage_rows(const device_backend& device, const op::stage_rows& args) {
  device.work().lists_change();
  const std::int64_t entries = std::max(args.padded, args.rows.sequences + 1);
  device.work().launch(
      "stage_rows", {blocks_for(entries, stage_threads), stage_threads}, stage_rows_kernel,
      {device.in(args.rows),
       device.in(args.canvas),
       device.in(args.own),
       device.in(args.index),
       args.padded,
       {device.out(args.to.row_begin), device.out(args.to.sequence), device.out(args.to.position),
        device.out(args.to.slot), device.out(args.to.token), device.out(args.to.index)}});
}

}  // namespace

const register_operations<stage_rows> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
