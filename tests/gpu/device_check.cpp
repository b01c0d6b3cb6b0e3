// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The operations of a backend against reference/ on fresh random inputs, in the backend's own
// memory and with poisoned outputs. Unlike the unit tests it runs on any GPU, at sizes of real
// models too.
//
//   unmask_device_check BACKEND [small|large] [SEED]     BACKEND: cuda, cuda-emulated, cpu
//
// One JSON object a line: operation, case, error in units of the tolerance (at most 1 is right),
// and the seed, which repeats the run. Exit codes: 0, 1 an operation is wrong, 2 usage, 3 no GPU.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/decode/kernels/features.h"
#include "kernels/attention.h"
#include "kernels/cuda/device.h"
#include "kernels/decisions.h"
#include "kernels/head.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "kernels/ops.h"
#include "kernels/rows.h"
#include "kernels/shared_vector.h"

namespace unmask {
namespace {

class checker {
 public:
  checker(const ops& device, bool large, std::uint64_t seed)
      : device_(device), large_(large), seed_(seed), random_(seed) {}

  int wrong() const { return wrong_; }

  void run() {
    guarded("rms_norm", [&] { rms_norm(); });
    for (const weight_format format :
         {weight_format::f32, weight_format::bf16, weight_format::int8}) {
      guarded("linear", [&] { linear(format); });
    }
    guarded("head_norm_rope", [&] { rope(); });
    guarded("silu_mul", [&] { silu(); });
    guarded("embed", [&] { embed(); });
    for (const mask_kind mask : {mask_kind::full, mask_kind::causal, mask_kind::block_causal}) {
      for (const std::int64_t group : {1, 4, 7})
        guarded("attention", [&] { attention(mask, group); });
    }
    guarded("confidence", [&] { confidence(); });
    guarded("gather_rows", [&] { gather(); });
    for (const weight_format format : {weight_format::f32, weight_format::int8}) {
      guarded("moe", [&] { moe(format); });
    }
    guarded("accept", [&] { accept(); });
    for (const weight_format format :
         {weight_format::f32, weight_format::bf16, weight_format::int8}) {
      guarded("recording", [&] { recording(format); });
    }
  }

 private:
  std::int64_t size(std::int64_t small, std::int64_t large) const { return large_ ? large : small; }

  void guarded(const char* operation, const std::function<void()>& check) {
    try {
      check();
    } catch (const std::exception& failure) {
      std::string text = failure.what();
      for (char& c : text) c = c == '"' || c == '\\' || c == '\n' ? ' ' : c;
      std::printf("{\"operation\":\"%s\",\"right\":false,\"problem\":\"%s\",\"seed\":%llu}\n",
                  operation, text.c_str(), static_cast<unsigned long long>(seed_));
      ++wrong_;
    }
  }

  tensor reals(std::initializer_list<std::int64_t> shape, float scale = 1.0F) {
    tensor t = device_.allocate(dtype::f32, shape, memory_use::exchanged);
    std::normal_distribution<float> normal(0.0F, scale);
    for (std::int64_t i = 0; i < t.view().elements(); ++i) t.as<float>()[i] = normal(random_);
    return t;
  }
  // NaN, so that what is not written shows.
  tensor poisoned(std::initializer_list<std::int64_t> shape) {
    tensor t = device_.allocate(dtype::f32, shape, memory_use::exchanged);
    std::memset(t.view().data, 0xFF, t.bytes());
    return t;
  }
  tensor ints(const std::vector<std::int32_t>& values) {
    tensor t = device_.allocate(dtype::i32, {static_cast<std::int64_t>(values.size())},
                                memory_use::exchanged);
    std::copy(values.begin(), values.end(), t.as<std::int32_t>());
    return t;
  }
  std::int32_t below(std::int64_t n) {
    return static_cast<std::int32_t>(
        std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_));
  }

  // Largest |got - want| over absolute + relative |want|; infinite for a NaN or a missing value.
  void compare(const char* operation, const std::string& what, const tensor& got,
               const tensor& want, double relative, double absolute) {
    device_.synchronize();
    double worst = 0;
    for (std::int64_t i = 0; i < want.view().elements(); ++i) {
      const double w = want.as<float>()[i], g = got.as<float>()[i];
      const double error = std::fabs(g - w) / (absolute + relative * std::fabs(w));
      worst = error == error ? std::max(worst, error) : std::numeric_limits<double>::infinity();
    }
    report(operation, what, worst);
  }
  void report(const char* operation, const std::string& what, double error) {
    const bool right = error <= 1;
    wrong_ += !right;
    std::printf(
        "{\"operation\":\"%s\",\"case\":\"%s\",\"error\":%.3g,\"right\":%s,\"seed\":%llu}\n",
        operation, what.c_str(), std::isfinite(error) ? error : -1.0, right ? "true" : "false",
        static_cast<unsigned long long>(seed_));
    std::fflush(stdout);
  }

  void rms_norm() {
    const std::int64_t rows = size(13, 517), width = size(72, 4096);
    const tensor x = reals({rows, width}), weight = reals({width});
    const tensor got = poisoned({rows, width}), want = poisoned({rows, width});
    device_.run(op::rms_norm{x, weight, 1e-6F, got});
    reference_.run(op::rms_norm{x, weight, 1e-6F, want});
    compare("rms_norm", shape_text({rows, width}), got, want, 1e-5, 1e-6);
  }

  static std::string name_of(weight_format format) {
    return format == weight_format::f32    ? "f32 "
           : format == weight_format::bf16 ? "bf16 "
                                           : "int8 ";
  }

  void linear(weight_format format) {
    const bool exact = format == weight_format::f32;
    // The CUDA backend's int8 levels, sums and scales are the reference's: no bit may differ. The
    // CPU backend's levels may be neighbours of those: 1/127 of the largest input times a weight.
    const bool same = format == weight_format::int8 && device_.name().starts_with("cuda");
    for (const std::int64_t rows : {std::int64_t{1}, size(9, 33), size(17, 300)}) {
      const std::int64_t in = size(72, 1024), out = size(40, 1536);
      const tensor x = reals({rows, in}), weight = reals({out, in}, 0.1F), bias = reals({out});
      const packed_handle ours = device_.pack(weight, format);
      const packed_handle theirs = reference_.pack(weight, format);
      const tensor got = poisoned({rows, out}), want = poisoned({rows, out});
      device_.run(op::linear{x, *ours, bias, got, false});
      reference_.run(op::linear{x, *theirs, bias, want, false});
      // bf16 products round their inputs: each of `in` terms of size 0.1 errs by about 2^-10, so
      // the sum by 1e-3 x 0.1 sqrt(in); eight of these deviations are allowed.
      const double absolute = (exact ? 1e-5 : 8e-3) * 0.1 * std::sqrt(static_cast<double>(in)) +
                              (format == weight_format::int8 ? 2e-2 : 1e-5);
      compare("linear", name_of(format) + shape_text({rows, out, in}), got, want,
              same    ? 0
              : exact ? 1e-4
                      : 1e-2,
              same ? 1e-30 : absolute);
    }
  }

  // A feed-forward with its norm: what is stored between the operations is of activation_type. Run
  // as it is, recorded (a CUDA graph), and repeated on other rows; each time against the reference.
  void recording(weight_format format) {
    const bool exact = format == weight_format::f32;
    const std::int64_t width = size(64, 1024), hidden = size(48, 3072);
    const auto rows = device_.recorded_rows(static_cast<std::int32_t>(size(11, 300)));
    if (rows == 0) return report("recording", "this backend records nothing", 0);
    const dtype type = device_.activation_type(format);
    const tensor x = reals({rows, width}), norm = reals({width});
    const tensor gate_up = reals({2 * hidden, width}, 0.1F), down = reals({width, hidden}, 0.1F);
    const packed_handle ours[] = {device_.pack(gate_up, format), device_.pack(down, format)};
    const packed_handle theirs[] = {reference_.pack(gate_up, format),
                                    reference_.pack(down, format)};
    const tensor normed = device_.allocate(type, {rows, width}, memory_use::exchanged);
    const tensor pair = device_.allocate(type, {rows, 2 * hidden}, memory_use::exchanged);
    const tensor gated = device_.allocate(type, {rows, hidden}, memory_use::exchanged);
    const tensor got = poisoned({rows, width});
    const auto chain = [&] {
      device_.run(op::rms_norm{x, norm, 1e-6F, normed});
      device_.run(op::linear{normed, *ours[0], {}, pair, false});
      device_.run(op::silu_mul{pair, gated});
      device_.run(op::linear{gated, *ours[1], {}, got, false});
    };
    const tensor wide_normed = poisoned({rows, width}), wide_pair = poisoned({rows, 2 * hidden}),
                 wide_gated = poisoned({rows, hidden}), want = poisoned({rows, width});
    const auto expect = [&](const char* how) {
      reference_.run(op::rms_norm{x, norm, 1e-6F, wide_normed});
      reference_.run(op::linear{wide_normed, *theirs[0], {}, wide_pair, false});
      reference_.run(op::silu_mul{wide_pair, wide_gated});
      reference_.run(op::linear{wide_gated, *theirs[1], {}, want, false});
      double size_of_result = 0;
      for (std::int64_t i = 0; i < want.view().elements(); ++i) {
        size_of_result += double{want.as<float>()[i]} * want.as<float>()[i];
      }
      // Against the size of a row's elements: single ones may cancel. Four roundings to bfloat16;
      // with int8, inputs that differ in their last bits may have neighbouring levels.
      const double typical =
          std::sqrt(size_of_result / static_cast<double>(want.view().elements()));
      compare("recording", name_of(format) + how, got, want, 0, (exact ? 1e-4 : 8e-2) * typical);
    };
    chain();
    expect("as it is");
    const auto work = device_.record(chain);
    for (const char* how : {"repeated", "repeated again"}) {
      device_.synchronize();
      std::normal_distribution<float> normal(0.0F, 1.0F);
      for (std::int64_t i = 0; i < x.view().elements(); ++i) x.as<float>()[i] = normal(random_);
      std::memset(got.view().data, 0xFF, got.bytes());
      device_.repeat(*work);
      expect(how);
    }
  }

  void rope() {
    const std::int64_t rows = size(11, 300), heads = size(3, 32), dim = size(64, 128);
    tensor got = reals({rows, heads, dim});
    tensor want = device_.allocate(dtype::f32, {rows, heads, dim}, memory_use::exchanged);
    std::memcpy(want.view().data, got.view().data, got.bytes());
    const tensor norm = reals({dim});
    std::vector<std::int32_t> at(static_cast<std::size_t>(rows));
    for (std::int32_t& p : at) p = below(size(500, 30000));
    const tensor position = ints(at);
    const rope_params rope{static_cast<std::int32_t>(dim), 500000.0F};
    device_.run(op::head_norm_rope{got, norm, 1e-6F, rope, position.as<std::int32_t>()});
    reference_.run(op::head_norm_rope{want, norm, 1e-6F, rope, position.as<std::int32_t>()});
    // A float32 angle of p radians is known to about p 2^-24.
    compare("head_norm_rope", shape_text({rows, heads, dim}), got, want, 1e-4,
            size(500, 30000) * 4e-7 + 1e-5);
  }

  void silu() {
    const std::int64_t rows = size(9, 200), width = size(36, 12288);
    const tensor pair = reals({rows, 2 * width}, 3.0F);
    const tensor got = poisoned({rows, width}), want = poisoned({rows, width});
    device_.run(op::silu_mul{pair, got});
    reference_.run(op::silu_mul{pair, want});
    compare("silu_mul", shape_text({rows, width}), got, want, 1e-5, 1e-6);
  }

  void embed() {
    const std::int64_t tokens = size(61, 5000), width = size(40, 4096), rows = size(17, 400);
    const tensor table = reals({tokens, width});
    std::vector<std::int32_t> ids(static_cast<std::size_t>(rows));
    for (std::int32_t& id : ids) id = below(tokens);
    const tensor token = ints(ids);
    const tensor got = poisoned({rows, width}), want = poisoned({rows, width});
    device_.run(op::embed{token.as<std::int32_t>(), table, got});
    reference_.run(op::embed{token.as<std::int32_t>(), table, want});
    compare("embed", shape_text({rows, width}), got, want, 0, 1e-30);
  }

  // Ragged rows over shuffled pages, written and read through the cache's own operations.
  void attention(mask_kind mask, std::int64_t group) {
    const std::int64_t dim = size(64, 128), kv_heads = 2, heads = kv_heads * group;
    const std::vector<std::int32_t> keys = {static_cast<std::int32_t>(size(70, 1500)), 1,
                                            static_cast<std::int32_t>(size(129, 3001))};
    const auto sequences = static_cast<std::int32_t>(keys.size());
    const std::int32_t longest = *std::max_element(keys.begin(), keys.end());
    const std::int32_t stride = (longest + kv_page_size - 1) / kv_page_size;
    std::vector<std::int32_t> pages(static_cast<std::size_t>(stride * sequences));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random_);
    const tensor table = ints(pages);
    const auto cache = [&] {
      return std::pair(reals({stride * sequences, kv_page_size, kv_heads, dim}),
                       reals({stride * sequences, kv_page_size, kv_heads, dim}));
    };
    const auto [k, v] = cache();
    const paged_kv kv{k, v, table.as<std::int32_t>(), stride};

    std::vector<std::int32_t> begin = {0}, owner, at;
    for (std::int32_t s = 0; s < sequences; ++s) {
      for (std::int32_t p = 0; p < keys[static_cast<std::size_t>(s)]; p += 1 + below(size(9, 60))) {
        owner.push_back(s);
        at.push_back(p);
      }
      begin.push_back(static_cast<std::int32_t>(at.size()));
    }
    const tensor row_begin = ints(begin), sequence = ints(owner), position = ints(at),
                 length = ints(keys);
    const auto rows = static_cast<std::int32_t>(at.size());
    const row_set set{sequences,
                      rows,
                      row_begin.as<std::int32_t>(),
                      sequence.as<std::int32_t>(),
                      position.as<std::int32_t>(),
                      nullptr};
    key_set seen;
    seen.kv_length = length.as<std::int32_t>();
    seen.mask = mask;
    seen.block = 32;
    const tensor q = reals({rows, heads, dim});
    const tensor new_k = reals({rows, kv_heads, dim}), new_v = reals({rows, kv_heads, dim});
    device_.run(op::kv_write{set, new_k, new_v, kv});
    const tensor got_k = poisoned({rows, kv_heads, dim}), got_v = poisoned({rows, kv_heads, dim});
    device_.run(op::kv_read{set, kv, got_k, got_v, false});
    compare("kv_write, kv_read", shape_text({rows, kv_heads, dim}), got_k, new_k, 0, 1e-30);
    compare("kv_write, kv_read", shape_text({rows, kv_heads, dim}), got_v, new_v, 0, 1e-30);
    const tensor got = poisoned({rows, heads, dim}), want = poisoned({rows, heads, dim});
    const float scale = 1.0F / std::sqrt(static_cast<float>(dim));
    device_.run(op::attention{set, q, kv, seen, scale, got, {}});
    device_.synchronize();
    reference_.run(op::attention{set, q, kv, seen, scale, want, {}});
    const char* name = mask == mask_kind::full     ? "full"
                       : mask == mask_kind::causal ? "causal"
                                                   : "block";
    compare("attention",
            std::string(name) + " " + shape_text({rows, heads, dim}) + " group " +
                std::to_string(group),
            got, want, 1e-4, 1e-5);
  }

  void confidence() {
    const std::int64_t rows = size(21, 256), width = size(40, 1024), tokens = size(301, 32003);
    const tensor x = reals({rows, width}), weight = reals({tokens, width}, 0.2F);
    const packed_handle ours = device_.pack(weight, weight_format::f32);
    const packed_handle theirs = reference_.pack(weight, weight_format::f32);
    std::vector<std::int32_t> chosen;
    for (std::int32_t r = 0; r < rows; r += 2) chosen.push_back(r);
    const auto count = static_cast<std::int32_t>(chosen.size());
    const tensor row = ints(chosen), begin = ints({0, count});
    const candidate_set candidates{1, count, begin.as<std::int32_t>(), row.as<std::int32_t>(),
                                   row.as<std::int32_t>()};
    const auto out = [&](const ops& with, const packed_matrix& head, tensor& p, tensor& token) {
      p = poisoned({count});
      token = ints(std::vector<std::int32_t>(static_cast<std::size_t>(count), -77));
      confidence_out o;
      o.token = token.as<std::int32_t>();
      o.probability = p.as<float>();
      with.run(op::confidence{x, head, candidates, {}, o});
      with.synchronize();
    };
    tensor got, want, got_token, want_token;
    out(device_, *ours, got, got_token);
    out(reference_, *theirs, want, want_token);
    compare("confidence", shape_text({count, tokens, width}), got, want, 1e-3, 1e-6);
    int differ = 0;
    for (std::int32_t i = 0; i < count; ++i) {
      differ += got_token.as<std::int32_t>()[i] != want_token.as<std::int32_t>()[i];
    }
    report("confidence", "arg-max", differ == 0 ? 0 : std::numeric_limits<double>::infinity());
  }

  void gather() {
    const std::int64_t rows = size(19, 700), width = size(33, 3000);
    const tensor from = reals({rows, width});
    std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    const tensor index = ints(order);
    const tensor there = poisoned({rows, width}), back = poisoned({rows, width});
    device_.run(op::gather_rows{from, index.as<std::int32_t>(), there});
    device_.run(op::scatter_rows{there, index.as<std::int32_t>(), back});
    compare("gather_rows, scatter_rows", shape_text({rows, width}), back, from, 0, 1e-30);
  }

  void moe(weight_format format) {
    const std::int64_t rows = size(13, 200), width = size(40, 512), hidden = size(24, 256);
    const tensor x = reals({rows, width}), router = reals({8, width}, 0.3F);
    moe_router route;
    route.experts = 8;
    route.experts_per_token = 2;
    route.groups = 4;
    route.groups_kept = 2;
    route.weight = router;
    moe_experts ours, theirs;
    ours.hidden = theirs.hidden = static_cast<std::int32_t>(hidden);
    for (int e = 0; e < 8; ++e) {
      const tensor gate_up = reals({2 * hidden, width}, 0.2F), down = reals({width, hidden}, 0.2F);
      ours.gate_up.push_back(device_.pack(gate_up, format));
      ours.down.push_back(device_.pack(down, format));
      theirs.gate_up.push_back(reference_.pack(gate_up, format));
      theirs.down.push_back(reference_.pack(down, format));
    }
    const auto run = [&](const ops& with, const moe_experts& experts) {
      const tensor expert = device_.allocate(dtype::i32, {rows, 2}, memory_use::exchanged);
      const tensor weight = poisoned({rows, 2});
      tensor y = device_.allocate(dtype::f32, {rows, width}, memory_use::exchanged);
      with.run(op::moe_route{x, route, expert, weight});
      with.synchronize();
      with.run(op::moe_feed_forward{x, expert, weight, experts, y});
      with.synchronize();
      return y;
    };
    const tensor got = run(device_, ours), want = run(reference_, theirs);
    // int8: gated values that differ in their last bits may have neighbouring levels, 1/127 of the
    // largest (about 100) times a weight (up to 0.7); results are of size 60.
    const bool exact = format == weight_format::f32;
    compare("moe_route, moe_feed_forward", name_of(format) + shape_text({rows, width, hidden}), got,
            want, exact ? 1e-3 : 2e-2, exact ? 1e-4 : 0.6);
  }

  void accept() {
    const std::int32_t count = static_cast<std::int32_t>(size(90, 5000));
    const tensor begin = ints({0, count / 3, count / 3, count}), quota = ints({5, 3, 17});
    std::vector<std::int32_t> at(static_cast<std::size_t>(count));
    std::iota(at.begin(), at.end(), 0);
    const tensor position = ints(at);
    tensor score = reals({count});
    // Ties, which must go to the lowest index.
    for (std::int32_t i = 0; i < count; ++i) {
      score.as<float>()[i] = std::round(score.as<float>()[i] * 8) / 8;
    }
    const candidate_set candidates{3, count, begin.as<std::int32_t>(), position.as<std::int32_t>(),
                                   position.as<std::int32_t>()};
    const auto differ = [&](const std::function<void(const ops&, std::uint8_t*)>& decide) {
      const tensor got = device_.allocate(dtype::u8, {count}, memory_use::exchanged);
      const tensor want = device_.allocate(dtype::u8, {count}, memory_use::exchanged);
      std::memset(got.view().data, 0xFF, got.bytes());
      decide(device_, got.as<std::uint8_t>());
      device_.synchronize();
      decide(reference_, want.as<std::uint8_t>());
      return std::memcmp(got.view().data, want.view().data, want.bytes()) != 0
                 ? std::numeric_limits<double>::infinity()
                 : 0.0;
    };
    report("accept_top", std::to_string(count), differ([&](const ops& with, std::uint8_t* out) {
             with.run(op::accept_top{candidates, score.as<float>(), quota.as<std::int32_t>(), out});
           }));
    report("accept_threshold", std::to_string(count),
           differ([&](const ops& with, std::uint8_t* out) {
             with.run(op::accept_threshold{candidates, score.as<float>(), 1.0F, false, true, out});
           }));
  }

  static std::string shape_text(std::initializer_list<std::int64_t> shape) {
    std::string text;
    for (const std::int64_t n : shape) text += (text.empty() ? "" : "x") + std::to_string(n);
    return text;
  }

  const ops& device_;
  const ops& reference_ = reference_ops();
  bool large_;
  std::uint64_t seed_;
  std::mt19937_64 random_;
  int wrong_ = 0;
};

int run(int argc, char** argv) {
  const std::string backend = argc > 1 ? argv[1] : "";
  const std::string size = argc > 2 ? argv[2] : "small";
  const std::uint64_t seed =
      argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::random_device{}();
  const bool known = backend == "cuda" || backend == "cuda-emulated" || backend == "cpu";
  if (!known || (size != "small" && size != "large")) {
    std::fprintf(stderr,
                 "usage: unmask_device_check cuda|cuda-emulated|cpu [small|large] [SEED]\n");
    return 2;
  }
  if (backend == "cuda") {
    const cuda::report machine = cuda::query();
    if (machine.devices.empty()) throw environment_error(machine.note);
  }
  ::setenv("UNMASK_CUDA_GRAPHS", "on", 0);  // the emulator records only where it is asked to
  checker check(backend == "cuda"            ? cuda_ops()
                : backend == "cuda-emulated" ? cuda_emulated_ops()
                                             : cpu_ops(),
                size == "large", seed);
  check.run();
  return check.wrong() > 0 ? 1 : 0;
}

}  // namespace
}  // namespace unmask

int main(int argc, char** argv) {
  try {
    return unmask::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "unmask_device_check: %s\n", failure.what());
    return 3;
  }
}
