// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What every method makes the CUDA kernels do to memory, counted by the emulator (device/traffic.h)
// with bfloat16 weights, keys and values, at batch 1 and 4: launches, host waits and copies a step,
// bytes of host memory that kernels touch, uncoalesced requests. The budget lies in each method's
// folder (cases.json): a count may fall below it and not rise above it. A run that finds other
// counts prints them, and of a method that is over its budget every kernel. The cost model's
// launches and bytes are held against the same counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/decode/plain_forward.h"
#include "harness/plan/forecast.h"
#include "kernels/cuda/device/traffic.h"
#include "kernels/cuda/emulation.h"
#include "methods/settings.h"
#include "tests/cost_model/cost_model.h"
#include "tests/methods/cases.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using cuda::emulator::device_traffic;
using cuda::emulator::kernel_traffic;
using testing::json;

// Small, but with the heads and widths for which the kernels of real models are chosen.
model_config device_config(model_family family) {
  model_config c = testing::tiny_config(family);
  c.hidden = 128;
  c.heads = 4;
  c.kv_heads = family == model_family::llada ? 4 : 2;
  c.head_dim = 64;
  c.feed_forward = 96;
  c.vocabulary = 192;
  c.rope = {64, 10000.0F};
  if (family == model_family::llada2_moe) {
    c.rope.rotary_dim = 32;
    c.moe.hidden = 64;
  }
  return c;
}

class device_traffic_test : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::emulator::sees_accesses()) GTEST_SKIP() << "accesses are not seen in this build";
    before_ = cuda::current_emulation();
    cuda::set_emulation({{}, false, true});
  }
  void TearDown() override {
    cuda_emulated_backend().synchronize();
    cuda::set_emulation(before_);
  }

 private:
  cuda::emulation before_;
};

struct method_counts {
  device_traffic work;
  double steps = 0;
};

// A method decodes `batch` answers of 8 tokens at once, its layers launched one by one.
method_counts decode_counted(const setting& s, std::int32_t batch) {
  const auto model = testing::tiny_model(device_config(s.family), cuda_emulated_backend(), 256, 7,
                                         dtype::bf16, weight_format::bf16);
  const auto requests = testing::tiny_requests(batch, 8);
  cuda_emulated_backend().synchronize();
  cuda::emulator::begin_counting();
  const closed_loop_result done =
      testing::decode_closed(*model, s.method, s.given, requests, batch, s.preset);
  return {cuda::emulator::end_counting(), static_cast<double>(done.steps)};
}

kernel_traffic all_of(const device_traffic& work) {
  kernel_traffic all;
  for (const auto& [name, k] : work.kernels) {
    if (name != "library_product") all.add(k);
  }
  return all;
}

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

json line_of(const method_counts& m) {
  const kernel_traffic all = all_of(m.work);
  const auto a_step = [&](std::uint64_t n) {
    return std::round(100 * static_cast<double>(n) / m.steps) / 100;
  };
  return {
      {"launches a step", a_step(m.work.launches)},
      {"host waits a step", a_step(m.work.waits)},
      {"copies from the host a step", a_step(m.work.copies)},
      {"bytes of host memory a step", a_step(all.host_bytes)},
      {"uncoalesced requests, %",
       std::round(10 * percent(all.read.uncoalesced + all.written.uncoalesced,
                               all.read.requests + all.written.requests)) /
           10},
      {"bank conflicts, %", std::round(10 * percent(all.shared_excess, all.shared_waves)) / 10}};
}

void write_kernels(std::ostream& out, const std::string& title, const method_counts& m) {
  out << fmt::format("\n## {}: {:.0f} steps\n\n", title, m.steps)
      << "| kernel | launches | read kB | written kB | host bytes | sectors a request | excess "
         "sectors % | uncoalesced % | bank conflicts % | ldmatrix | mma |\n"
      << "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
  for (const auto& [name, k] : m.work.kernels) {
    const std::uint64_t requests = k.read.requests + k.written.requests,
                        sectors = k.read.sectors + k.written.sectors;
    out << fmt::format(
        "| {} | {} | {:.1f} | {:.1f} | {} | {:.2f} | {:.1f} | {:.1f} | {:.1f} | {} | {} |\n", name,
        k.launches, static_cast<double>(k.read.touched) / 1e3,
        static_cast<double>(k.written.touched) / 1e3, k.host_bytes,
        requests == 0 ? 0.0 : static_cast<double>(sectors) / static_cast<double>(requests),
        percent(k.read.excess + k.written.excess, sectors),
        percent(k.read.uncoalesced + k.written.uncoalesced, requests),
        percent(k.shared_excess, k.shared_waves), k.matrix_loads, k.products);
  }
}

// One setting of every method, the first.
std::vector<setting> one_of_each() {
  std::vector<setting> first;
  std::set<std::string> seen;
  for (const setting& s : all_settings()) {
    if (seen.insert(s.method).second) first.push_back(s);
  }
  return first;
}

TEST_F(device_traffic_test, no_method_is_over_its_budget) {
  const std::map<std::string, json> budget = testing::all_cases("device_traffic");
  std::map<std::string, json> changed;  // by file and method
  std::set<std::string> counted;
  for (const setting& s : one_of_each()) {
    counted.insert(s.method);
    const std::string file = testing::cases_file(s.method);
    for (const std::int32_t batch : {1, 4}) {
      const std::string of = fmt::format("batch {}", batch), name = s.method + ", " + of;
      const method_counts m = decode_counted(s, batch);
      ASSERT_GT(m.steps, 0) << name;
      const json found = line_of(m);
      const auto lines = budget.find(s.method);
      const bool known = lines != budget.end() && lines->second.contains(of);
      EXPECT_TRUE(known) << name << " has no budget: add " << found.dump() << " to " << file;
      if (!known) continue;
      const json& most_of = lines->second.at(of);
      bool over = false;
      for (const auto& [what, count] : found.items()) {
        const double most = most_of.at(what).get<double>() + 1e-9;
        EXPECT_LE(count.get<double>(), most) << name << ": " << what;
        over = over || count.get<double>() > most;
      }
      if (over) write_kernels(std::cout, name, m);
      if (found != most_of) changed[file + ", " + s.method][of] = found;
    }
  }
  for (const auto& [where, lines] : changed) {
    std::cout << where << " would hold now:\n" << lines.dump(1) << "\n";
  }
  for (const auto& [method, lines] : budget) {
    EXPECT_TRUE(counted.contains(method)) << method << " has a budget and no method";
    EXPECT_EQ(lines.size(), 2U) << method << " has a budget of a batch that is not counted";
  }
}

// Operands that lie side by side go over in one copy. That they do is no matter of what other
// methods have left behind.
TEST_F(device_traffic_test, copies_do_not_depend_on_what_ran_before) {
  std::map<std::string, setting> first;
  for (const setting& s : one_of_each()) first[s.method] = s;
  const setting& optimus = first.at("optimus");
  const auto copies = [&] { return decode_counted(optimus, 1).work.copies; };
  const std::uint64_t alone = copies();
  for (const char* other : {"llada21", "focus_dllm", "ada_dlm"}) {
    decode_counted(first.at(other), 4);
    EXPECT_EQ(copies(), alone) << "behind " << other;
  }
}

// The cost model says of a forward what the emulator counts: every kernel as often, and its bytes.
TEST_F(device_traffic_test, cost_model_knows_every_kernel_of_a_forward) {
  for (const model_family family :
       {model_family::llada, model_family::sdar, model_family::llada2_moe}) {
    const model_config c = device_config(family);
    const auto model =
        testing::tiny_model(c, cuda_emulated_backend(), 256, 7, dtype::bf16, weight_format::bf16);
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 192; ++i) tokens.push_back(i * 7 % 58);
    cuda_emulated_backend().synchronize();
    cuda::emulator::begin_counting();
    plain_forward(*model, tokens, mask_kind::full, c.block);
    cuda_emulated_backend().synchronize();
    const device_traffic counted = cuda::emulator::end_counting();

    cost_step step;
    step.rows = step.keys = 192;
    step.candidates = 0;
    step.recorded = false;
    const step_cost cost = cost_of_step(cost_shape_of(c), step, ceilings_of("h200"));
    std::map<std::string, kernel_cost> wanted;
    for (const kernel_cost& k : cost.kernels) {
      kernel_cost& to = wanted[k.kernel.ends_with(" product") ? "library_product" : k.kernel];
      to.launches += k.launches;
      to.bytes += k.bytes;
      to.operations += k.operations;
    }
    // plain_forward asks for the logits of every row by one more product.
    kernel_cost& products = wanted.at("library_product");
    products.launches += 1;
    products.operations += 2.0 * 192 * c.vocabulary * c.hidden;
    products.bytes += (192.0 + c.vocabulary) * c.hidden * 2 + 192.0 * c.vocabulary * 4;
    wanted.erase("host waits");
    // The table of this model is float32, and the 192 tokens are 58 different ones.
    wanted.at("embed").bytes += 58.0 * c.hidden * 4 - 192.0 * c.hidden * 2;
    for (const auto& [name, want] : wanted) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(family), name));
      const auto found = counted.kernels.find(name);
      ASSERT_NE(found, counted.kernels.end());
      const kernel_traffic& k = found->second;
      EXPECT_EQ(static_cast<double>(k.launches), want.launches);
      // Norm weights, lists of rows and ends of sectors are left out of the model: 2 kB a launch.
      const double bytes = static_cast<double>(k.read.touched + k.written.touched);
      EXPECT_NEAR(bytes, want.bytes, 0.05 * bytes + 2048.0 * want.launches);
      // Tensor cores also multiply what fills a tile.
      EXPECT_GE(k.operations, 0.999 * want.operations);
      EXPECT_LE(k.operations, 1.5 * want.operations);
    }
    for (const auto& [name, k] : counted.kernels) {
      static const std::set<std::string> of_the_loop = {"find_candidates", "gather_tokens",
                                                        "stage_rows", "to_bf16"};
      EXPECT_TRUE(wanted.contains(name) || of_the_loop.contains(name))
          << name << " is not in the cost model";
    }
  }
}

}  // namespace
}  // namespace unmask
