// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/devices/build_info.h"
#include "harness/devices/device.h"
#include "harness/devices/first_use.h"
#include "kernels/bench/roofs.h"
#include "kernels/cpu/backend.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/device/traffic.h"
#include "kernels/cuda/rank_library.h"

namespace unmask {
namespace {

cpu::isa isa_of(const run_keys& run) {
  return run.isa == "auto" ? cpu::supported_isas().front() : cpu::parse_isa(run.isa);
}

const backend& kernels_of_cpu(const run_keys& run) {
  return cpu::backend_with(isa_of(run), run.gemm == "library"   ? cpu::gemm_path::onednn
                                        : run.gemm == "fastest" ? cpu::gemm_path::automatic
                                                                : cpu::gemm_path::own);
}

device_roofs roofs_of_cpu(const run_keys& run) {
  const bench::roofs& r = bench::measured_roofs(isa_of(run));
  const bool int8 = weight_format_of(run) == weight_format::int8;
  return {int8 ? r.int8_ops : r.f32_flops, r.triad_bytes,
          fmt::format("measured here: {} and triad, {} threads",
                      int8 ? "8-bit dot products" : "multiply-adds", r.threads)};
}

cuda::product_kind product_kind_of(weight_format format) {
  if (format == weight_format::int8) return cuda::product_kind::int8;
  return format == weight_format::bf16 ? cuda::product_kind::bf16 : cuda::product_kind::f32;
}

// A roof that this machine cannot measure, for want of memory or of the library, costs no row.
device_roofs roofs_of_gpu(const run_keys& run) {
  if (cuda::query().devices.empty()) return {};
  device_roofs roofs;
  std::string measured, missing;
  const auto attempt = [&](const char* what, const auto& measure) {
    try {
      measured += (measured.empty() ? "" : " and ") + measure();
    } catch (const error& e) {
      if (e.code() != exit_code::environment) throw;
      missing += fmt::format("; no roof of {}: {}", what, e.what());
    }
  };
  attempt("arithmetic", [&] {
    const cuda::product_roof product =
        cuda::measure_product_roof(0, product_kind_of(weight_format_of(run)));
    roofs.flops_per_second = product.operations_per_second;
    return product.what;
  });
  attempt("memory", [&] {
    roofs.bytes_per_second = cuda::measure_copy_roof(0).bytes_per_second;
    return std::string("copy");
  });
  roofs.source = "measured here: " + (measured.empty() ? "nothing" : measured) + missing;
  return roofs;
}

std::string why_no_cuda() {
  const cuda::report machine = cuda::query();
  if (!machine.built) return "this program was built without CUDA";
  if (machine.devices.empty()) return "no GPU is visible";
  return why_no_gpu(machine, this_build().cuda_architectures);
}

energy_meter meter_of_gpu() {
  const cuda::report machine = cuda::query();
  return energy_meter(machine.devices.empty() ? "" : machine.devices.front().pci_bus_id);
}

std::vector<device> built_in() {
  device cpu{.name = "cpu", .heeds = "cpu", .kernels = kernels_of_cpu};
  cpu.roofs = roofs_of_cpu;

  device reference{.name = "reference", .heeds = "reference"};
  reference.kernels = [](const run_keys&) -> const backend& { return reference_backend(); };

  device cuda{.name = "cuda", .heeds = "cuda", .is_card = true};
  cuda.kernels = [](const run_keys& run) -> const backend& {
    if (run.ranks > 1 && why_no_cuda().empty()) cuda::require_rank_library();
    return cuda_backend(checked_choices(run));
  };
  cuda.need = "CUDA kernels in this program and a GPU to run them";
  cuda.has_graphs = cuda.halves_beside_halves = true;
  cuda.unusable = why_no_cuda;
  cuda.checked = check_gpu;
  cuda.energy = meter_of_gpu;
  cuda.rank_library = cuda::rank_library_version;
  cuda.roofs = roofs_of_gpu;

  device emulated{.name = "cuda-emulated", .heeds = "cuda"};
  emulated.kernels = [](const run_keys& run) -> const backend& {
    return cuda_emulated_backend(checked_choices(run));
  };
  emulated.need = "CUDA kernels that run on the CPU: a build with tests";
  emulated.times_mean_something = false;
  emulated.has_graphs = emulated.halves_beside_halves = emulated.counts_traffic = true;
  emulated.unusable = [] {
    return std::string(
        cuda::emulator::is_built() ? "" : "it belongs to builds with tests; ./dev build makes one");
  };
  return {cpu, reference, cuda, emulated};
}

std::vector<device>& all_devices() {
  static std::vector<device> all = built_in();
  return all;
}

}  // namespace

const std::vector<device>& device_list() {
  return all_devices();
}

const device& find_device(const std::string& name) {
  for (const device& d : all_devices()) {
    if (d.name == name) return d;
  }
  throw usage_error("unknown device '" + name +
                    "'; known: " + joined(names_in(all_devices(), &device::name), ", "));
}

const device* device_if_chosen(const std::string& name) {
  return name == "auto" ? nullptr : &find_device(name);
}

void register_device(device added) {
  allow_word("device", added.name);
  all_devices().push_back(std::move(added));
}

}  // namespace unmask
