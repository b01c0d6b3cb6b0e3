// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What --model may name, and whose template the prompt gets.
#include <gtest/gtest.h>

#include <filesystem>

#include "harness/base/files.h"
#include "tests/harness/cli/program.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using test::run_program;

class model_names : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(snapshot());
    const fs::path model = fs::path(UNMASK_SOURCE_DIR) / "experiments/models/tiny-sdar";
    for (const fs::path& file : entries_of(model)) {
      fs::copy_file(file, snapshot() / file.filename());
    }
  }
  fs::path snapshot() const { return folder_.path() / "hub/models--Some--Tiny/snapshots/abc"; }
  test::outcome generate(const std::string& arguments) const {
    return run_program(folder_.path().string(), "generate -n 32 " + arguments + " 'Compute 3 + 4.'",
                       "HF_HUB_CACHE='" + (folder_.path() / "hub").string() + "'");
  }
  void expect_answer(const std::string& arguments) const {
    const test::outcome o = generate(arguments);
    EXPECT_EQ(o.code, 0) << o.text;
    EXPECT_NE(o.text.find("7"), std::string::npos) << o.text;
  }

  scratch_folder folder_;
};

TEST_F(model_names, are_folders_cache_entries_published_and_embedded_ones) {
  expect_answer("");  // the default, from a folder of nobody
  for (const char* name : {"tiny-sdar", "Some/Tiny", "models--Some--Tiny", "hub/models--Some--Tiny",
                           "hub/models--Some--Tiny/snapshots/abc"}) {
    expect_answer("--model " + std::string(name));
  }
  const test::outcome missing = generate("--model Some/Other");
  EXPECT_EQ(missing.code, 3);
  for (const char* part : {"cannot find the model 'Some/Other'. Looked in: this folder, ",
                           "hf download Some/Other", "HF_HUB_CACHE"}) {
    EXPECT_NE(missing.text.find(part), std::string::npos) << missing.text;
  }
  const test::outcome near = generate("--model tiny-lada");
  EXPECT_NE(
      near.text.find("cannot find the model 'tiny-lada'; did you mean 'tiny-llada'? Looked in: "),
      std::string::npos)
      << near.text;
}

// [[model]] path takes the same name; a folder beside the file goes before the cache.
TEST_F(model_names, an_experiment_names_a_published_model_as_the_option_does) {
  const auto run = [&](const std::string& path) {
    write_file(folder_.path() / "x.toml",
               "title = \"x\"\n[run]\ngen_length = 32\n[[model]]\npath = \"" + path +
                   "\"\n[[workload]]\ntasks = [\"word_problem\"]\n"
                   "limit = 1\n[[method]]\nname = \"vanilla\"\n");
    return run_program(folder_.path().string(), "run x.toml --fresh --no-progress -o out",
                       "HF_HUB_CACHE='" + (folder_.path() / "hub").string() + "'");
  };
  const test::outcome found = run("Some/Tiny");
  EXPECT_EQ(found.code, 0) << found.text;
  EXPECT_NE(found.text.find("Tiny"), std::string::npos) << found.text;
  const test::outcome missing = run("Some/Other");
  EXPECT_NE(missing.code, 0);
  EXPECT_NE(missing.text.find("Some/Other"), std::string::npos) << missing.text;
  fs::create_directories(folder_.path() / "Some/Tiny");  // holds no model
  EXPECT_NE(run("Some/Tiny").code, 0);
}

TEST_F(model_names, a_checkpoint_without_a_template_is_told_so) {
  std::string config = read_file(snapshot() / "tokenizer_config.json", 1 << 20);
  const std::string key = "\"chat_template\"";
  config.replace(config.find(key), key.size(), "\"other\"");
  write_file(snapshot() / "tokenizer_config.json", config);
  const test::outcome o = generate("--model Some/Tiny");
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.text.find("has no chat template"), std::string::npos) << o.text;
  EXPECT_EQ(generate("--raw --model Some/Tiny").code, 0);
  const test::outcome doctor =
      run_program(folder_.path().string(), "doctor --model '" + snapshot().string() + "'");
  EXPECT_NE(doctor.text.find("chat template: none"), std::string::npos) << doctor.text;
}

}  // namespace
}  // namespace unmask
