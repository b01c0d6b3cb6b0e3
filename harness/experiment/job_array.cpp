// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/job_array.h"

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/process.h"

namespace unmask {
std::string slurm_script(const array_request& request) {
  if (request.parts.empty()) throw usage_error("a job array needs at least one point to measure");
  std::string text = fmt::format(
      "#!/bin/sh\n#SBATCH --job-name=unmask\n#SBATCH --array=0-{}\n#SBATCH --requeue\n"
      "#SBATCH --open-mode=append\n#SBATCH --output={}\n",
      request.parts.size() - 1, (request.directory / "task-%a.log").string());
  for (const std::string& directive : request.directives) {
    text += "#SBATCH " + directive + "\n";
  }
  text +=
      "# A task continues where it was stopped: points that have a row are not measured again.\n"
      "set -eu\ncase $SLURM_ARRAY_TASK_ID in\n";
  for (std::size_t i = 0; i < request.parts.size(); ++i) {
    text += fmt::format("{}) exec {} ;;\n", i, shell_line(request.parts[i]));
  }
  return text + "esac\n";
}

}  // namespace unmask
