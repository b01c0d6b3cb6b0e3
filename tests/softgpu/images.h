// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What nvcc made of the kernels, found by the names of their entries: the PTX files of the build and
// what ptxas reported about registers when it compiled the same sources.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/softgpu/ptx.h"

namespace unmask::softgpu {

class images {
 public:
  // Those of the list that $UNMASK_SOFTGPU_IMAGES names, by default the build's. A line is a kind and
  // a path: `80` or `90` with a PTX file for compute_80 or compute_90a, `ptxas` with a report.
  static images& all();
  // The architecture of the PTX that this device runs: 90 on Hopper, 80 elsewhere.
  int arch() const { return arch_; }
  // The module with this entry; null: there is none.
  const ptx_module* holding(const std::string& entry) const;
  // Registers of a thread, as ptxas reported; 0: it did not.
  int registers_of(const std::string& entry) const;
  // Where the module's variables lie in device memory. They are made when they are first asked for.
  const std::map<std::string, std::uint64_t>& variables_of(const ptx_module& module);

 private:
  images();
  void read_module(const std::string& path);
  void read_report(const std::string& path);

  int arch_;
  std::vector<std::unique_ptr<ptx_module>> modules_;
  std::map<std::string, const ptx_module*> holding_;
  std::map<std::string, int> registers_;
  std::map<const ptx_module*, std::map<std::string, std::uint64_t>> variables_;
};

}  // namespace unmask::softgpu
