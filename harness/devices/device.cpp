// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/devices/device.h"

#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/devices/build_info.h"

namespace unmask {

bool runs_code_of(const std::string& architectures, int major, int minor) {
  std::istringstream in(architectures);
  for (std::string one; in >> one;) {
    int number = 0;
    const auto [end, failed] = std::from_chars(one.data(), one.data() + one.size(), number);
    if (failed != std::errc{}) continue;
    const std::string_view rest(end, one.data() + one.size());
    const int built_major = number / 10, built_minor = number % 10;
    // "90a": for that capability alone. Others: later ones of the same major; PTX for all later ones.
    if (rest.starts_with("a")) {
      if (major == built_major && minor == built_minor) return true;
      continue;
    }
    if (major == built_major && minor >= built_minor) return true;
    if (rest != "-real" && major > built_major) return true;
  }
  return false;
}

std::string why_no_gpu(const cuda::report& machine, const std::string& architectures) {
  if (machine.devices.empty()) {
    return machine.note.empty() ? "no GPU: the driver shows no device" : machine.note;
  }
  const cuda::device_properties& d = machine.devices.front();
  if (runs_code_of(architectures, d.compute_major, d.compute_minor)) return "";
  return fmt::format("no usable GPU: {} has compute capability {}.{}, this program has code for {}",
                     d.name, d.compute_major, d.compute_minor, architectures);
}

chosen_device choose_device(const std::string& wanted, const cuda::report& machine,
                            const std::string& architectures) {
  if (wanted != "auto" && wanted != "cuda") return {wanted, ""};
  const std::string missing = why_no_gpu(machine, architectures);
  if (missing.empty()) return {"cuda", machine.devices.front().name};
  if (wanted == "auto") return {"cpu", missing};
  throw environment_error("device cuda: " + missing + "; use device auto or cpu");
}

chosen_device choose_device(const std::string& wanted) {
  if (wanted != "auto" && !find_device(wanted).is_card) {
    run_keys run;
    run.device = wanted;
    (void)backend_of(run);  // throws if it cannot be used
    return {wanted, ""};
  }
  return choose_device(wanted, cuda::query(), this_build().cuda_architectures);
}

std::string why_no_gpu() {
  return why_no_gpu(cuda::query(), this_build().cuda_architectures);
}

std::string device_line(const std::vector<chosen_device>& devices) {
  std::string line = "device: ";
  for (const chosen_device& d : devices) {
    line += (&d == &devices.front() ? "" : ", ") + d.name;
    if (!d.why.empty()) line += " (" + d.why + ")";
  }
  return line;
}

void check_run_device(const run_keys& run) {
  if (run.device == "auto") return;
  const std::string& heeds = find_device(run.device).heeds;
  for (const run_key& key : run_key_list()) {
    std::string others;
    const key_word* chosen = nullptr;
    const std::vector<key_word> all = key.words_of();
    for (const key_word& w : all) {
      if (w.word == key.text(run)) chosen = &w;
      if (w.device.empty() || w.device == heeds) {
        others += (others.empty() ? "\"" : " or \"") + w.word + "\"";
      }
    }
    if (!chosen || chosen->device.empty() || chosen->device == heeds) continue;
    throw usage_error(std::string("`") + key.name + "` \"" + chosen->word + "\" needs device \"" +
                      chosen->device + "\"; on device \"" + run.device + "\" use " + others);
  }
}

const backend& backend_of(const run_keys& run) {
  return find_device(run.device).kernels(run);
}

weight_format weight_format_of(const run_keys& run) {
  if (run.format == "bf16") return weight_format::bf16;
  return run.format == "int8" ? weight_format::int8 : weight_format::f32;
}

dtype kv_type_of(const run_keys& run) {
  check_run_device(run);
  const bool chosen = run.kv_type == "auto" && run.device != "auto" &&
                      find_device(run.device).halves_beside_halves &&
                      weight_format_of(run) == weight_format::bf16;
  return chosen || run.kv_type == "bf16" ? dtype::bf16 : dtype::f32;
}

run_keys keys_as_used(run_keys run) {
  const weight_format format = weight_format_of(run);
  run.kv_type = name_of(kv_type_of(run));
  run.format = format == weight_format::bf16   ? "bf16"
               : format == weight_format::int8 ? "int8"
                                               : "f32";
  return run;
}

}  // namespace unmask
