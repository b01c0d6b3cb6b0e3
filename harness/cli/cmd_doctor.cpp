// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/format.h>

#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/base/shared_library.h"
#include "harness/cli/command.h"
#include "harness/cli/model_spec.h"
#include "harness/cli/options.h"
#include "harness/devices/device.h"
#include "harness/devices/environment.h"
#include "harness/devices/first_use.h"
#include "harness/model/chat_template.h"
#include "harness/model/checkpoint.h"
#include "harness/model/config.h"
#include "harness/model/tokenizer.h"
#include "harness/model/vision/tower_work.h"
#include "harness/model/weights.h"
#include "harness/plan/published_decoding.h"
#include "harness/profile/nvtx.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/traffic.h"

namespace unmask {
namespace {

// Reads a checkpoint to the last byte; the first thing wrong with it becomes the answer.
bool check_model(const std::filesystem::path& given) {
  try {
    const std::filesystem::path directory = model_folder(given);
    const model_config config = read_model_config(directory);
    const model_weights weights = load_weights(config, directory);
    const tokenizer tokens = tokenizer::load(directory);
    print("  ok    {}  {:.2f} M parameters, tokenizer of {} entries\n", directory.string(),
          static_cast<double>(config.parameters()) * 1e-6, tokens.vocabulary_size());
    const chat_template chat = chat_template::load(directory, config);
    print("        chat template: {}\n", chat.summary());
    print("        {}{}: {}\n", decoding_of(config).model,
          config.release.empty() ? "" : " (" + config.told_by + ")", describe(decoding_of(config)));
    const std::string shown =
        cost_of_a_picture(read_vision_config(directory, config.vocabulary), config.hidden);
    if (!shown.empty()) print("        {}\n", shown);
    print("        hash: {}\n", hash_of_checkpoint(directory));
    for (const std::string& said : {config.caution, caution_of(weights.unread), chat.caution()}) {
      if (!said.empty()) print("  NOTE  {}\n", said);
    }
    return true;
  } catch (const error& failure) {
    print("  FAIL  {}\n", failure.what());
  } catch (const std::filesystem::filesystem_error& failure) {
    print("  FAIL  {}: {}\n", failure.path1().string(), failure.code().message());
  }
  return false;
}

// What is opened at run time, each by its own rules (harness/base/shared_library.h).
void print_libraries() {
  const std::pair<const char*, library_search> wanted[] = {{"cublaslt", cublaslt_library()},
                                                           {"cudnn   ", cudnn_library()},
                                                           {"cupti   ", cupti_library()}};
  for (const auto& [name, search] : wanted) {
    const shared_library found = open_shared_library(search);
    print("{} {}\n", name,
          found.handle ? found.path : "NOT RUN: not found (tried " + found.tried + ")");
  }
}

void check_kernels(const std::string& wanted) {
  run_keys run;
  run.device = choose_device(wanted).name;
  const device& found = find_device(run.device);
  if (!found.is_card) {
    print("check    NOT RUN: --check needs a GPU; this is device {}\n", run.device);
    return;
  }
  print("check    {}\n", found.checked(run, true));
}

// The machine without its GPUs, and whether it is fit to measure on now.
void print_host(const environment& machine) {
  print("build    unmask {} {}, {}\n", machine.build.version, commit_text(machine.build),
        machine.build.compiler);
  print("system   {}, {}\n", machine.os, machine.kernel);
  print("cpu      {}, {} usable, backend {}, {} threads\n", machine.cpu_model, machine.cpus_usable,
        machine.cpu_backend, machine.omp_threads);
  print("memory   {:.1f} GiB, {:.1f} available\n",
        static_cast<double>(machine.memory_bytes) / (1 << 30),
        static_cast<double>(machine.memory_available_bytes) / (1 << 30));
  if (machine.memory_limit_bytes > 0) {
    print("         control groups allow {:.1f} GiB\n",
          static_cast<double>(machine.memory_limit_bytes) / (1 << 30));
  }
  print("measure  {}\n",
        machine.unfit.empty()
            ? std::string("nothing is known against measuring now")
            : fmt::format("not fit to measure on: {}", fmt::join(machine.unfit, "; ")));
}

}  // namespace

int command_doctor(const texts& arguments) {
  const command_line line(
      "doctor [options]",
      {{"format", std::string("text"),
        "print text, or json: the environment record that result rows have"},
       {"json", flag(), "print JSON, as --format json does"},
       {"measure", flag(), "also measure the copy bandwidth of every GPU"},
       {"check", flag(),
        "also check the kernels on the GPU against the reference, as at its first use, and keep "
        "the result"},
       device_option(),
       {"libraries", flag(), "also open CUDA's libraries and print which files they are"},
       {"model", repeated(), "also read this checkpoint to the last byte (repeatable)"},
       experiments_option()},
      {}, arguments);
  environment machine = capture_environment(cpu_backend().name());
  look_at_load(machine);
  find_known("format", line.text("format"), {"text", "json"});
  if (line.given("json") || line.text("format") == "json") {
    print("{}\n", environment_json(machine));
    return 0;
  }
  print_host(machine);
  print("nvtx     {}\n", nvtx_built() ? "ranges compiled in" : "headers absent: no ranges");
  print("nsys     {}\n", machine.nsys.empty() ? "not on PATH" : machine.nsys);
  print("ncu      {}\n", machine.ncu.empty() ? "not on PATH" : machine.ncu);
  for (const cuda::device_properties& d : machine.cuda.devices) {
    print("gpu {}    {}, compute {}.{}, {:.1f} GiB, tensor cores by {}\n", d.index, d.name,
          d.compute_major, d.compute_minor, static_cast<double>(d.memory_bytes) / (1 << 30),
          tensor_products(machine.build.cuda_architectures, d.compute_major, d.compute_minor));
    if (!line.given("measure")) continue;
    const cuda::copy_roof roof = cuda::measure_copy_roof(d.index);
    print("         copies {:.0f} GB/s, read plus written, best of {}\n",
          roof.bytes_per_second * 1e-9, roof.repetitions);
    for (const auto kind :
         {cuda::product_kind::f32, cuda::product_kind::bf16, cuda::product_kind::int8}) {
      try {
        const cuda::product_roof product = cuda::measure_product_roof(d.index, kind);
        print("         {}: {:.1f} T operations/s, best of {}\n", product.what,
              product.operations_per_second * 1e-12, product.repetitions);
      } catch (const error& e) {  // the library may be absent: no reason to stop
        if (e.code() != exit_code::environment) throw;
        print("         NOT RUN: {}\n", e.what());
      }
    }
  }
  if (line.given("libraries")) print_libraries();
  if (line.given("measure") && machine.cuda.devices.empty()) {
    print("gpu      NOT RUN: --measure needs a GPU\n");
  }
  if (line.given("check")) check_kernels(line.text("device", "auto"));
  print("device   auto is {}\n", device_line({choose_device("auto")}).substr(8));
  print("emulator {}\n",
        cuda::emulator::is_built()
            ? "of CUDA kernels: --device cuda-emulated"
            : "of CUDA kernels: not in this program, which was built without tests");
  for (const std::string& note : machine.notes) print("note     {}\n", note);

  bool good = true;
  std::vector<std::string> models;
  for (const auto& entry : entries_of(experiments_folder(line) / "models")) {
    if (is_file(entry / "config.json")) models.push_back(entry);
  }
  for (const std::string& more : line.list("model")) models.push_back(model_folder(more));
  if (!models.empty()) print("models\n");
  for (const std::string& model : models) good = check_model(model) && good;
  return static_cast<int>(good ? exit_code::ok : exit_code::environment);
}

}  // namespace unmask
