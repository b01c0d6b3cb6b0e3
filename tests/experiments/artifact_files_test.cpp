// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Every table and figure has its file; every scale of it can be planned, so that it names methods,
// parameters, presets, tasks and folders that exist. What --dry-run does, for all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <memory>

#include "harness/base/files.h"
#include "harness/model/config.h"
#include "harness/plan/benchmark_prompts.h"
#include "harness/plan/forecast.h"
#include "harness/plan/needs.h"
#include "harness/plan/plan.h"
#include "harness/run/runner.h"
#include "tests/experiments/files.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using namespace test;

// Plans here rest on declarations alone: data sets and prompts that happen to lie on this machine are not
// looked at, whichever test asks first.
class no_data_here final : public testing::Environment {
 public:
  void SetUp() override {
    for (const char* variable : {"XDG_CACHE_HOME", "UNMASK_DATASETS", "UNMASK_TASKS"}) {
      ::setenv(variable, nothing_.path().c_str(), 1);
    }
  }

 private:
  const scratch_folder nothing_;
};
const testing::Environment* const empty_machine =
    testing::AddGlobalTestEnvironment(new no_data_here);

const method_catalogue& methods() {
  static const std::unique_ptr<executor> all = make_executor();
  static const method_catalogue catalogue = all->methods();
  return catalogue;
}

TEST(artifact_files, every_table_and_figure_has_one_and_no_file_is_left_over) {
  for (const test::paper_files& paper : papers()) {
    std::vector<std::string> wanted = artifacts_of(paper), found;
    for (const auto& entry : fs::directory_iterator(experiments() / paper.name)) {
      if (entry.path().extension() == ".toml") found.push_back(entry.path().stem().string());
    }
    std::ranges::sort(wanted);
    std::ranges::sort(found);
    EXPECT_EQ(found, wanted) << paper.name;
  }
}

TEST(artifact_files, every_scale_can_be_planned) {
  for (const test::paper_files& paper : papers()) {
    for (const std::string& id : artifacts_of(paper)) {
      const fs::path file = experiments() / paper.name / (id + ".toml");
      SCOPED_TRACE(file.string());
      const experiment_spec any = read_any_scale(file);
      EXPECT_EQ(any.artifact.paper, paper.name);
      EXPECT_EQ(any.artifact.id, id);
      EXPECT_FALSE(any.artifact.title.empty());
      EXPECT_TRUE(fs::is_regular_file(any.artifact.published)) << any.artifact.published;
      if (!any.artifact.not_reproducible.empty()) {
        EXPECT_TRUE(any.scales.empty());
        continue;
      }
      std::vector<std::string> names;
      for (const scale_entry& scale : any.scales) names.push_back(scale.name);
      std::vector<std::string> usual = names;
      std::erase(usual, "real");    // of the opt-in model: not of every file
      std::erase(usual, "scores");  // of what is timed on few items
      EXPECT_EQ(usual, (std::vector<std::string>{"tiny", "shapes", "full"}));
      for (const std::string& name : names) {
        SCOPED_TRACE(name);
        const experiment_spec spec = read_spec(file, name);
        if (!spec.not_run.empty()) continue;
        EXPECT_FALSE(make_plan(spec, methods()).empty());
        for (const model_entry& model : spec.models) {
          EXPECT_EQ(model.published.empty(), name != "full") << model.name;
          EXPECT_EQ(model.weights != "checkpoint", name == "shapes") << model.name;
          EXPECT_TRUE(name == "full" || fs::is_directory(model.path)) << model.path;
        }
        // What cannot be had here is asked for, not met in the middle of a run.
        EXPECT_TRUE((name != "tiny" && name != "scores" && name != "real") ||
                    (spec.needs.empty() && spec.run.device == "auto"));
        EXPECT_TRUE(name != "full" || spec.run.device == "cuda");
        EXPECT_TRUE(name != "scores" || spec.run.kind == "decode");  // serving asks few items again
        if (name == "real") {
          EXPECT_EQ(needs_of(spec), (std::vector<std::string>{"model:smol"}));
        }
      }
    }
  }
}

// The settings of a point without that in which the note of the scale says that its scores differ from the
// timed rows: a latency table instead of times that another day does not repeat.
parameter_map compared_params(parameter_map params, const std::string& note) {
  if (note.find("latency table") != std::string::npos) params.erase("latency_samples");
  return params;
}

// A claim reads a speed at the scale tiny and the score beside it at the scale scores, by label: both must be of the
// same settings. Files of look-ups are ordered by length, so that a score is of all lengths, not of the head.
TEST(artifact_files, scores_are_of_the_settings_that_are_timed) {
  std::size_t compared = 0;
  std::vector<std::string> folders = {"registry"};
  for (const test::paper_files& paper : papers()) folders.push_back(paper.name);
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::directory_iterator(experiments() / folder)) {
      const fs::path& file = entry.path();
      const std::vector<scale_entry> scales = read_any_scale(file).scales;
      const auto of_scores = std::ranges::find(scales, "scores", &scale_entry::name);
      if (of_scores == scales.end()) continue;
      SCOPED_TRACE(file.string());
      const experiment_spec scores = read_spec(file, "scores");
      const auto timed = make_plan(read_spec(file, "tiny"), methods());
      for (const experiment_point& p : make_plan(scores, methods())) {
        EXPECT_TRUE(std::ranges::any_of(timed, [&](const experiment_point& t) {
          const bool other_task = t.workload.name != p.workload.name;
          return t.label == p.label && t.method == p.method &&
                 compared_params(t.params, of_scores->note) ==
                     compared_params(p.params, of_scores->note) &&
                 t.model.name == p.model.name && t.model.path == p.model.path &&
                 t.model.soften == p.model.soften && t.run.gen_length == p.run.gen_length &&
                 (other_task || t.workload.gen_length == p.workload.gen_length);
        })) << title_of(p);
        ++compared;
      }
      for (const workload_entry& w : scores.workloads) {
        EXPECT_TRUE(w.items.context_high == 0 || w.items.spread) << w.name;
      }
    }
  }
  EXPECT_GT(compared, 300u);
}

// Without the data sets and weights of the papers, from declarations and configurations alone.
TEST(artifact_files, every_full_scale_is_forecast) {
  for (const test::paper_files& paper : papers()) {
    for (const std::string& id : artifacts_of(paper)) {
      const fs::path file = experiments() / paper.name / (id + ".toml");
      SCOPED_TRACE(file.string());
      if (!read_any_scale(file).artifact.not_reproducible.empty()) continue;
      const experiment_spec spec = read_spec(file, "full");
      if (!spec.not_run.empty()) {
        EXPECT_TRUE(spec.models.empty());
        continue;
      }
      const auto points = make_plan(spec, methods());
      const plan_forecast sum = forecast_of(spec, points, ceilings_of("h100"));
      EXPECT_EQ(sum.points, points.size());
      EXPECT_EQ(sum.gpu_hours.points, points.size());
      EXPECT_EQ(sum.gpu_hours.unknown, 0u);
      EXPECT_GT(sum.gpu_hours.known, 0);
      // Nobody knows what a search will ask before it does.
      const bool searches = std::ranges::any_of(points, [](const experiment_point& p) {
        return p.run.kind == "serve" && parameters(p.run.serve).flag("search");
      });
      EXPECT_EQ(sum.answers.unknown, searches ? points.size() : 0);
      EXPECT_EQ(sum.answers.known > 0, !searches);
      EXPECT_NE(cannot_run(spec, this_machine()), "");
      // Benchmarks of the papers wherever a data set is named at all.
      for (const workload_entry& w : spec.workloads) {
        EXPECT_TRUE(!w.benchmark.name.empty() || !w.trace_format.empty()) << w.name;
      }
    }
  }
}

// By hand. FOCUS, Table 6: 1319 + 500 + 164 + 257 + 541 items, each asked twice; blocks of 32, a commit
// for each, 1024 tokens, of MBPP 512. Sparse-dLLM, Table 3: the 299 items of ARC-C's validation split
// with four options, 256 tokens, one each step.
TEST(artifact_files, forecasts_count_as_by_hand) {
  const auto forecasts = [](const char* name) {
    const experiment_spec spec = read_spec(experiments() / name, "full");
    std::map<std::string, point_forecast> by_task;
    for (const experiment_point& p : make_plan(spec, methods())) {
      by_task.emplace(p.workload.name, forecast(spec, p, ceilings_of("h100")));
    }
    return by_task;
  };
  const auto focus = forecasts("focus/table_6.toml");
  double items = 0;
  for (const auto& [task, f] : focus) items += f.items;
  EXPECT_EQ(items, 2 * (1319 + 500 + 164 + 257 + 541));
  EXPECT_DOUBLE_EQ(focus.at("gsm8k").forwards, 2638.0 * (1024 + 32));
  EXPECT_DOUBLE_EQ(focus.at("mbpp_sanitized").forwards, 514.0 * (512 + 16));
  const auto sparse = forecasts("sparse_dllm/table_3.toml");
  EXPECT_EQ(sparse.at("arc_c").items, 299);
  EXPECT_DOUBLE_EQ(sparse.at("arc_c").forwards, 299.0 * 256);
  EXPECT_DOUBLE_EQ(sparse.at("arc_c").passes, 1);
  const auto longbench = forecasts("focus_dllm/table_1.toml");
  EXPECT_EQ(longbench.at("lcc").items, 500);
  EXPECT_DOUBLE_EQ(longbench.at("gov_report").forwards, 200.0 * 512);
  // Half an hour of arrivals; ten minutes for each of at least 3 x 4 + 1 runs.
  EXPECT_DOUBLE_EQ(forecasts("optimus/figure_11.toml").at("sharegpt").gpu_hours, 0.5);
  EXPECT_DOUBLE_EQ(forecasts("optimus/figure_13.toml").at("sharegpt").gpu_hours, 13.0 / 6);
}

// A changed data set is another point: its rows are not taken for today's.
TEST(artifact_files, ids_know_the_items_of_a_benchmark) {
  const scratch_folder scratch;
  const fs::path& folder = scratch.path();
  ::setenv("XDG_CACHE_HOME", folder.c_str(), 1);  // where the package's prompts are kept
  const auto id_with = [&](const std::string& answer) {
    write_file(folder / "gsm8k/test.jsonl",
               R"({"question": "1 + 1?", "answer": ")" + answer + "\"}\n");
    const experiment_spec spec = parse_spec(
        "[[model]]\npath = \"models/tiny-llada\"\n[[workload]]\nbenchmark = \"gsm8k\"\n"
        "harness = \"OC-F\"\npath = \"" +
            folder.string() + "\"\n[[method]]\nname = \"vanilla\"\n",
        experiments() / "x.toml");
    prepare_prompts(spec);  // as `unmask run` does before it plans
    return plan_points(spec, *make_executor()).at(0).id;
  };
  const std::string two = id_with("#### 2");
  EXPECT_NE(id_with("#### 3"), two);
  EXPECT_EQ(id_with("#### 2"), two);
}

// The plan of every scale of every artifact that can be run.
void each_plan(
    const std::function<void(const experiment_spec&, const std::vector<experiment_point>&)>& look) {
  for (const test::paper_files& paper : papers()) {
    for (const std::string& id : artifacts_of(paper)) {
      const fs::path file = experiments() / paper.name / (id + ".toml");
      for (const scale_entry& scale : read_any_scale(file).scales) {
        SCOPED_TRACE(file.string() + ", " + scale.name);
        const experiment_spec spec = read_spec(file, scale.name);
        if (spec.not_run.empty()) look(spec, make_plan(spec, methods()));
      }
    }
  }
}

// At its cap of steps Ada-DLM decides whatever is left at once: rows that stand for one token per step
// on its cache must never meet it, whatever length is asked for.
TEST(artifact_files, one_token_per_step_meets_no_cap) {
  std::size_t seen = 0;
  each_plan([&](const experiment_spec&, const std::vector<experiment_point>& points) {
    for (const experiment_point& p : points) {
      if (p.method != "ada_dlm" || parameters(p.params).integer("k_tokens") != 1) continue;
      ++seen;
      EXPECT_GE(parameters(p.params).integer("steps"),
                std::max<std::int64_t>(p.run.gen_length, 1024));
    }
  });
  EXPECT_GT(seen, 0u);
}

// A method without a model of its kind would be left out of the plan without a word.
TEST(artifact_files, no_method_is_left_out) {
  each_plan([](const experiment_spec& spec, const std::vector<experiment_point>& points) {
    for (const method_entry& method : spec.methods) {
      EXPECT_TRUE(std::ranges::any_of(points, [&](const experiment_point& p) {
        return p.label == method.label;
      })) << method.label;
    }
  });
}

TEST(artifact_files, the_overview_links_every_one) {
  const std::string overview = text_of(experiments() / "PAPERS.md");
  for (const test::paper_files& paper : papers()) {
    for (const std::string& id : artifacts_of(paper)) {
      const std::string link = "(" + paper.name + "/" + id + ".toml)";
      EXPECT_NE(overview.find(link), std::string::npos) << link;
    }
  }
}

TEST(artifact_shapes, are_the_published_sizes) {
  const struct {
    const char* name;
    model_family family;
    std::int32_t layers, hidden, block;
    std::int64_t parameters;  // in thousands of millions, rounded
  } shapes[] = {{"llada-8b", model_family::llada, 32, 4096, 0, 8},
                {"llada-v-8b", model_family::llada, 32, 4096, 0, 8},
                {"ultrallada", model_family::llada, 32, 4096, 0, 8},
                {"dream-7b", model_family::dream, 28, 3584, 0, 8},
                {"dimple-7b", model_family::dream, 28, 3584, 0, 8},
                {"mmada-8b", model_family::llada, 32, 4096, 0, 8},
                {"sdar-8b", model_family::sdar, 36, 4096, 32, 8},
                {"qwen3-8b", model_family::qwen3, 36, 4096, 0, 8},
                {"llada2-mini", model_family::llada2_moe, 20, 2048, 32, 16},
                {"ling-mini", model_family::llada2_moe, 20, 2048, 0, 16}};
  for (const auto& shape : shapes) {
    const fs::path folder = experiments() / "shapes" / shape.name;
    SCOPED_TRACE(folder.string());
    const model_config config = read_model_config(folder);
    EXPECT_EQ(config.family, shape.family);
    EXPECT_EQ(config.layers, shape.layers);
    EXPECT_EQ(config.hidden, shape.hidden);
    if (shape.block > 0) {
      EXPECT_EQ(config.block, shape.block);
    }
    EXPECT_EQ((config.parameters() + 500'000'000) / 1'000'000'000, shape.parameters);
    EXPECT_TRUE(fs::is_regular_file(folder / "tokenizer.json"));
  }
}

// A row measured on the first items of a file is one of these items when the file has grown.
TEST(point_ids, stay_when_a_file_of_tasks_grows_behind_the_items_that_are_taken) {
  const fs::path file = fs::path(testing::TempDir()) / "growing.jsonl";
  const auto hash = [&](const std::vector<std::string>& prompts, std::int64_t limit) {
    std::ofstream out(file);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      out << R"({"id": "a-)" << i << R"(", "family": "a", "prompt": ")" << prompts[i]
          << R"(", "answer": "1", "scorer": "exact", "gen_length": 32})" << '\n';
    }
    out.close();
    experiment_point p;
    p.workload.file = file;
    p.workload.items.limit = limit;
    make_executor()->identify(p);
    return p.workload.hash;
  };
  const std::string two = hash({"x", "y"}, 2);
  EXPECT_EQ(two.size(), 64u);
  EXPECT_EQ(hash({"x", "y", "z"}, 2), two);
  EXPECT_NE(hash({"x", "y", "z"}, 3), two);
  EXPECT_NE(hash({"x", "w"}, 2), two);
}

}  // namespace
}  // namespace unmask
