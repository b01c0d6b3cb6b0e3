// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/plan/catalogue.h"
#include "harness/plan/locate.h"
#include "harness/plan/request.h"
#include "tests/harness/plan/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;

machine_view small_machine() {
  machine_view m;
  m.memory_gb = 16;
  m.cores = 2;
  m.has_weights = m.has_benchmark = m.has_trace = [](const std::string&) { return false; };
  m.lacks_device = [](const std::string&) { return "this program was built without CUDA"; };
  return m;
}

experiment_spec parsed(const std::string& text, const std::string& scale = "") {
  return parse_spec(text, "/x/table_5.toml", scale);
}

TEST(scales, tiny_is_laid_over_the_shared_part) {
  const experiment_spec spec = parsed(artifact_text);
  EXPECT_EQ(spec.scale, "tiny");
  EXPECT_EQ(spec.artifact.paper, "focus");
  EXPECT_EQ(spec.artifact.title, "Speed & redundancy");
  ASSERT_EQ(spec.scales.size(), 2u);  // in the order of the file
  EXPECT_EQ(spec.scales[0].name, "tiny");
  EXPECT_EQ(spec.scales[1].name, "full");
  EXPECT_EQ(spec.run.batch_size, 2);
  EXPECT_EQ(spec.evidence.min_repetitions, 5);  // set is last
  ASSERT_EQ(spec.axes.size(), 1u);              // the empty axis took the shared one away
  EXPECT_EQ(spec.axes[0].key, "batch_size");
  EXPECT_EQ(to_string(spec.axes[0].values[1]), "4");
  const auto plan = make_plan(spec, fixtures::catalogue());
  ASSERT_EQ(plan.size(), 4u);
  EXPECT_EQ(to_string(plan[1].params.at("threshold")), "0.7");
}

TEST(scales, another_scale_and_its_needs) {
  const experiment_spec spec = parsed(artifact_text, "full");
  EXPECT_EQ(spec.models[0].name, "LLaDA-8B");
  EXPECT_EQ(spec.axes.size(), 2u);
  const std::vector<std::string> needs = needs_of(spec);
  EXPECT_EQ(needs, (std::vector<std::string>{"memory_gb:64", "gpus:2", "cuda",
                                             "weights:GSAI-ML/LLaDA-8B", "benchmark:gsm8k"}));
  const std::string why = cannot_run(spec, small_machine());
  for (const char* part :
       {"NOT RUN: needs 64 GB of memory (this machine has 16)", "; 2 GPUs (this machine has none)",
        "; device cuda (this program was built without CUDA)", "; weights GSAI-ML/LLaDA-8B (not in",
        "; benchmark gsm8k (no test.jsonl, train.jsonl in"}) {
    EXPECT_TRUE(has(why, part)) << why;
  }
  // As a person reads it: a line for each; a reason that the file gives stays one line.
  const std::string list = obstacle_list(spec, small_machine());
  EXPECT_EQ(list.rfind("NOT RUN: needs\n- 64 GB of memory (this machine has 16)\n- 2 GPUs (", 0),
            0u)
      << list;
  EXPECT_EQ(std::ranges::count(list, '\n'), 5) << list;
  machine_view large = small_machine();
  large.gpus = 2;
  large.lacks_device = [](const std::string&) { return ""; };
  large.memory_gb = 64;
  large.has_weights = large.has_benchmark = [](const std::string&) { return true; };
  EXPECT_EQ(cannot_run(spec, large), "");
  EXPECT_EQ(cannot_run(parsed(artifact_text), small_machine()), "");
}

// As many GPUs as the most ranks of a sweep, which a rank that was started by another does not see.
TEST(scales, ranks_on_gpus_need_one_each) {
  const auto needs = [](const std::string& device, const std::string& ranks) {
    experiment_spec spec = parsed(artifact_text);
    apply_override(spec, "run.device=" + device);
    if (!ranks.empty()) apply_override(spec, "run.ranks=" + ranks);
    return needs_of(spec);
  };
  using list = std::vector<std::string>;
  EXPECT_EQ(needs("cuda", "4"), (list{"cuda", "gpus:4"}));
  EXPECT_EQ(needs("cuda", ""), (list{"cuda"}));
  EXPECT_EQ(needs("cpu", "4"), list());
  const experiment_spec swept = parsed(std::string(artifact_text) +
                                           "[scale.several]\n[scale.several.sweep]\nranks = "
                                           "[1, 2, 8]\n[scale.several.run]\ndevice = \"cuda\"\n",
                                       "several");
  EXPECT_EQ(needs_of(swept), (list{"cuda", "gpus:8"}));
  EXPECT_NE(cannot_run(swept, small_machine()).find("8 GPUs (this machine has none)"),
            std::string::npos);
  // Of a file's own [serve], in which the default is left out; a server that computes nothing has no ranks.
  experiment_spec served = swept;
  served.run.kind = "serve";
  EXPECT_EQ(needs_of(served), (list{"cuda", "gpus:8"}));
  served.run.serve["commits"] = std::string("sdar-8b/sharegpt");
  EXPECT_EQ(needs_of(served), (list{"cuda"}));
  setenv("UNMASK_FOLLOWS", "1 /proc/1/fd/3", 1);
  EXPECT_EQ(needs_of(swept), (list{"cuda"}));
  unsetenv("UNMASK_FOLLOWS");
}

TEST(scales, labels_keep_these_methods_in_the_order_of_the_file) {
  const std::string more =
      "[[method]]\nname = \"fast_dllm\"\n[scale.some]\nlabels = [\"fast_dllm\", \"vanilla\"]\n";
  const experiment_spec spec = parsed(artifact_text + more, "some");
  EXPECT_EQ(names_in(spec.methods, &method_entry::label),
            (std::vector<std::string>{"vanilla", "fast_dllm"}));
  EXPECT_EQ(spec.methods[0].models, std::vector<std::string>{"canvas"});
  // Of a scale's own methods, where it has some.
  const experiment_spec own =
      parsed(more +
                 "[[scale.some.method]]\nname = \"vanilla\"\n[[scale.some.method]]\nname = "
                 "\"vanilla\"\nlabel = \"other\"\n[[scale.some.method]]\nname = \"fast_dllm\"\n",
             "some");
  EXPECT_EQ(names_in(own.methods, &method_entry::label),
            (std::vector<std::string>{"vanilla", "fast_dllm"}));
  EXPECT_EQ(parsed(artifact_text + more).methods.size(), 3u);  // another scale keeps all
}

// A plain experiment insists on its device as an artifact does.
TEST(scales, a_device_that_is_asked_for_is_needed) {
  experiment_spec spec = parsed(artifact_text);
  EXPECT_EQ(cannot_run(spec, small_machine()), "");
  spec.run.device = "cuda";
  EXPECT_NE(cannot_run(spec, small_machine()), "");
  spec.artifact = {};
  EXPECT_NE(cannot_run(spec, small_machine()), "");
}

TEST(scales, mistakes_are_named_with_their_line) {
  const std::string text = artifact_text;
  const struct {
    std::string text, scale, says;
  } cases[] = {
      {text, "ful", "did you mean 'full'"},
      {"title = \"x\"\n", "tiny", "has no scales"},
      {"[scale.full]\n[scale.shapes]\n", "", "has no scale \"tiny\""},
      {text + "[scale.other]\nlabels = [\"vanila\"]\n", "other",
       "`scale.other.labels`: unknown label 'vanila'; did you mean 'vanilla'"},
      {"[scale.tiny]\nlabels = [\"fast\"]\n", "", "unknown label 'fast'"},
      {text + "[scale.tiny.wrkload]\n", "", "workload"},
      {text + "[scale.other]\nneeds = [\"weigths:x\"]\n", "", "did you mean 'weights'"},
      {text + "[scale.other]\nneeds = [\"memory_gb:much\"]\n", "", "memory_gb:N"},
      {text + "[scale.other]\nneeds = [\"benchmark:gsm9k\"]\n", "", "gsm8k"},
      {"[artifact]\npaper = \"Focus\"\nid = \"t\"\nkind = \"table\"\ntitle = \"t\"\n", "",
       "small letters"},
      {"[artifact]\npaper = \"focus\"\nid = \"t\"\nkind = \"tabel\"\ntitle = \"t\"\n", "",
       "did you mean 'table'"},
      {"scale = 3\n", "", "[scale.NAME]"},
      {"[scale.tiny.run]\nbatch_size = \"x\"\n", "", "table_5.toml:2"},
      {"[scale.tiny.set]\n\"batch_sise\" = 3\n", "", "did you mean 'batch_size'"},
  };
  for (const auto& c : cases) {
    const std::string said = message_of([&] { parsed(c.text, c.scale); });
    EXPECT_TRUE(has(said, c.says)) << c.says << ": " << said;
    EXPECT_TRUE(has(said, "table_5.toml")) << said;
  }
}

TEST(scales, an_artifact_may_say_why_it_cannot_be_reproduced) {
  const experiment_spec spec = parsed(
      "[artifact]\npaper = \"focus\"\nid = \"figure_9\"\nkind = \"figure\"\ntitle = \"Votes\"\n"
      "not_reproducible = \"a human study\"\n",
      "full");
  EXPECT_EQ(cannot_run(spec, small_machine()), "NOT RUN: a human study");
  const experiment_spec later = parsed(
      "[artifact]\npaper = \"focus\"\nid = \"t\"\nkind = \"table\"\ntitle = \"T\"\n"
      "[scale.tiny]\nnot_run = \"the model is too small\"\n");
  EXPECT_EQ(cannot_run(later, small_machine()), "NOT RUN: the model is too small");
}

TEST(locate, weights_and_datasets_are_found_where_the_environment_says) {
  const scratch_directory scratch;
  write(scratch / "models/My-8B/config.json", "{}");
  write(scratch / "hub/models--org--Other-7B/snapshots/abc/config.json", "{}");
  write(scratch / "sets/gsm8k/test.jsonl", "");
  write(scratch / "sets/gsm8k/train.first2.jsonl.gz", "");
  write(scratch / "sets/math500/test-00000-of-00001.parquet", "");
  write(scratch / "sets/piqa/valid.jsonl", "");
  write(scratch / "sets/traces/azure.csv", "");
  const std::string models = "/nowhere:" + (scratch / "models").string();
  ::setenv("UNMASK_MODELS", models.c_str(), 1);
  ::setenv("HF_HUB_CACHE", (scratch / "hub").c_str(), 1);
  ::setenv("UNMASK_DATASETS", (scratch / "sets").c_str(), 1);
  EXPECT_EQ(find_weights("My-8B"), scratch / "models/My-8B");
  EXPECT_EQ(find_weights("org/Other-7B"), scratch / "hub/models--org--Other-7B/snapshots/abc");
  EXPECT_EQ(find_weights("Other-7B"), scratch / "hub/models--org--Other-7B/snapshots/abc");
  EXPECT_FALSE(find_weights("another/Other-7B"));
  EXPECT_FALSE(find_weights("8B"));
  EXPECT_FALSE(find_weights(".."));
  EXPECT_TRUE(this_machine().has_benchmark("gsm8k"));
  EXPECT_TRUE(this_machine().has_benchmark("math500/OC-F"));
  EXPECT_FALSE(this_machine().has_benchmark("humaneval"));
  EXPECT_FALSE(this_machine().has_benchmark("piqa"));  // its labels are another file
  EXPECT_TRUE(find_trace("azure.csv"));
  ::unsetenv("UNMASK_MODELS");
  ::unsetenv("HF_HUB_CACHE");
  ::unsetenv("UNMASK_DATASETS");
}

TEST(catalogue, lists_every_artifact_once_and_names_broken_files) {
  const scratch_directory scratch;
  const std::string text = artifact_text;
  const auto renamed = [&](const std::string& id) {
    return std::string(text).replace(text.find("table_5"), 7, id);
  };
  write(scratch / "focus/table_10.toml", renamed("table_10"));
  write(scratch / "focus/table_2.toml", renamed("table_2"));
  write(scratch / "focus/again.toml", renamed("table_2"));
  write(scratch / "focus/broken.toml", "[artifact\n");
  write(scratch / "plain.toml", "title = \"no artifact\"\n");
  write(scratch / "claims/focus.toml", "not = \"an experiment\"\n");
  const auto all = find_artifacts(scratch.path(), small_machine());
  ASSERT_EQ(all.size(), 4u);
  EXPECT_TRUE(has(all[0].problem, "broken.toml:1"));
  EXPECT_EQ(all[1].header.id, "table_2");
  EXPECT_EQ(all[3].header.id, "table_10");  // 10 after 2
  EXPECT_TRUE(has(all[2].problem, "already")) << all[2].problem;
  const std::string listing = artifact_listing(all);
  EXPECT_TRUE(has(listing, "BROKEN"));
  EXPECT_TRUE(has(listing, "tiny   runs here (1 s)")) << listing;
  EXPECT_TRUE(has(listing, "full   NOT RUN: needs 64 GB of memory (this machine has 16)"))
      << listing;
}

TEST(request, names_the_output_and_keeps_what_was_asked_for) {
  const scratch_directory scratch;
  const auto file = write(scratch / "table_5.toml", artifact_text);
  const run_request request{file, "", {"run.batch_size=3"}};
  const experiment_spec spec = requested_spec(request);
  EXPECT_EQ(output_name(spec), std::filesystem::path("focus/table_5/tiny"));
  EXPECT_EQ(output_name(parse_spec("", "/x/quick.toml")), std::filesystem::path("quick"));
  run_manifest m{"table_5.toml", artifact_text, "tiny", request.overrides, "abc"};
  const auto points = make_plan(spec, fixtures::catalogue());
  replace_file(scratch / "run.json", manifest_json(m, spec, points));
  const run_manifest back = read_manifest(scratch / "run.json");
  EXPECT_EQ(back.text, artifact_text);
  EXPECT_EQ(back.scale, "tiny");
  EXPECT_EQ(back.overrides, request.overrides);
  std::string broken = manifest_json(m, spec, points);
  broken.replace(broken.find("Speed &"), 5, "Speee");
  write(scratch / "run.json", broken);
  EXPECT_TRUE(has(message_of([&] { read_manifest(scratch / "run.json"); }), "hash"));
  EXPECT_THROW(read_manifest(scratch / "none.json"), error);
}

}  // namespace
}  // namespace unmask
