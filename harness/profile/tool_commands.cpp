// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/tool_commands.h"

#include "harness/base/error.h"
#include "harness/profile/phases.h"

namespace unmask {
namespace {

std::vector<std::string> followed_by(std::vector<std::string> tool,
                                     const std::vector<std::string>& program) {
  tool.insert(tool.end(), program.begin(), program.end());
  return tool;
}

}  // namespace

std::vector<std::string> nsys_command(const tool_request& request) {
  return followed_by(
      {"nsys", "profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none",
       "--cuda-graph-trace=node", "--capture-range=nvtx",
       std::string("--nvtx-capture=") + name_of(profile_phase::measure) + "@unmask",
       "--capture-range-end=stop", "--force-overwrite=true", "--output=" + request.report},
      request.program);
}

std::vector<std::string> nsys_stats_command(const tool_request& request) {
  return {"nsys",
          "stats",
          "--force-export=true",
          "--report",
          "nvtx_gpu_proj_sum,nvtx_kern_sum,cuda_gpu_kern_sum",
          "--format",
          "csv",
          "--output",
          request.report,
          request.report + ".nsys-rep"};
}

std::vector<std::string> ncu_command(const tool_request& request) {
  std::vector<std::string> tool = {"ncu", "--nvtx"};
  const std::string measure = std::string("unmask@") + name_of(profile_phase::measure);
  if (request.phases.empty()) {
    // A single push/pop range ends with the delimiter; without it ncu looks for a start/end range.
    tool.insert(tool.end(), {"--nvtx-include", measure + "/"});
  }
  for (const std::string& phase : request.phases) {
    if (is_container(phase_named(phase.c_str()))) {
      throw usage_error("phase '" + phase + "' holds other phases; name one of those");
    }
    tool.insert(tool.end(), {"--nvtx-include", measure + "/*/" + phase});
  }
  tool.insert(tool.end(),
              {"--clock-control", "none", "--replay-mode", "kernel", "--graph-profiling", "node",
               "--set", "roofline", "--section", "MemoryWorkloadAnalysis", "--launch-count",
               std::to_string(request.launches), "--force-overwrite", "--export", request.report});
  return followed_by(std::move(tool), request.program);
}

}  // namespace unmask
