// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/weights.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "harness/base/digest.h"
#include "harness/model/checkpoint.h"
#include "harness/model/config.h"
#include "kernels/float16.h"
#include "tests/harness/model/support.h"

namespace unmask {
namespace {

using namespace test;
namespace fs = std::filesystem;

constexpr const char* config_text = R"({"architectures": ["SDARForCausalLM"], "hidden_size": 8,
  "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 6,
  "intermediate_size": 10, "vocab_size": 12, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
  "rope_theta": 10000, "mask_token_id": 11, "eos_token_id": 10})";

model_config config() {
  return parse_model_config(config_text, "", "models/some");
}

std::vector<f32_tensor> tensors() {
  const std::string l = "model.layers.0.";
  return {{"model.embed_tokens.weight", {12, 8}, {}},
          {"model.norm.weight", {8}, {}},
          {"lm_head.weight", {12, 8}, {}},
          {l + "input_layernorm.weight", {8}, {}},
          {l + "post_attention_layernorm.weight", {8}, {}},
          {l + "self_attn.q_proj.weight", {12, 8}, {}},
          {l + "self_attn.k_proj.weight", {6, 8}, {}},
          {l + "self_attn.v_proj.weight", {6, 8}, {}},
          {l + "self_attn.q_norm.weight", {6}, {}},
          {l + "self_attn.k_norm.weight", {6}, {}},
          {l + "self_attn.o_proj.weight", {8, 12}, {}},
          {l + "mlp.gate_proj.weight", {10, 8}, {}},
          {l + "mlp.up_proj.weight", {10, 8}, {}},
          {l + "mlp.down_proj.weight", {8, 10}, {}}};
}

void write_checkpoint(const fs::path& directory, const std::vector<f32_tensor>& all) {
  write_file(directory / "config.json", config_text);
  write_file(directory / "model.safetensors", test::make_safetensors(all));
}

TEST(weights, every_tensor_is_needed_and_checked) {
  const scratch_folder directory;
  const std::string file = (directory.path() / "model.safetensors").string();
  write_checkpoint(directory.path(), tensors());
  const model_weights good = load_weights(config(), directory.path());
  EXPECT_EQ(good.bytes, 4U * static_cast<std::uint64_t>(config().parameters()));
  EXPECT_EQ(caution_of(good.unread), "");
  ASSERT_EQ(good.layers.size(), 1U);
  EXPECT_EQ(good.layers[0].q.rows(), 12);
  EXPECT_EQ(good.layers[0].router.data, nullptr);

  for (std::size_t i = 0; i < tensors().size(); ++i) {
    auto some = tensors();
    const std::string name = some[i].name;
    SCOPED_TRACE(name);
    some.erase(some.begin() + static_cast<std::ptrdiff_t>(i));
    write_checkpoint(directory.path(), some);
    expect_environment_error(
        [&] { load_weights(config(), directory.path()); },
        {directory.path().string(),
         name == "model.embed_tokens.weight" ? "unknown family" : "\"" + name + "\" is missing"});
    some = tensors();
    some[i].shape[0] += 1;
    write_checkpoint(directory.path(), some);
    expect_environment_error([&] { load_weights(config(), directory.path()); },
                             {file, "\"" + name + "\"", "[" + std::to_string(some[i].shape[0]),
                              "config.json makes it ["});
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      some = tensors();
      some[i].values.assign(static_cast<std::size_t>(some[i].shape[0]), 1.0F);
      some[i].values.back() = bad;
      write_checkpoint(directory.path(), some);
      expect_environment_error([&] { load_weights(config(), directory.path()); },
                               {file, "\"" + name + "\"", "NaN or infinity"});
      EXPECT_NO_THROW(load_weights(config(), directory.path(), false));
    }
  }
}

TEST(weights, nan_is_found_at_any_place) {
  auto some = tensors();
  const scratch_folder directory;
  model_config big = config();
  big.vocabulary = 700;
  some[0].shape[0] = some[2].shape[0] = 700;
  for (const std::size_t at : {0, 1023, 1024, 4095, 5119, 5120, 5599}) {
    some[0].values.assign(5600, 1.0F);
    some[0].values[at] = std::numeric_limits<float>::quiet_NaN();
    write_checkpoint(directory.path(), some);
    expect_environment_error([&] { load_weights(big, directory.path()); },
                             {"model.embed_tokens.weight"});
  }
}

TEST(weights, wrong_type_and_rank) {
  const scratch_folder directory;
  auto some = tensors();
  some[1].shape = {8, 1};
  write_checkpoint(directory.path(), some);
  expect_environment_error([&] { load_weights(config(), directory.path()); },
                           {"model.norm.weight", "[8, 1]", "[8]"});
  std::string file = test::make_safetensors(tensors());
  const std::string want = R"("model.norm.weight":{"dtype":"F32")";
  file.replace(file.find(want) + want.size() - 4, 3, "I32");
  write_file(directory.path() / "model.safetensors", file);
  expect_environment_error([&] { load_weights(config(), directory.path()); },
                           {"model.norm.weight", "`dtype` I32"});
}

// What is not read would change answers, belongs to a picture tower, or is said.
TEST(weights, tensors_that_nothing_reads) {
  const scratch_folder directory;
  const auto with = [&](const std::string& name) {
    auto some = tensors();
    some.push_back({name, {3}, {}});
    write_checkpoint(directory.path(), some);
  };
  const auto load = [&](const unread_use& use = {}) {
    return load_weights(config(), directory.path(), true, use).unread;
  };
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.1.mlp.up_proj.weight",
        "model.layers.0.self_attn.q_proj.lora_A.weight", "model.norm.bias"}) {
    with(name);
    expect_environment_error(load, {directory.path().string(), name, "would change answers",
                                    "unread = \"accept\"", "--unread accept"});
    expect_environment_error([&] { load({true, false}); }, {name});
    const unread_parts taken = load({false, true});
    EXPECT_EQ(taken.changing, std::vector<std::string>{name});
    EXPECT_EQ(caution_of(taken),
              std::string("1 part that would change answers is not read: ") + name);
  }
  for (const char* name : {"visual.blocks.0.attn.qkv.weight", "model.vision_tower.x",
                           "mm_projector.0", "img_projector.linear_1.bias"}) {
    with(name);
    expect_environment_error(load,
                             {directory.path().string(), name, "picture tower", "--pictures off"});
    expect_environment_error([&] { load({false, true}); }, {name});
    EXPECT_EQ(caution_of(load({true, false})),
              std::string("1 part of a picture tower is not read: ") + name);
  }
  with("something.else");
  EXPECT_EQ(caution_of(load()), "1 part of the checkpoint is not read: something.else");
  for (const char* name :
       {"model.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.inv_freq"}) {
    with(name);
    EXPECT_EQ(caution_of(load()), "");
  }
  // A layer behind the last one that predicts further tokens is no part of an answer.
  with("model.layers.1.eh_proj.weight");
  model_config further = config();
  further.further_layers = 1;
  EXPECT_EQ(load_weights(further, directory.path()).unread.others.size(), 1U);
}

TEST(weights, tied_embeddings) {
  const scratch_folder directory;
  model_config tied = config();
  tied.tied_embeddings = true;
  auto some = tensors();  // all values are equal
  write_checkpoint(directory.path(), some);
  EXPECT_EQ(caution_of(load_weights(tied, directory.path()).unread), "");
  some[2].values = {1};  // lm_head, else as the embedding
  write_checkpoint(directory.path(), some);
  expect_environment_error([&] { load_weights(tied, directory.path()); },
                           {"lm_head.weight", "would change answers"});

  some.erase(some.begin() + 2);
  write_checkpoint(directory.path(), some);
  const model_weights w = load_weights(tied, directory.path());
  EXPECT_EQ(w.lm_head.data, w.embedding.data);
  EXPECT_EQ(w.bytes, 4U * static_cast<std::uint64_t>(tied.parameters()));
}

// Two shards and an index; each test breaks one thing.
class sharded : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto all = tensors();
    const auto middle = all.begin() + 7;
    write_file(path("a.safetensors"), test::make_safetensors({all.begin(), middle}));
    write_file(path("b.safetensors"), test::make_safetensors({middle, all.end()}));
    for (auto t = all.begin(); t != all.end(); ++t) {
      map_[t->name] = t < middle ? "\"a.safetensors\"" : "\"b.safetensors\"";
    }
    write_index();
  }
  void write_index() {
    std::string text;
    for (const auto& [name, shard] : map_) {
      text += (text.empty() ? "" : ",") + ("\"" + name + "\":" + shard);
    }
    write_file(path("model.safetensors.index.json"),
               R"({"metadata":{"total_size":1},"weight_map":{)" + text + "}}");
  }
  fs::path path(const char* name) const { return directory_.path() / name; }
  void expect_refused(std::vector<std::string> parts) {
    expect_environment_error([&] { load_weights(config(), directory_.path()); }, parts);
  }

  scratch_folder directory_;
  std::map<std::string, std::string> map_;
};

TEST_F(sharded, loads) {
  const model_weights w = load_weights(config(), directory_.path());
  EXPECT_EQ(w.bytes, 4U * static_cast<std::uint64_t>(config().parameters()));
}

TEST_F(sharded, tensor_in_two_shards) {
  auto all = tensors();
  std::vector<f32_tensor> first(all.begin(), all.begin() + 7);
  first.push_back(all.back());
  write_file(path("a.safetensors"), test::make_safetensors(first));
  EXPECT_EQ(caution_of(load_weights(config(), directory_.path()).unread), "");
  first.back().values = {0.25F};
  write_file(path("a.safetensors"), test::make_safetensors(first));
  expect_refused({"down_proj.weight of a.safetensors", "other values than in b.safetensors",
                  "would change answers"});
  first.back().name = "model.layers.0.extra.weight";  // in no line of the index
  write_file(path("a.safetensors"), test::make_safetensors(first));
  expect_refused({"model.layers.0.extra.weight", "would change answers"});
}

TEST_F(sharded, missing_shard) {
  fs::remove(path("b.safetensors"));
  expect_refused({"index.json", "`weight_map.", "b.safetensors", "missing"});
}

// transformers reads the single file first, and does not look at an index beside it.
TEST_F(sharded, a_single_file_comes_before_the_index) {
  fs::remove(path("b.safetensors"));
  write_file(path("model.safetensors"), test::make_safetensors(tensors()));
  const model_weights w = load_weights(config(), directory_.path());
  EXPECT_EQ(w.bytes, 4U * static_cast<std::uint64_t>(config().parameters()));
}

TEST_F(sharded, name_longer_than_a_file_can_have) {
  map_["lm_head.weight"] = "\"" + std::string(300, 'a') + "\"";
  write_index();
  expect_refused({"index.json", "`weight_map.lm_head.weight`", "aaa", "missing"});
}

TEST_F(sharded, truncated_shard) {
  fs::resize_file(path("b.safetensors"), fs::file_size(path("b.safetensors")) - 5);
  expect_refused({"b.safetensors", "truncated"});
}

TEST_F(sharded, tensor_in_the_wrong_shard) {
  map_["lm_head.weight"] = "\"b.safetensors\"";
  write_index();
  expect_refused(
      {"index.json", "`weight_map.lm_head.weight`", "b.safetensors", "does not hold it"});
}

TEST_F(sharded, index_outside_the_directory) {
  for (const char* bad : {"\"../a.safetensors\"", "\"/etc/passwd\"", "\"..\"", "\"\"", "7"}) {
    map_["lm_head.weight"] = bad;
    write_index();
    expect_refused({"index.json", "`weight_map.lm_head.weight`", "same directory"});
  }
}

TEST_F(sharded, broken_index) {
  write_file(path("model.safetensors.index.json"), "{}");
  expect_refused({"index.json", "`weight_map`", "missing"});
  write_file(path("model.safetensors.index.json"), R"({"weight_map": []})");
  expect_refused({"index.json", "`weight_map`", "object"});
}

TEST(weights, no_files) {
  const scratch_folder directory;
  expect_environment_error([&] { load_weights(config(), directory.path()); },
                           {directory.path().string(), "neither model.safetensors"});
}

TEST(weights, fused_query_key_value_is_sliced) {
  const fs::path directory = test::golden_models() / "tiny-llada2-moe-s1";
  const model_config c = read_model_config(directory);
  const model_weights w = load_weights(c, directory);
  const layer_weights& l = w.layers[1];
  EXPECT_EQ(l.q.rows(), 128);
  EXPECT_EQ(l.k.rows(), 64);
  EXPECT_EQ(l.k.data, l.q.as<float>() + 128 * 64);
  EXPECT_EQ(l.v.data, l.q.as<float>() + 192 * 64);
  EXPECT_EQ(l.experts.size(), 16U);
  EXPECT_EQ(l.router_bias.rows(), 16);
  EXPECT_NE(l.shared.gate.data, nullptr);
  EXPECT_NE(w.layers[0].dense.gate.data, nullptr);
  EXPECT_TRUE(w.layers[0].experts.empty());
}

void expect_loads(const fs::path& directory) {
  SCOPED_TRACE(directory.string());
  const model_config c = read_model_config(directory);
  const model_weights w = load_weights(c, directory);
  EXPECT_EQ(caution_of(w.unread), "");
  EXPECT_EQ(w.bytes, size_of(w.embedding.type) * static_cast<std::uint64_t>(c.parameters()));
  EXPECT_EQ(hash_of_checkpoint(directory).size(), 64U);
}

TEST(weights, golden_checkpoints_load) {
  std::size_t count = 0;
  for (const auto& item : fs::directory_iterator(test::golden_models())) {
    expect_loads(item.path());
    ++count;
  }
  EXPECT_EQ(count, 9U);
}

TEST(weights, embedded_models_load) {
  for (const auto& item : fs::directory_iterator(test::embedded_models())) {
    if (fs::exists(item.path() / "config.json")) expect_loads(item.path());
  }
}

TEST(weights, hash_is_that_of_sha256sum) {
  const scratch_folder directory;
  write_file(directory.path() / "config.json", "{}");
  write_file(directory.path() / "model.safetensors", "abc");
  write_file(directory.path() / "README.md", "not hashed");
  // (cd DIR && sha256sum config.json model.safetensors | sha256sum)
  EXPECT_EQ(hash_of_checkpoint(directory.path()),
            "bb26275d74d8b85c193d98418b10723876d6a1ef2da1f60287213e8b8a65bf38");
  write_file(directory.path() / "tokenizer.json", "{}");
  EXPECT_NE(hash_of_checkpoint(directory.path()),
            "bb26275d74d8b85c193d98418b10723876d6a1ef2da1f60287213e8b8a65bf38");
}

// The digest in the memory is changed by hand: only a program that did not read the file gives it.
TEST(weights, hashes_of_large_files_are_remembered_until_the_file_changes) {
  const scratch_folder directory;
  const fs::path file = directory.path() / "model.safetensors";
  write_file(file, "abc");
  hash_memory memory;
  memory.file = directory.path() / "cache" / "hashes";
  memory.smallest = 3;
  memory.settle_seconds = 0;
  const std::string a(64, 'a'), b(64, 'b'), c(64, 'c');
  const auto hash = [&](const std::string& fresh) {
    return remembered_hash(file, memory, [&] { return fresh; });
  };
  EXPECT_EQ(hash(a), a);
  EXPECT_EQ(hash(b), a);
  write_file(file, "abcd");  // another size
  EXPECT_EQ(hash(b), b);
  EXPECT_EQ(hash(c), b);
  fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(1));
  EXPECT_EQ(hash(c), c);
  // Not worth it, too fresh, not to be written, or nonsense in the file: as without a memory.
  memory.smallest = 5;
  EXPECT_EQ(hash(a), a);
  memory.smallest = 3;
  memory.settle_seconds = 3600;
  memory.file = directory.path() / "other";
  EXPECT_EQ(hash(a), a);
  EXPECT_EQ(hash(b), b);
  memory.settle_seconds = 0;
  memory.file = "/proc/no/such/place";
  EXPECT_EQ(hash(a), a);
  memory.file = directory.path() / "nonsense";
  write_file(memory.file, "no hashes\nare here\n");
  EXPECT_EQ(hash(b), b);
  EXPECT_EQ(hash(c), b);
  memory.file = fs::path();
  EXPECT_EQ(hash(a), a);
}

double value(const tensor_view& v, std::int64_t i) {
  return float_at(v, v.rank == 1 ? i : i / v.columns(), v.rank == 1 ? 0 : i % v.columns());
}

TEST(random_weights, are_normal_and_reproducible) {
  model_config c = config();
  c.vocabulary = 40'000;
  for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) {
    const model_weights w = random_weights(c, 7, type);
    EXPECT_TRUE(w.synthetic);
    EXPECT_EQ(w.bytes, size_of(type) * static_cast<std::uint64_t>(c.parameters()));
    const std::int64_t n = w.embedding.elements();
    double sum = 0;
    double squares = 0;
    std::int64_t tail = 0;  // beyond two deviations
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = value(w.embedding, i);
      sum += x;
      squares += x * x;
      tail += std::fabs(x) > 0.04 ? 1 : 0;
    }
    const auto count = static_cast<double>(n);
    EXPECT_NEAR(sum / count, 0.0, 2e-4);
    EXPECT_NEAR(std::sqrt(squares / count), 0.02, 1e-4);
    EXPECT_NEAR(static_cast<double>(tail) / count, 0.0455, 0.002);
    EXPECT_EQ(value(w.final_norm, 3), 1.0);

    const model_weights again = random_weights(c, 7, type);
    const auto bytes = static_cast<std::size_t>(n) * size_of(type);
    EXPECT_EQ(std::memcmp(w.embedding.data, again.embedding.data, bytes), 0);
    const model_weights other = random_weights(c, 8, type);
    EXPECT_NE(std::memcmp(w.embedding.data, other.embedding.data, bytes), 0);
    EXPECT_NE(std::memcmp(w.embedding.data, w.lm_head.data, bytes), 0);
    // A bigger table begins with the same values: the stream belongs to the name.
    model_config bigger = c;
    bigger.vocabulary += 1000;
    EXPECT_EQ(std::memcmp(w.embedding.data, random_weights(bigger, 7, type).embedding.data, bytes),
              0);
  }
  EXPECT_THROW(random_weights(c, 7, dtype::i32), error);
}

TEST(weights, softened_models_have_smaller_logits) {
  for (const dtype type : {dtype::f32, dtype::bf16}) {
    model_weights w = random_weights(config(), 1, type);
    soften(w, 3);
    ASSERT_EQ(w.final_norm.type, dtype::f32);
    for (std::int64_t i = 0; i < w.final_norm.rows(); ++i) {
      EXPECT_FLOAT_EQ(w.final_norm.as<float>()[i], 1.0F / 3);
    }
  }
}

TEST(random_weights, have_every_part_of_a_mixture) {
  model_config c = config();
  c.layers = 2;
  c.qkv_bias = true;
  c.moe.experts = 4;
  c.moe.hidden = 6;
  c.moe.shared_experts = 2;
  c.moe.first_dense_layers = 1;
  c.moe.expert_bias = true;
  const model_weights w = random_weights(c, 1, dtype::bf16);
  EXPECT_EQ(w.bytes, 2U * static_cast<std::uint64_t>(c.parameters()));
  EXPECT_EQ(w.layers[1].experts.size(), 4U);
  EXPECT_EQ(w.layers[1].shared.gate.rows(), 12);
  EXPECT_NE(w.layers[1].q_bias.data, nullptr);
}

}  // namespace
}  // namespace unmask
