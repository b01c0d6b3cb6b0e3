// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask_bench: Google Benchmark's own flags, for example
//   unmask_bench --benchmark_filter=gemm --benchmark_out=gemm.json --benchmark_out_format=json
// UNMASK_BENCH_ROWS=FILE appends one JSON object a case as soon as it is measured (Google
// Benchmark's own files are whole only at the end), and leaves out the CPU's roofs.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <streambuf>
#include <string>

#include "kernels/bench/bench.h"
#include "kernels/cpu/isa.h"

namespace {

// Standard error in whole lines, in which the library's warning that it was built as DEBUG, as Debian
// builds it, is one sentence about what that means here. The library has no other way to tell.
class plain_errors final : public std::streambuf {
 public:
  plain_errors() : below_(std::cerr.rdbuf(this)) {}
  ~plain_errors() override {
    pass_on();
    std::cerr.rdbuf(below_);
  }
  plain_errors& operator=(plain_errors&&) = delete;

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    line_ += traits_type::to_char_type(c);
    if (line_.back() == '\n') pass_on();
    return c;
  }
  int sync() override { return below_->pubsync(); }

 private:
  void pass_on() {
    if (line_.find("Library was built as DEBUG") != std::string::npos) {
      line_ =
          "Google Benchmark was built with its own checks. The times here are not affected: "
          "Unmask's "
          "clock takes them around each call.\n";
    }
    below_->sputn(line_.data(), static_cast<std::streamsize>(line_.size()));
    line_.clear();
  }
  std::streambuf* below_;
  std::string line_;
};

class row_reporter final : public benchmark::ConsoleReporter {
 public:
  explicit row_reporter(const std::string& file) : out_(std::fopen(file.c_str(), "a")) {}
  ~row_reporter() override {
    if (out_ != nullptr) std::fclose(out_);
  }
  row_reporter& operator=(row_reporter&&) = delete;
  bool good() const { return out_ != nullptr; }

  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      std::fprintf(out_, "{\"name\":\"%s\",\"iterations\":%lld", run.benchmark_name().c_str(),
                   static_cast<long long>(run.iterations));
      if (run.error_occurred)
        std::fprintf(out_, ",\"error\":\"%s\"", plain(run.error_message).c_str());
      for (const auto& [name, counter] : run.counters) {
        if (std::isfinite(counter.value)) {
          std::fprintf(out_, ",\"%s\":%.9g", name.c_str(), counter.value);
        }
      }
      std::fprintf(out_, "}\n");
    }
    std::fflush(out_);
  }

 private:
  static std::string plain(std::string text) {
    for (char& c : text) c = c == '"' || c == '\\' || c == '\n' ? ' ' : c;
    return text;
  }
  std::FILE* out_;
};

}  // namespace

int unmask_bench_main(int argc, char** argv) {
  const plain_errors errors;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  unmask::bench::register_device_cases();
  const char* rows = std::getenv("UNMASK_BENCH_ROWS");
  if (rows != nullptr) {
    if (*rows == '\0') {
      benchmark::RunSpecifiedBenchmarks();
      return 0;
    }
    row_reporter reporter(rows);
    if (!reporter.good()) {
      std::fprintf(stderr, "unmask_bench: cannot write %s\n", rows);
      return 3;
    }
    benchmark::RunSpecifiedBenchmarks(&reporter);
    return 0;
  }
  const auto& r = unmask::bench::measured_roofs();
  // Six digits of the value are enough; the JSON context takes text only.
  benchmark::AddCustomContext("isa", unmask::cpu::name_of(unmask::cpu::isa_of_environment()));
  benchmark::AddCustomContext("threads", std::to_string(r.threads));
  benchmark::AddCustomContext("roof_f32_gflops", std::to_string(r.f32_flops / 1e9));
  benchmark::AddCustomContext("roof_int8_gops", std::to_string(r.int8_ops / 1e9));
  benchmark::AddCustomContext("roof_triad_gb_s", std::to_string(r.triad_bytes / 1e9));
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

// Weak: the GPU check's one program (tests/gpu/multicall.cpp) has a main() of its own.
[[gnu::weak]] int main(int argc, char** argv) {
  return unmask_bench_main(argc, argv);
}
