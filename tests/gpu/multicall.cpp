// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// One program that is all programs of the GPU check, so that the library and its kernels travel
// once: called by the name of one of them (a link) or with that name as first argument. Any other
// first argument is a command of `unmask`.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

int unmask_main(int argc, char** argv);
int unmask_bench_main(int argc, char** argv);
int unmask_device_check_main(int argc, char** argv);
int unmask_golden_main(int argc, char** argv);
int unmask_predict_main(int argc, char** argv);
#if UNMASK_HAS_CEILINGS
int unmask_ceilings_main(int argc, char** argv);
#endif

namespace {

int kernels_test_main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

struct program {
  const char* name;
  int (*run)(int, char**);
};
constexpr program programs[] = {{"unmask", unmask_main},
                                {"unmask_bench", unmask_bench_main},
                                {"unmask_device_check", unmask_device_check_main},
                                {"unmask_golden", unmask_golden_main},
                                {"unmask_predict", unmask_predict_main},
#if UNMASK_HAS_CEILINGS
                                {"unmask_ceilings", unmask_ceilings_main},
#endif
                                {"kernels_test", kernels_test_main}};

const program* find(const char* path) {
  const char* slash = std::strrchr(path, '/');
  for (const program& p : programs) {
    if (std::strcmp(p.name, slash == nullptr ? path : slash + 1) == 0) return &p;
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--programs") == 0) {
    for (const program& p : programs) std::printf("%s\n", p.name);
    return 0;
  }
  const program* called = find(argv[0]);
  if (called != nullptr) return called->run(argc, argv);
  called = argc > 1 ? find(argv[1]) : nullptr;
  if (called != nullptr) return called->run(argc - 1, argv + 1);
  return unmask_main(argc, argv);
}
