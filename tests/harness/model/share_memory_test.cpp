// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a rank needs of the machine: memory for its share of the weights, and its part of a checkpoint. The
// model of the first test is large enough for the system's own counts of pages.
#include <gtest/gtest.h>

#include <malloc.h>

#include <fstream>
#include <limits>
#include <map>

#include "harness/model/share.h"
#include "harness/model/transformer.h"
#include "kernels/cpu/backend.h"
#include "kernels/sanitized.h"
#include "tests/harness/model/support.h"

namespace unmask {
namespace {

using namespace test;

// kB of a line "NAME: number kB" of /proc/self/status.
double status_of(const std::string& name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name + ":")) return std::stod(line.substr(name.size() + 1));
  }
  throw std::logic_error("no " + name);
}

// Bytes by which the process grew at most while work() ran; what it returns stays.
template <class Work>
auto grown_by(double& bytes, const Work& work) {
  ::malloc_trim(0);  // memory that was given back would hide what is taken
  std::ofstream("/proc/self/clear_refs") << 5 << std::flush;  // the peak is that of now
  const double before = status_of("VmRSS");
  auto made = work();
  bytes = 1024 * (status_of("VmHWM") - before);
  return made;
}

model_config large() {
  model_config c;
  c.name = "large";
  c.layers = 32;
  c.hidden = 256;
  c.heads = c.kv_heads = 8;
  c.head_dim = 32;
  c.feed_forward = 1024;
  c.vocabulary = 512;
  c.rope = {32, 10000.0F};
  return c;
}

// 34 M numbers in bfloat16. What a rank draws and packs is its share, and a twentieth at most besides.
TEST(share_memory, a_rank_takes_its_share_and_little_else) {
  if (sanitized) GTEST_SKIP() << "sanitizers keep memory of their own";
  const model_config c = large();
  model_config small = c;
  small.layers = 1;
  random_weights(small, 1, dtype::bf16);  // tables that stay
  double all = 0;
  {
    const model_weights whole = grown_by(all, [&] { return random_weights(c, 1, dtype::bf16); });
    EXPECT_GT(all, 0.95 * static_cast<double>(whole.bytes));
  }
  const model_share share = share_of(1, 2, 0);
  double drawn = 0, packed = 0;
  const model_weights part =
      grown_by(drawn, [&] { return random_weights(c, 1, dtype::bf16, share); });
  const auto held = static_cast<double>(part.bytes);
  EXPECT_LT(drawn, 1.05 * held);
  EXPECT_GT(drawn, 0.95 * held);
  EXPECT_GT(all, 1.5 * drawn);
  const auto model = grown_by(packed, [&] {
    return std::make_unique<transformer>(c, part, cpu_backend(), weight_format::f32, 8, dtype::f32,
                                         share);
  });
  // Of its own memory: the embedding is read where it lies.
  const double own = static_cast<double>(model->weight_bytes()) - 2.0 * c.vocabulary * c.hidden;
  EXPECT_LT(packed, 1.05 * own);
  EXPECT_GT(packed, 0.95 * own);
}

// Of a checkpoint in two files.
std::map<std::string, std::vector<std::int64_t>> tensors() {
  const std::string l = "model.layers.0.";
  return {{"model.embed_tokens.weight", {12, 16}},
          {"model.norm.weight", {16}},
          {"lm_head.weight", {12, 16}},
          {l + "input_layernorm.weight", {16}},
          {l + "post_attention_layernorm.weight", {16}},
          {l + "self_attn.q_proj.weight", {12, 16}},
          {l + "self_attn.k_proj.weight", {12, 16}},
          {l + "self_attn.v_proj.weight", {12, 16}},
          {l + "self_attn.q_norm.weight", {6}},
          {l + "self_attn.k_norm.weight", {6}},
          {l + "self_attn.o_proj.weight", {16, 12}},
          {l + "mlp.gate_proj.weight", {32, 16}},
          {l + "mlp.up_proj.weight", {32, 16}},
          {l + "mlp.down_proj.weight", {16, 32}}};
}

constexpr const char* config_text = R"({"architectures": ["SDARForCausalLM"], "hidden_size": 16,
  "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 6,
  "intermediate_size": 32, "vocab_size": 12, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
  "rope_theta": 10000, "mask_token_id": 11, "eos_token_id": 10})";

// Two shards, in which element [row, column] of one tensor is no number.
void write_damaged(const fs::path& at, const std::string& damaged, std::int64_t row,
                   std::int64_t column) {
  write_file(at / "config.json", config_text);
  std::vector<f32_tensor> first, second;
  std::string map;
  for (const auto& [name, shape] : tensors()) {
    f32_tensor t{name, shape, {}};
    if (name.find(damaged) != std::string::npos) {
      t.values.assign(static_cast<std::size_t>(row * shape[1] + column + 1), 0.5F);
      t.values.back() = std::numeric_limits<float>::quiet_NaN();
    }
    const bool here = name.find("mlp") == std::string::npos;
    (here ? first : second).push_back(std::move(t));
    map +=
        (map.empty() ? "\"" : ", \"") + name + "\": \"" + (here ? "one" : "two") + ".safetensors\"";
  }
  write_file(at / "one.safetensors", make_safetensors(first));
  write_file(at / "two.safetensors", make_safetensors(second));
  write_file(at / "model.safetensors.index.json", "{\"weight_map\": {" + map + "}}");
}

// A value that rank 1 of two holds is nothing to rank 0: it never looks there. By hand: the second of two
// heads of 6, the upper half of 32.
TEST(share_memory, a_rank_looks_at_its_part_of_a_checkpoint) {
  struct place {
    const char* tensor;
    std::int64_t row, column;
  };
  for (const place& of : std::vector<place>{{"q_proj", 6, 0},
                                            {"k_proj", 11, 15},
                                            {"v_proj", 6, 3},
                                            {"o_proj", 0, 6},
                                            {"gate_proj", 16, 0},
                                            {"up_proj", 31, 15},
                                            {"down_proj", 15, 16}}) {
    SCOPED_TRACE(of.tensor);
    const scratch_folder directory;
    write_damaged(directory.path(), of.tensor, of.row, of.column);
    const model_config c = read_model_config(directory.path());
    EXPECT_NO_THROW(load_weights(c, directory.path(), true, {}, share_of(0, 2, 0)));
    expect_environment_error(
        [&] { load_weights(c, directory.path(), true, {}, share_of(1, 2, 0)); },
        {of.tensor, "NaN or infinity"});
  }
}

}  // namespace
}  // namespace unmask
