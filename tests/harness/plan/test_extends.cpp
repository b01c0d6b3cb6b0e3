// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A file that extends another one: what the two give together, where paths of both lead, and what is
// refused. What is expected is the file written out whole by hand.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/plan/request.h"
#include "tests/harness/plan/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;
namespace fs = std::filesystem;

constexpr const char* base_text = R"(title = "Base"
description = "of two models"
[artifact]
paper = "focus"
id = "table_5"
kind = "table"
title = "Speed"
[run]
repetitions = 3
batch_size = 2
[[model]]
path = "../models/own"
role = "canvas"
[[model]]
path = "weights:GSAI-ML/LLaDA-8B"
config = "../shapes/llada"
[[workload]]
file = "tasks.jsonl"
limit = 4
[[workload]]
tasks = ["own_task"]
[[method]]
name = "vanilla"
params.steps = 4
[[method]]
name = "vanilla"
label = "at 0.9"
params.threshold = 0.9
params.steps = 8
[[method]]
name = "block_diffusion"
[sweep]
batch_size = [1, 8]
params.steps = [0, 4]
)";

constexpr const char* own_text = R"(extends = "../base/b.toml"
title = "Mine"
[run]
batch_size = 3
seed = 7
[[model]]
name = "LLaDA-8B"
remove = true
[[workload]]
file = "../base/tasks.jsonl"
limit = 6
[[workload]]
tasks = ["mine"]
[[method]]
label = "at 0.9"
params.threshold = 0.7
[[method]]
name = "block_diffusion"
remove = true
[[method]]
name = "vanilla"
label = "third"
[sweep]
params.steps = []
seed = [1, 2]
)";

// What the two say, by hand.
constexpr const char* whole = R"(title = "Mine"
description = "of two models"
[run]
repetitions = 3
batch_size = 3
seed = 7
[[model]]
path = "../models/own"
role = "canvas"
[[workload]]
file = "../base/tasks.jsonl"
limit = 6
[[workload]]
file = "../base/data/own_task.jsonl"
[[workload]]
tasks = ["mine"]
[[method]]
name = "vanilla"
params.steps = 4
[[method]]
name = "vanilla"
label = "at 0.9"
params.threshold = 0.7
params.steps = 8
[[method]]
name = "vanilla"
label = "third"
[sweep]
batch_size = [1, 8]
seed = [1, 2]
)";

struct extends : testing::Test {
  extends() {
    write(dir / "base/b.toml", base_text);
    write(dir / "base/tasks.jsonl", "{}\n");
    write(dir / "base/data/own_task.jsonl", "{}\n");
    write(dir / "mine/data/mine.jsonl", "{}\n");
    write(dir / "models/own/config.json", "{}");
    file = write(dir / "mine/m.toml", own_text);
  }
  // The plan as run.json has it.
  static std::string plan_of(const experiment_spec& spec) {
    const auto manifest = manifest_json({}, spec, make_plan(spec, fixtures::catalogue()));
    return nlohmann::ordered_json::parse(manifest)["plan"].dump(1);
  }
  std::string problem_of(const std::string& text, const path_bounds& bounds = {}) const {
    return message_of([&] { parse_spec(text, file, "", bounds); });
  }
  scratch_directory dir;
  fs::path file;
};

TEST_F(extends, gives_the_plan_of_the_file_written_out_whole) {
  const experiment_spec by_hand = parse_spec(whole, file), spec = read_spec(file);
  EXPECT_EQ(plan_of(spec), plan_of(by_hand));
  EXPECT_EQ(make_plan(spec, fixtures::catalogue()).size(), 18u);  // 3 x 3 x 2, for any seed
  EXPECT_EQ(spec.description, "of two models");
  EXPECT_EQ(spec.evidence.max_repetitions, 3);
  EXPECT_EQ(spec.extends, "../base/b.toml");
  EXPECT_TRUE(spec.artifact.paper.empty());  // it is another table than that one
  EXPECT_EQ(spec.workloads[1].file, dir / "base/data/own_task.jsonl");
}

// A text that extends nothing, with the paths that lead from the folder of the file.
TEST_F(extends, is_kept_whole_in_the_manifest) {
  write(dir / "mine/data/own_task.jsonl", "{}\n");  // a task is looked up where its text is
  const run_request request{file, "", {}, {}, {}};
  const experiment_spec spec = requested_spec(request);
  const auto points = make_plan(spec, fixtures::catalogue());
  replace_file(dir / "mine/run.json", requested_manifest(request, spec, "abc", points));
  const run_manifest kept = read_manifest(dir / "mine/run.json");
  EXPECT_EQ(kept.text.find("extends"), std::string::npos) << kept.text;
  EXPECT_EQ(kept.text.find("remove"), std::string::npos) << kept.text;
  EXPECT_EQ(whole_experiment(file), kept.text);
  experiment_spec again = parse_spec(kept.text, file);
  EXPECT_EQ(plan_of(again), plan_of(spec));
  EXPECT_EQ(again.models.at(0).path, spec.models.at(0).path);
  // The text of a file that extends nothing is kept to the byte.
  EXPECT_EQ(whole_experiment(write(dir / "mine/w.toml", std::string("# why\n") + whole)),
            std::string("# why\n") + whole);
}

TEST_F(extends, paths_belong_to_the_file_that_names_them) {
  write(dir / "deep/er/f.toml", "extends = \"../../base/b.toml\"\n");
  const experiment_spec spec = read_spec(dir / "deep/er/f.toml");
  EXPECT_EQ(fs::weakly_canonical(spec.models.at(0).path), dir / "models/own");
  EXPECT_EQ(spec.models.at(1).config, dir / "shapes/llada");
  EXPECT_EQ(spec.models.at(1).published, "GSAI-ML/LLaDA-8B");
  EXPECT_EQ(spec.workloads.at(0).file, dir / "base/tasks.jsonl");
  EXPECT_EQ(spec.workloads.at(1).file, dir / "base/data/own_task.jsonl");
  // Of a file that comes with the program its paths do, and no path of this machine is kept.
  write(dir / "f.toml", "extends = \"sparse_dllm/table_3.toml\"\n");
  const std::string text = whole_experiment(dir / "f.toml");
  EXPECT_NE(text.find("\"experiments/models/tiny-llada\""), std::string::npos) << text;
  EXPECT_EQ(text.find("../"), std::string::npos) << text;
  const experiment_spec shipped = parse_spec(text, dir / "f.toml", "shapes");
  EXPECT_TRUE(fs::is_directory(shipped.models.at(0).path)) << shipped.models.at(0).path;
}

TEST_F(extends, scales_merge_and_keep_their_order) {
  write(dir / "base/b.toml", artifact_text);
  const auto over = [&](const std::string& text) {
    return write(dir / "base/s.toml", "extends = \"b.toml\"\n" + text);
  };
  const fs::path more = over(
      "[scale.tiny]\nnote = \"n\"\n[scale.tiny.run]\nseed = 5\n[[scale.tiny.model]]\nname = "
      "\"tiny\"\nsoften = 2.0\n[scale.also]\n[[scale.also.model]]\npath = \"tiny\"\n");
  const experiment_spec spec = read_spec(more);
  EXPECT_EQ(names_in(spec.scales, &scale_entry::name),
            (std::vector<std::string>{"tiny", "full", "also"}));
  EXPECT_EQ(spec.scales[0].takes, "1 s");
  EXPECT_EQ(spec.scales[0].note, "n");
  EXPECT_EQ(spec.run.seed, 5);
  EXPECT_EQ(spec.run.batch_size, 2);
  EXPECT_EQ(spec.models.at(0).soften, 2.0);
  EXPECT_EQ(spec.models.at(0).role, "canvas");
  // A table that is removed is then what this file says of it.
  const experiment_spec fewer = read_spec(
      over("[scale.full]\nremove = true\n[scale.tiny.sweep]\nremove = true\nseed = [1, 2, 3]\n"
           "[[method]]\nremove = true\n[[method]]\nname = \"vanilla\"\n[scale.tiny.set]\nremove "
           "= true\n[sweep]\nremove = true\n"));
  EXPECT_EQ(fewer.scales.size(), 1u);
  EXPECT_EQ(fewer.methods.size(), 1u);
  ASSERT_EQ(fewer.axes.size(), 1u);
  EXPECT_EQ(fewer.axes[0].key, "seed");
  EXPECT_EQ(fewer.axes[0].values.size(), 3u);
  EXPECT_TRUE(fewer.overrides.empty());
}

// Two workloads of one name for two models: both change, and what a third file changes comes last.
TEST_F(extends, changes_every_entry_of_a_name_file_after_file) {
  write(dir / "base/b.toml",
        "[[workload]]\ntasks = [\"own_task\"]\nmodels = [\"a\"]\nlimit = 1\n[[workload]]\ntasks = "
        "[\"own_task\"]\nmodels = [\"b\"]\nlimit = 2\n");
  write(dir / "base/c.toml",
        "extends = \"b.toml\"\n[[workload]]\ntasks = [\"own_task\"]\nlimit = 3\noffset = 1\n");
  const experiment_spec spec = read_spec(write(
      dir / "base/d.toml", "extends = \"c.toml\"\n[[workload]]\nname = \"own_task\"\nlimit = 4\n"));
  ASSERT_EQ(spec.workloads.size(), 2u);
  for (const workload_entry& w : spec.workloads) {
    EXPECT_EQ(w.items.limit, 4);
    EXPECT_EQ(w.items.offset, 1);
  }
  EXPECT_EQ(spec.workloads[0].models, std::vector<std::string>{"a"});
  EXPECT_EQ(spec.workloads[1].models, std::vector<std::string>{"b"});
  // Tasks of one table have no name together; what names them changes them all the same.
  write(dir / "base/b.toml", "[[workload]]\ntasks = [\"own_task\", \"word_problem\"]\n");
  const experiment_spec both = read_spec(
      write(dir / "base/d.toml",
            "extends = \"b.toml\"\n[[workload]]\nname = \"own_task, word_problem\"\nlimit = 4\n"));
  EXPECT_EQ(names_in(both.workloads, &workload_entry::name),
            (std::vector<std::string>{"own_task", "word_problem"}));
  EXPECT_EQ(both.workloads[1].items.limit, 4);
}

TEST_F(extends, mistakes_are_one_sentence_with_file_and_key) {
  const std::string b = (dir / "base/b.toml").string(), m = file.string();
  const std::string head = "extends = \"../base/b.toml\"\n";
  EXPECT_EQ(problem_of("extends = 3"), m + ":1: `extends` takes the name of an experiment file");
  EXPECT_EQ(problem_of("extends = [\"b.toml\"]"),
            m + ":1: `extends` takes the name of an experiment file");
  EXPECT_TRUE(has(problem_of("\nextends = \"none.toml\""),
                  m + ":2: `extends` is 'none.toml', and there is no such file; looked in "));
  EXPECT_TRUE(has(problem_of("extends = \"../base\""), "there is no such file"));
  EXPECT_EQ(problem_of("extends = \"m.toml\""),
            m + ":1: `extends` is " + m + ", which extends this file");
  EXPECT_EQ(problem_of(head + "[[method]]\nlabel = \"at 0.8\"\nparams.steps = 1"),
            m + ":2: unknown [[method]] of " + b + " 'at 0.8'; did you mean 'at 0.9'?");
  EXPECT_EQ(problem_of(head + "[[method]]\nlabel = \"at 0.8\"\nremove = true"),
            m + ":2: unknown [[method]] of " + b + " 'at 0.8'; did you mean 'at 0.9'?");
  EXPECT_EQ(problem_of(head + "[[method]]\nlabel = \"at 0.9\"\nremove = true\nparams.steps = 1"),
            m + ":5: `method.params`: an entry with `remove` has its name and no other key");
  EXPECT_EQ(problem_of(head + "[run]\nremove = false"), m + ":3: `remove` takes true");
  EXPECT_EQ(problem_of(head + "[serve]\nremove = true"),
            m + ":2: unknown table of " + b + " 'serve'; known: run, sweep");
  EXPECT_EQ(problem_of(head + "[scale.tiny.run]\nremove = true"),
            m + ":3: " + b + " has no [scale.tiny.run]");
  EXPECT_EQ(problem_of(head + "[scale.tiny]\n[[scale.tiny.method]]\nremove = true"),
            m + ":4: " + b + " has no [[scale.tiny.method]]");
  EXPECT_EQ(problem_of(head + "model = 3"), m + ":2: `model` must be written as [[model]]");
  EXPECT_EQ(problem_of(head + "[[method]]\nname = \"x\"\nparam.a = 1"),
            m + ":4: unknown key of [method] 'param'; did you mean 'params'?");
  // Nothing is removed from what a file says itself.
  EXPECT_TRUE(has(problem_of("[run]\nremove = true"), m + ":2: unknown key of [run] 'remove'"));
}

TEST_F(extends, a_mistake_of_the_other_file_names_that_file) {
  const std::string b = (dir / "base/b.toml").string();
  const auto said = [&](const std::string& text) {
    write(dir / "base/b.toml", text);
    return problem_of(
        "extends = \"../base/b.toml\"\n[run]\nseed = 1\n[[method]]\nname = "
        "\"vanilla\"\nparams.steps = 2\n[scale.tiny]\nnote = \"n\"\n");
  };
  EXPECT_EQ(said("title = \"x\"\n[run]\nbatchsize = 2"),
            b + ":3: unknown key of [run] 'batchsize'; did you mean 'batch_size'?");
  EXPECT_EQ(said("\n[run]\nbatch_size = 0"),
            b + ":3: `run.batch_size` is 0 but must be from 1 to 1048576");
  EXPECT_EQ(said("[[method]]\nname = \"vanilla\"\nparam.x = 1"),
            b + ":3: unknown key of [method] 'param'; did you mean 'params'?");
  EXPECT_EQ(said("[[method]]\nname = \"vanilla\"\nmodels = 3"),
            b + ":3: `method.models` takes an array of strings, not integer");
  EXPECT_EQ(said("[sweep]\nbatch_sizes = [1]"),
            b + ":2: unknown setting 'batch_sizes'; did you mean 'batch_size'?");
  EXPECT_EQ(said("[scale.tiny]\ntake = \"x\""),
            b + ":2: unknown key of [scale.tiny] 'take'; did you mean 'takes'?");
  EXPECT_EQ(said("[[workload]]\ntasks = [\"own_tsk\"]").substr(0, b.size() + 3), b + ":1:");
  EXPECT_TRUE(has(said("\na = "), b + ":2: "));
  write(dir / "base/c.toml", "extends = \"b.toml\"");
  EXPECT_EQ(said("extends = \"c.toml\""),
            (dir / "base/c.toml").string() + ":1: `extends` is " + b + ", which extends this file");
}

TEST_F(extends, a_strangers_file_extends_none_outside_its_folder) {
  const path_bounds inside{dir / "mine", false};
  write(dir / "mine/near.toml", "title = \"near\"\n");
  EXPECT_EQ(parse_spec("extends = \"near.toml\"", file, "", inside).title, "near");
  write(dir / "secret.toml", "password = \"x\"\n");
  for (const std::string& named : {std::string("../secret.toml"), (dir / "secret.toml").string()}) {
    const std::string said = problem_of("extends = \"" + named + "\"", inside);
    EXPECT_TRUE(has(said, ":1: `extends` is ")) << said;
    EXPECT_TRUE(has(said, "secret.toml, outside " + (dir / "mine").string())) << said;
    EXPECT_TRUE(has(said, "--allow-outside")) << said;
    EXPECT_FALSE(has(said, "password")) << said;
  }
  fs::create_symlink(dir / "secret.toml", dir / "mine/link.toml");
  EXPECT_TRUE(has(problem_of("extends = \"link.toml\"", inside), "outside"));
  EXPECT_TRUE(has(problem_of("extends = \"link.toml\"", {dir / "mine", true}), "'password'"));
}

}  // namespace
}  // namespace unmask
