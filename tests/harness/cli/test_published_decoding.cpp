// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The table of published decodings: every row can be run as it stands, and says what the authors do.
#include <gtest/gtest.h>

#include <sstream>

#include "harness/base/files.h"
#include "harness/decode/registry.h"
#include "harness/model/config.h"
#include "harness/plan/published_decoding.h"
#include "tests/harness/cli/program.h"
#include "tests/registered.h"

namespace unmask {
namespace {

model_config model_of(const published_decoding& row) {
  model_config m;
  m.name = row.model;
  m.family = row.family;
  m.attention = row.attention;
  m.release = row.release;
  m.told_by = "a test says so";
  m.vocabulary = 64;
  m.max_positions = 4096;
  m.shifted_logits = m.family == model_family::dream || m.family == model_family::qwen2 ||
                     m.attention == mask_kind::causal;
  if (m.attention == mask_kind::block_causal) m.block = 32;
  if (m.attention != mask_kind::causal) m.mask_id = 60;
  m.eos_id = 61;
  m.stop_ids = {61};
  return m;
}

const published_decoding& row_of(const std::string& release) {
  for (const published_decoding& row : published_decodings()) {
    if (row.release == release) return row;
  }
  throw std::logic_error("no row of " + release);
}

TEST(published_decoding, every_row_is_found_and_its_method_takes_model_and_settings) {
  for (const published_decoding& row : published_decodings()) {
    SCOPED_TRACE(row.model);
    const model_config m = model_of(row);
    EXPECT_EQ(&decoding_of(m), &row);
    const method_registry& all = method_registry::instance();
    const method_info& method = all.find(row.method);
    parameter_map given;
    std::istringstream words(row.settings);
    for (std::string word; words >> word;) {
      const std::size_t at = word.find('=');
      ASSERT_NE(at, std::string::npos) << word;
      const std::string name = word.substr(0, at);
      given[name] = std::int64_t{std::stoll(word.substr(at + 1))};
    }
    if (*row.preset != 0) {
      ASSERT_TRUE(method.presets.contains(row.preset)) << row.method << " " << row.preset;
    }
    EXPECT_NO_THROW(test::recipe_of(row.method, m, given, row.preset));
  }
}

TEST(published_decoding, llada21_has_the_two_modes_of_its_model_card) {
  const auto settings = [](const std::string& preset) {
    const parameters p = test::resolved("llada21", {}, preset);
    method_registry::instance().make("llada21", model_of(row_of("LLaDA2.1")), p);
    return std::tuple(p.real("threshold"), p.real("editing_threshold"), p.integer("max_post_steps"),
                      p.integer("num_to_transfer"));
  };
  EXPECT_EQ(settings("quality"), std::tuple(0.7, 0.5, 16, 1));
  EXPECT_EQ(settings("speed"), std::tuple(0.5, 0.0, 16, 1));
}

TEST(published_decoding, rows_of_another_method_say_that_editing_is_missing) {
  for (const published_decoding& row : published_decodings()) {
    const model_config m = model_of(row);
    const std::string edited = departure_of(m, "llada21"), plain = departure_of(m, "llada2");
    if (m.release.empty() || m.family != model_family::llada2_moe) {
      EXPECT_EQ(edited + plain, "") << row.model;
      continue;
    }
    EXPECT_NE(plain.find("token editing"), std::string::npos) << plain;
    EXPECT_NE(plain.find("a test says so"), std::string::npos) << plain;
    EXPECT_EQ(edited.empty(), m.release == "LLaDA2.1") << edited;
  }
  EXPECT_NE(departure_of(model_of(row_of("LLaDA2.2")), "llada21").find("deletions"),
            std::string::npos);
}

// What shows pictures is no plain LLaDA or Dream: its authors' loops are others.
TEST(published_decoding, models_that_see_pictures_have_loops_of_their_own) {
  const std::filesystem::path models =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "tests/goldens/pictures/models";
  const auto own = [&](const char* name) {
    return describe(decoding_of(read_model_config(models / name)));
  };
  EXPECT_EQ(own("tiny-llada-v-s1").find("vanilla --preset llada-v with block_length=128"), 0);
  EXPECT_EQ(own("tiny-dimple-s1").find("vanilla --preset dimple ("), 0);
  EXPECT_EQ(own("tiny-mmada-s1").find("vanilla with block_length=128 tokens_per_step=2"), 0);
}

// A copy of the embedded LLaDA2 model under the names of its releases.
TEST(published_decoding, doctor_says_which_decoding_is_the_checkpoints_own) {
  const scratch_folder folder;
  const std::filesystem::path from =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "experiments/models/tiny-llada2";
  const auto doctor = [&](const std::string& name) {
    for (const auto& file : entries_of(from)) {
      std::filesystem::create_directories(folder.path() / name);
      std::filesystem::copy_file(file, folder.path() / name / file.filename());
    }
    return test::run_program(folder.path().string(), "doctor --model " + name, "");
  };
  const auto expect = [](const test::outcome& o, const std::string& part) {
    EXPECT_EQ(o.code, 0) << o.text;
    EXPECT_NE(o.text.find(part), std::string::npos) << "`" << part << "` not in: " << o.text;
  };
  const test::outcome plain = doctor("mine");
  for (const char* part :
       {"LLaDA: vanilla", "SDAR: block_diffusion --preset hf",
        "Dream: vanilla --preset dream-instruct", "LLaDA2.0: llada2", "Qwen3: autoregressive"}) {
    expect(plain, part);
  }
  expect(doctor("LLaDA2.1-mini"),
         "LLaDA2.1 (its directory's name holds LLaDA2.1): llada21 --preset quality");
  expect(doctor("LLaDA2.2-flash"), "no method here does its deletions and insertions");
}

}  // namespace
}  // namespace unmask
