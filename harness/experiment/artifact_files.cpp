// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/artifact_files.h"

#include <algorithm>


#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/toml_reader.h"
#include "harness/experiment/catalogue.h"
#include "harness/experiment/overlay.h"
#include "harness/experiment/request.h"

namespace unmask {
namespace fs = std::filesystem;

paper_layout read_layout(const fs::path& file, const std::string& scale) {
  const std::string text = toml_text(file, "experiment");
  const experiment_spec spec = parse_spec(text, file, scale);
  const experiment_table read = overlaid_table(text, file, scale);
  paper_layout layout;
  layout.id = spec.artifact.id;
  layout.title = spec.artifact.title;
  layout.scale = spec.scale;
  toml_reader r(read.table, file.string(), "");
  parse_layout(r, layout);
  if (!spec.artifact.published.empty()) layout.published = read_published(spec.artifact.published);
  return layout;
}

std::vector<artifact_run> runs_below(const fs::path& path, const std::string& artifact,
                                     const std::string& scale, const fs::path& experiments) {
  if (!artifact.empty()) {
    const experiment_spec spec = read_spec(artifact, scale);
    return {{spec.artifact.paper + "_" + spec.artifact.id, artifact, path, spec.scale}};
  }
  std::vector<fs::path> files = {path};
  if (fs::is_directory(path)) {
    files = files_below(path, [](const std::string& name) { return name == "rows.jsonl"; });
    std::erase_if(files, [](const fs::path& f) {
      return f.parent_path().parent_path().filename() == more_evidence;
    });
  }
  std::vector<artifact_run> runs;
  for (const fs::path& rows : files) {
    const fs::path folder = fs::absolute(rows).lexically_normal().parent_path();
    if (fs::exists(folder / manifest_name)) {
      const run_manifest m = read_manifest(folder / manifest_name);
      if (!m.paper.empty()) runs.push_back({m.paper + "_" + m.artifact, m.file, rows, m.scale});
      continue;
    }
    // A campaign's layout, PAPER/ARTIFACT/SCALE, says the same.
    const std::string id = folder.parent_path().filename();
    const std::string paper = folder.parent_path().parent_path().filename();
    const fs::path file = experiments / paper / (id + ".toml");
    if (fs::exists(file)) runs.push_back({paper + "_" + id, file, rows, folder.filename()});
  }
  return runs;
}

}  // namespace unmask
