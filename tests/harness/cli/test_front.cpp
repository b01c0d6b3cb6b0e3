// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The command line: help, completion and the manual of every command, limits, and what is said of
// settings and prompts that cannot mean what the user thinks.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "harness/base/files.h"
#include "harness/cli/command.h"
#include "harness/cli/help.h"
#include "harness/cli/training_tasks.h"
#include "tests/harness/cli/program.h"
#include "tests/support.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

test::outcome run(const std::string& arguments) {
  return test::run_program(UNMASK_SOURCE_DIR, arguments);
}

void ends(const std::string& arguments, int code, const std::vector<std::string>& words) {
  const test::outcome o = run(arguments);
  EXPECT_EQ(o.code, code) << arguments << "\n" << o.text;
  for (const std::string& part : words) {
    EXPECT_NE(o.text.find(part), std::string::npos) << part << "\n" << o.text;
  }
}

TEST(help, tells_every_command_with_examples_and_defaults_for_people) {
  const test::outcome all = run("help");
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(run("--help").text, all.text);
  for (const command& c : commands()) {
    SCOPED_TRACE(c.name);
    EXPECT_NE(all.text.find("\n  " + std::string(c.name) + " "), std::string::npos);
    const test::outcome o = run(std::string(c.name) + " --help");
    EXPECT_EQ(o.code, 0);
    EXPECT_EQ(run("help " + std::string(c.name)).text, o.text);
    EXPECT_EQ(o.text.rfind("usage: unmask " + std::string(c.name), 0), 0U) << o.text;
    const std::size_t examples = o.text.find("\nexample");
    EXPECT_NE(examples, std::string::npos) << o.text;
    EXPECT_EQ(o.text.find("\nexample", examples + 1), std::string::npos) << o.text;
    for (const char* machine : {" arg ", "(=", "0000000", "0.099"}) {
      EXPECT_EQ(o.text.find(machine), std::string::npos) << machine << "\n" << o.text;
    }
    const command_words words = words_of(c);
    for (const option& option : words.options) {
      EXPECT_NE(o.text.find("--" + spelled_out(option).name), std::string::npos);
    }
  }
  EXPECT_NE(run("crossover --help").text.find("default: 0.1"), std::string::npos);
  ends("help generte", 2, {"'generate'"});
  ends("help run bench", 2, {});
}

// Each example names options that the command has.
TEST(help, examples_use_options_that_are_there) {
  for (const command& c : commands()) {
    const command_words words = words_of(c);
    std::vector<std::string> known = {"--help", "-h"};
    for (const option& o : words.options) {
      known.push_back("--" + spelled_out(o).name);
      known.push_back("-" + spelled_out(o).letter);
    }
    EXPECT_FALSE(c.examples.empty()) << c.name;
    for (const std::string& example : c.examples) {
      std::istringstream in(example.substr(0, example.find('"')));
      std::string word;
      in >> word;
      EXPECT_EQ(word, c.name);
      while (in >> word) {
        if (!word.starts_with("-")) continue;
        EXPECT_NE(std::ranges::find(known, word.substr(0, word.find('='))), known.end()) << example;
      }
    }
  }
}

TEST(help, every_command_stands_in_its_page_and_every_exit_code) {
  const std::string readme = test::text_of(fs::path(UNMASK_SOURCE_DIR) / "harness/cli/README.md");
  for (const command& c : commands()) {
    EXPECT_NE(readme.find("`unmask " + std::string(c.name)), std::string::npos) << c.name;
  }
  const std::size_t at = readme.find("Exit codes:");
  ASSERT_NE(at, std::string::npos);
  const std::string codes = readme.substr(at, readme.find("\n\n", at) - at);
  for (const exit_meaning& e : exit_codes()) {
    EXPECT_NE(codes.find(std::to_string(e.code) + " "), std::string::npos) << e.meaning;
  }
}

TEST(completion, bash_completes_commands_options_and_values) {
  const scratch_folder scratch;
  const std::string script = (scratch.path() / "completion").string();
  EXPECT_EQ(run("completion bash > '" + script + "'").code, 0);
  const auto completed = [&](const std::string& words, int at) {
    const test::outcome o =
        test::run_shell(UNMASK_SOURCE_DIR, "bash -c 'source \"" + script + "\"; COMP_WORDS=(" +
                                               words + "); COMP_CWORD=" + std::to_string(at) +
                                               "; _unmask; echo \"${COMPREPLY[*]}\"'");
    EXPECT_EQ(o.code, 0) << o.text;
    return o.text;
  };
  EXPECT_EQ(completed("unmask gene", 1), "generate\n");
  EXPECT_EQ(completed("unmask bench --gen", 2), "--gen-length\n");
  EXPECT_EQ(completed("unmask bench x -m sparse_", 4), "sparse_blocks sparse_d sparse_dllm\n");
  EXPECT_EQ(completed("unmask run --device cu", 3), "cuda cuda-emulated\n");
  EXPECT_EQ(completed("unmask show opt", 2), "optimus\n");
  EXPECT_EQ(completed("unmask list cl", 2), "claims\n");
  EXPECT_EQ(completed("unmask table READ", 2), "README.md\n");
  for (const command& c : commands()) {
    const std::string options = completed("unmask " + std::string(c.name) + " -", 2);
    for (const option& o : words_of(c).options) {
      EXPECT_NE(options.find("--" + spelled_out(o).name), std::string::npos) << options;
    }
  }
}

TEST(completion, zsh_reads_its_script) {
  const test::outcome o = run("completion zsh");
  EXPECT_EQ(o.code, 0);
  for (const command& c : commands()) {
    EXPECT_NE(o.text.find("    " + std::string(c.name) + ")\n"), std::string::npos) << c.name;
  }
  ends("completion fish", 2, {"bash"});
  if (test::run_shell("/", "command -v zsh").code != 0) GTEST_SKIP() << "NOT RUN: needs zsh";
  const test::outcome parsed =
      test::run_shell(UNMASK_SOURCE_DIR, "\"$UNMASK\" completion zsh | zsh -n /dev/stdin");
  EXPECT_EQ(parsed.code, 0) << parsed.text;
}

TEST(manual, holds_every_command_and_option) {
  const test::outcome o = run("man");
  EXPECT_EQ(o.code, 0);
  EXPECT_NE(o.text.find(".TH UNMASK 1\n"), std::string::npos);
  for (const command& c : commands()) {
    EXPECT_NE(o.text.find(".SS " + std::string(c.name)), std::string::npos) << c.name;
    for (const option& option : words_of(c).options) {
      std::string name = spelled_out(option).name;
      for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) {
        name.insert(at, "\\");
      }
      EXPECT_NE(o.text.find("\\-\\-" + name), std::string::npos) << name;
    }
  }
  if (test::run_shell("/", "command -v groff").code != 0) GTEST_SKIP() << "NOT RUN: needs groff";
  const test::outcome set =
      test::run_shell(UNMASK_SOURCE_DIR, "\"$UNMASK\" man | groff -man -Tutf8 -ww -z");
  EXPECT_EQ(set.text, "");
}

TEST(limits, numbers_outside_their_type_or_the_model_are_refused_before_anything_is_built) {
  for (const auto& [arguments, part] : std::vector<std::pair<std::string, std::string>>{
           {"generate -n 4294967328 x", "--gen-length is 4294967328"},
           {"generate -n 2147483648 x", "--gen-length is 2147483648"},
           {"generate -n 2147483616 --model tiny-sdar x", "--gen-length"},
           {"generate -n 0 x", "--gen-length"},
           {"generate -n 99999999999999999999 x", "gen-length"},
           {"generate -n 16777216 --model tiny-sdar -m optimus x", "was made for"},
           {"generate --pause 99999999999 x", "--pause"},
           {"bench tiny-sdar -p 4294967300 -n 32", "--prompt-tokens"},
           {"bench tiny-sdar -p 2147483647 -n 32", "--prompt-tokens"},
           {"bench tiny-sdar -p 16000000 -n 32", "was made for 4096"},
           {"bench tiny-sdar -p 16 -n 8192", "was made for 4096"},
           {"bench tiny-sdar -p 16 -n 32 --requests 50000000", "--requests is 50000000"},
           {"bench tiny-sdar -p 4000 -n 32 --requests 1000000", "take fewer"},
           {"bench tiny-sdar -p 4000 -n 32 -b 1000000", "take fewer"},
           {"bench tiny-sdar -n 32 -b 4294967297", "--batch-size"},
           {"bench tiny-sdar -n 32 --repetitions 4294967297", "--repetitions"},
           {"bench tiny-sdar -n 32 --layers 4294967297 --weights random:1", "--layers"},
           {"profile tiny-sdar -p 5000 -n 32", "was made for 4096"},
           {"profile tiny-sdar -b 4294967297", "--batch-size"},
           {"profile tiny-sdar --limit 4294967297", "--limit"},
           {"profile tiny-sdar --tool ncu --print-command --launch-count 4294967297",
            "--launch-count"},
           {"plan experiments/quickstart.toml --shards 4294967297", "--shards"}}) {
    // What is built before the look at it would not fit.
    const test::outcome o =
        test::run_shell(UNMASK_SOURCE_DIR, "ulimit -v 3000000; \"$UNMASK\" " + arguments);
    EXPECT_EQ(o.code, 2) << arguments << "\n" << o.text;
    EXPECT_NE(o.text.find(part), std::string::npos) << arguments << "\n" << o.text;
  }
}

TEST(bench, a_second_time_prints_the_same_table) {
  const scratch_folder scratch;
  const std::string line = "bench tiny-sdar -n 32 --repetitions 2 --warmup 0 --no-progress -o '" +
                           scratch.path().string() + "' 2>/dev/null";
  const test::outcome first = run(line), second = run(line);
  EXPECT_EQ(first.code, 0);
  EXPECT_EQ(second.code, 0);
  EXPECT_NE(first.text.find("| tiny-sdar | block_diffusion gen_length=32 "), std::string::npos)
      << first.text;
  EXPECT_EQ(first.text, second.text);
}

TEST(bench, says_when_a_method_runs_without_its_published_setting) {
  const scratch_folder scratch;
  const std::string line =
      "bench tiny-llada -m fast_dllm -n 32 --repetitions 1 --warmup 0 "
      "--no-progress -o '" +
      scratch.path().string() + "/";
  ends(
      line + "a'", 0,
      {"fast_dllm ran without its published settings (threshold=0, not 0.9)", "--preset official"});
  const test::outcome official = run(line + "b' --preset official");
  EXPECT_EQ(official.text.find("published settings"), std::string::npos) << official.text;
  EXPECT_NE(official.text.find("fast_dllm (official)"), std::string::npos) << official.text;
}

TEST(bench, a_method_that_does_not_support_the_model_is_a_failure) {
  const scratch_folder scratch;
  ends("bench tiny-sdar -m vanilla -n 32 --repetitions 1 --warmup 0 --no-progress -o '" +
           scratch.path().string() + "'",
       1, {"CANNOT DECODE"});
}

TEST(table, says_where_there_is_nothing_to_show) {
  const scratch_folder scratch;
  const fs::path empty = scratch.path() / "empty", array = scratch.path() / "array";
  fs::create_directories(empty);
  fs::create_directories(array / "focus/table_1");
  fs::copy_file(fs::path(UNMASK_SOURCE_DIR) / "results/epyc-2core/quickstart.jsonl",
                array / "focus/table_1/rows.jsonl");
  ends("table '" + empty.string() + "'", 3, {"empty holds no results"});
  ends("table '" + array.string() + "'", 3, {"focus/table_1", "unmask merge"});
  ends("table '" + array.string() + "/focus/table_1' --view phases", 2, {"no row has phases"});
  ends("table '" + array.string() + "/focus/table_1' --view paired", 2, {"--base"});
  ends("table nowhere.jsonl", 3, {"nowhere.jsonl"});
}

TEST(list, has_columns_and_is_short_without_a_word) {
  const test::outcome methods = run("list methods");
  EXPECT_NE(methods.text.find("delayed_cache_plus  block diffusion"), std::string::npos)
      << methods.text;
  const test::outcome all = run("list");
  EXPECT_EQ(all.code, 0);
  EXPECT_LE(std::count(all.text.begin(), all.text.end(), '\n'), 10) << all.text;
  EXPECT_NE(all.text.find("unmask list claims"), std::string::npos) << all.text;
}

TEST(training_tasks, forms_are_words_and_signs_whatever_the_numbers) {
  const auto known = [](const std::string& prompt) {
    prompt_form form(prompt);
    form.compare("Compute 5 * 7 - 15.");
    form.compare("Compute 9 * 7 - 16 + 6 - 27.");
    return form.known();
  };
  EXPECT_TRUE(known("Compute 12 * 3 - 4."));
  EXPECT_TRUE(known("compute 1*2-3+4-5."));
  EXPECT_FALSE(known("Compute 3 * 4."));         // shorter than any
  EXPECT_FALSE(known("Compute 12 * 3 / 4."));    // a sign that none has
  EXPECT_FALSE(known("Calculate 5 * 7 - 15."));  // a word that none has
  EXPECT_FALSE(known(""));
}

// What the quickstart proposes is answered rightly; what a model was never asked gets a warning.
TEST(training_tasks, a_model_is_asked_what_it_knows) {
  const fs::path root = UNMASK_SOURCE_DIR;
  const std::string dev = test::text_of(root / "dev");
  const std::string proposed =
      "--watch --set params.threshold=0.9\" \\\n    \"\\\"Compute 5 * 7 - 15 - 19 + 38.\\\"";
  EXPECT_NE(dev.find(proposed), std::string::npos);
  const test::outcome right =
      run("generate --set params.threshold=0.9 'Compute 5 * 7 - 15 - 19 + 38.'");
  EXPECT_NE(right.text.find("#### 39"), std::string::npos) << right.text;  // 35 - 15 - 19 + 38
  EXPECT_EQ(right.text.find("note:"), std::string::npos) << right.text;
  for (const char* model : {"tiny-llada", "tiny-sdar"}) {
    for (const char* prompt : {"Compute 3 + 4.", "Hello", "What is 12 + 30?",
                               "Tom has 3 apples and buys 4 more. How many apples has he now?"}) {
      ends("generate -n 32 --model " + std::string(model) + " '" + prompt + "'", 0,
           {"note: " + std::string(model) + " was trained on word_problem, equation,"});
    }
  }
  EXPECT_EQ(training_families(root / "experiments/models/tiny-ar"),
            (std::vector<std::string>{"word_problem", "equation", "list_program", "instruction",
                                      "retrieval_kv", "needle", "summary", "story"}));
  EXPECT_TRUE(training_families(root / "experiments/models/smol").empty());  // knows more
  EXPECT_TRUE(training_families(root / "experiments").empty());
}

}  // namespace
}  // namespace unmask
