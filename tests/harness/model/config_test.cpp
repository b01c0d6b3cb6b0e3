// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/config.h"

#include <map>
#include <nlohmann/json.hpp>

#include "harness/model/checkpoint.h"
#include "tests/harness/model/support.h"

namespace unmask {
namespace {

using nlohmann::json;
using test::expect_environment_error;
namespace fs = std::filesystem;

json llada() {
  return json::parse(R"({
      "architectures": ["LLaDAModelLM"], "model_type": "llada", "d_model": 64, "n_layers": 2,
      "n_heads": 4, "n_kv_heads": 4, "mlp_hidden_size": 96, "vocab_size": 250,
      "embedding_size": 256, "max_sequence_length": 512, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
      "mask_token_id": 250, "eos_token_id": 251, "weight_tying": false, "alibi": false,
      "rope": true, "block_type": "llama", "layer_norm_type": "rms", "activation_type": "silu",
      "include_bias": false})");
}

json sdar() {
  return json::parse(R"({
      "architectures": ["SDARForCausalLM"], "model_type": "sdar", "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "head_dim": 24, "intermediate_size": 96, "vocab_size": 256, "max_position_embeddings": 512,
      "rms_norm_eps": 1e-6, "rope_theta": 1000000, "rope_scaling": null, "mask_token_id": 250,
      "eos_token_id": 251, "block_size": 16, "tie_word_embeddings": false, "hidden_act": "silu"})");
}

json llada2() {
  return json::parse(R"({
      "architectures": ["LLaDA2MoeModelLM"], "model_type": "llada2_moe", "hidden_size": 64,
      "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
      "head_dim": 32, "intermediate_size": 96, "vocab_size": 157184, "max_position_embeddings": 512,
      "rms_norm_eps": 1e-6, "rope_theta": 600000, "partial_rotary_factor": 0.5,
      "rotary_dim": 16, "num_experts": 16, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2,
      "moe_intermediate_size": 32, "num_shared_experts": 1, "first_k_dense_replace": 1,
      "routed_scaling_factor": 2.5, "score_function": "sigmoid",
      "moe_router_enable_expert_bias": true, "norm_topk_prob": true, "sliding_window": 4096,
      "use_sliding_window": false})");
}

model_config parse(const json& config, const std::string& generation = "") {
  return parse_model_config(config.dump(), generation, "models/some");
}

// A config that works with one key changed must fail and name the file and that key.
void expect_refused(json config, const std::string& key, const json& value,
                    std::vector<std::string> parts = {}) {
  if (value.is_discarded()) {
    config.erase(key);
  } else {
    config[key] = value;
  }
  parts.insert(parts.begin(), {"models/some/config.json", "`" + key + "`"});
  SCOPED_TRACE(key + " = " + (value.is_discarded() ? "absent" : value.dump()));
  expect_environment_error([&] { parse(config); }, parts);
}

const json absent(json::value_t::discarded);

// transformers' generate() reads generation_config.json alone.
TEST(config, end_tokens_are_those_of_generation_config) {
  const model_config m = parse(llada(), R"({"eos_token_id": 249})");
  EXPECT_EQ(m.stop_ids, (std::vector<std::int32_t>{249}));
  EXPECT_EQ(m.eos_id, 249);
  EXPECT_NE(m.caution.find("eos_token_id 251"), std::string::npos);
  EXPECT_EQ(parse(llada(), R"({"temperature": 0.1})").stop_ids, (std::vector<std::int32_t>{251}));
  EXPECT_EQ(parse(llada(), R"({"eos_token_id": [249, 251]})").caution, "");
}

TEST(config, constants_of_python_are_read) {
  std::string text = llada().dump();
  text.back() = ',';
  const auto with = [&](const std::string& more) {
    return parse_model_config(text + more + "}", "", "models/some");
  };
  EXPECT_EQ(with(R"("a": NaN, "b": [Infinity, -Infinity], "c": "NaN \"NaN, Infinity")").eos_id,
            251);
  json config = llada();
  config.erase("rms_norm_eps");
  text = config.dump();
  text.back() = ',';
  expect_environment_error([&] { with(R"("rms_norm_eps": NaN)"); }, {"`rms_norm_eps`", "number"});
}

TEST(config, contradictions_between_files_are_said) {
  const scratch_folder folder;
  json config = llada();
  config["quantization_config"] = {{"quant_method", "awq"}};
  write_file(folder.path() / "config.json", config.dump());
  write_file(folder.path() / "tokenizer_config.json",
             R"({"mask_token": "<m>", "added_tokens_decoder": {"249": {"content": "<m>"}}})");
  write_file(folder.path() / "model.safetensors", "");
  write_file(folder.path() / "model.safetensors.index.json", "");
  const std::string said = read_model_config(folder.path()).caution;
  for (const char* part : {"mask_token_id of config.json is 250", "has the id 249",
                           "model.safetensors and an index", "quantization_config"}) {
    EXPECT_NE(said.find(part), std::string::npos) << part << " not in " << said;
  }
  write_file(folder.path() / "tokenizer_config.json", R"({"mask_token": {"content": "<m>"}})");
  write_file(folder.path() / "added_tokens.json", R"({"<m>": 250})");
  EXPECT_EQ(read_model_config(folder.path()).caution.find("mask"), std::string::npos);
}

// What a folder's files say of one thing; each sentence alone.
TEST(config, two_files_that_disagree_are_said) {
  const auto said = [](const std::map<std::string, std::string>& files, json config = llada()) {
    const scratch_folder folder;
    write_file(folder.path() / "config.json", config.dump());
    for (const auto& [name, text] : files) write_file(folder.path() / name, text);
    return read_model_config(folder.path()).caution;
  };
  const std::string end =
      R"({"eos_token": "<e>", "added_tokens_decoder": {"7": {"content": "<e>"}}})";
  EXPECT_EQ(
      said({{"tokenizer_config.json", end}}),
      "eos_token of tokenizer_config.json has the id 7, but answers end at 251 alone: what is "
      "behind an answer's end is counted as answer if the second is wrong");
  EXPECT_EQ(said({{"tokenizer_config.json", end},
                  {"generation_config.json", R"({"eos_token_id": [251, 7]})"}}),
            "");

  const char* map = R"({"bos_token": {"content": "<b>"}})";
  const std::string old = said(
      {{"tokenizer_config.json", R"({"bos_token": "<a>"})"}, {"special_tokens_map.json", map}});
  EXPECT_EQ(old,
            "bos_token is <a> in tokenizer_config.json and <b> in special_tokens_map.json: a "
            "chat template gets the second, as in transformers");
  EXPECT_NE(said({{"tokenizer_config.json", R"({"bos_token": "<a>", "added_tokens_decoder": {}})"},
                  {"special_tokens_map.json", map}})
                .find("gets the first"),
            std::string::npos);
  EXPECT_EQ(said({{"tokenizer_config.json", R"({"bos_token": "<b>"})"},
                  {"special_tokens_map.json", map}}),
            "");

  const std::string flags = said(
      {{"tokenizer_config.json",
        R"({"added_tokens_decoder": {"7": {"content": "<e>", "rstrip": true, "special": true}}})"},
       {"tokenizer.json",
        R"({"added_tokens": [{"id": 7, "content": "<e>", "rstrip": false, "special": true}]})"}});
  EXPECT_NE(flags.find("1 added token has other flags"), std::string::npos) << flags;
  EXPECT_NE(flags.find("(rstrip of <e>)"), std::string::npos) << flags;

  const char* split = R"({"pre_tokenizer": {"type": "Sequence"}})";
  const char* level = R"({"pre_tokenizer": {"type": "ByteLevel"}})";
  const char* gpt2 = R"({"tokenizer_class": "GPT2TokenizerFast"})";
  EXPECT_NE(
      said({{"tokenizer_config.json", gpt2}, {"tokenizer.json", split}}).find("GPT2Tokenizer"),
      std::string::npos);
  EXPECT_EQ(said({{"tokenizer_config.json", gpt2}, {"tokenizer.json", level}}), "");

  const char* chat = R"({"chat_template": "a"})";
  EXPECT_NE(said({{"tokenizer_config.json", chat}, {"chat_template.jinja", "b"}}).find("differ"),
            std::string::npos);
  EXPECT_EQ(said({{"tokenizer_config.json", chat}, {"chat_template.jinja", "a"}}), "");
  EXPECT_EQ(said({{"generation_config.json", R"({"mask_token_id": 249})"}}),
            "mask_token_id of config.json is 250, of generation_config.json 249: the first counts");
}

// As in transformers 5: what is inside rope_parameters counts.
TEST(config, rope_theta_twice) {
  json config = sdar();
  config["rope_theta"] = 10000.0;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5000.0}};
  const model_config m = parse(config);
  EXPECT_EQ(m.rope.theta, 5000.0F);
  EXPECT_EQ(m.caution,
            "`rope_theta` of config.json is 10000 and `rope_parameters.rope_theta` is 5000: the "
            "second counts, as in transformers");
  config["rope_theta"] = 5000;
  EXPECT_EQ(parse(config).caution, "");
  config["rope_parameters"].erase("rope_theta");
  EXPECT_EQ(parse(config).rope.theta, 5000.0F);
}

TEST(config, keys_that_nothing_reads) {
  json config = sdar();
  EXPECT_EQ(caution_of(parse(config).unread), "");
  config["torch_dtype"] = "bfloat16";
  config["final_logit_softcapping"] = nullptr;
  config["logit_scale"] = 1.0;
  config["my_switch"] = false;
  config["_name_or_path"] = "images";
  EXPECT_EQ(caution_of(parse(config).unread), "");
  config["final_logit_softcapping"] = 30.0;
  config["rope_scaling"] = {{"type", "default"}, {"mrope_section", {16, 24, 24}}};
  config["my_switch"] = 3;
  config["code_revision"] = "main";  // no vision
  const unread_parts parts = parse(config).unread;
  using names = std::vector<std::string>;
  EXPECT_EQ(parts.changing, names{"`final_logit_softcapping` of config.json"});
  EXPECT_EQ(parts.pictures, names{"`rope_scaling.mrope_section` of config.json"});
  EXPECT_EQ(parts.others, (names{"`code_revision` of config.json", "`my_switch` of config.json"}));
  expect_refused(
      [] {
        json dream = sdar();
        dream["architectures"] = {"DreamModel"};
        return dream;
      }(),
      "full_attn_mask", false);
}

TEST(config, a_pointer_and_the_root_of_a_cache_are_named) {
  const scratch_folder folder;
  const fs::path root = folder.path() / "models--x--y";
  fs::create_directories(root / "snapshots/abc");
  expect_environment_error([&] { read_model_config(root); },
                           {"models--x--y", "Hugging Face cache", "snapshots/abc"});
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5\n";
  write_file(root / "snapshots/abc/config.json", pointer);
  expect_environment_error([&] { read_model_config(root / "snapshots/abc"); },
                           {"config.json", "Git LFS pointer", "git lfs pull"});
  write_file(root / "snapshots/abc/model.safetensors", pointer);
  expect_environment_error([&] { checkpoint(root / "snapshots/abc"); },
                           {"model.safetensors", "Git LFS pointer"});
}

TEST(config, llada) {
  const model_config m = parse(llada(), R"({"eos_token_id": [249, 251]})");
  EXPECT_EQ(m.family, model_family::llada);
  EXPECT_EQ(m.name, "some");
  EXPECT_EQ(m.vocabulary, 256);  // embedding_size: the tables are padded
  EXPECT_EQ(m.head_dim, 16);
  EXPECT_EQ(m.rope.rotary_dim, 16);
  EXPECT_EQ(m.attention, mask_kind::full);
  EXPECT_FALSE(m.shifted_logits || m.qk_norm || m.qkv_bias);
  EXPECT_EQ(m.mask_id, 250);
  EXPECT_EQ(m.eos_id, 251);
  EXPECT_EQ(m.stop_ids, (std::vector<std::int32_t>{249, 251}));
  json config = llada();
  config.erase("mlp_hidden_size");
  config["mlp_ratio"] = 4;
  EXPECT_EQ(parse(config).feed_forward, 256);
  config["n_kv_heads"] = nullptr;
  config["multi_query_attention"] = true;
  EXPECT_EQ(parse(config).kv_heads, 1);
}

TEST(config, sdar_and_qwen3) {
  const model_config m = parse(sdar());
  EXPECT_EQ(m.family, model_family::sdar);
  EXPECT_EQ(m.attention, mask_kind::block_causal);
  EXPECT_EQ(m.block, 16);
  EXPECT_EQ(m.head_dim, 24);
  EXPECT_TRUE(m.qk_norm);
  EXPECT_FALSE(m.shifted_logits);

  json config = sdar();
  config["architectures"] = {"Qwen3ForCausalLM"};
  const model_config q = parse(config);
  EXPECT_EQ(q.attention, mask_kind::causal);
  EXPECT_TRUE(q.shifted_logits);
  EXPECT_EQ(q.mask_id, -1);

  config = sdar();
  config.erase("mask_token_id");
  expect_environment_error([&] { parse(config); }, {"`mask_token_id`", "missing"});
  config["vocab_size"] = 151936;
  EXPECT_EQ(parse(config).mask_id, 151669);
  config.erase("architectures");  // model_type alone is enough
  EXPECT_EQ(parse(config).family, model_family::sdar);
}

json llama() {
  json config = sdar();
  config["architectures"] = {"LlamaForCausalLM"};
  config["model_type"] = "llama";
  config["attention"] = "block_causal";
  config["shifted_logits"] = true;
  config["sink_tokens"] = 16;
  config["tie_word_embeddings"] = true;
  return config;
}

TEST(config, llama_is_causal_unless_its_config_says_otherwise) {
  const model_config m = parse(llama());
  EXPECT_EQ(m.family, model_family::llama);
  EXPECT_EQ(m.attention, mask_kind::block_causal);
  EXPECT_EQ(m.block, 16);
  EXPECT_EQ(m.sink_tokens, 16);
  EXPECT_EQ(m.mask_id, 250);
  EXPECT_TRUE(m.shifted_logits && m.tied_embeddings);
  EXPECT_FALSE(m.qk_norm || m.qkv_bias);

  json config = llama();
  config["shifted_logits"] = false;
  EXPECT_FALSE(parse(config).shifted_logits);
  for (const char* key : {"attention", "shifted_logits", "sink_tokens"}) config.erase(key);
  const model_config causal = parse(config);
  EXPECT_EQ(causal.attention, mask_kind::causal);
  EXPECT_EQ(causal.mask_id, -1);
  EXPECT_TRUE(causal.shifted_logits);

  expect_refused(llama(), "attention", "full");
  expect_refused(llama(), "sink_tokens", 8);
  expect_refused(llama(), "block_size", absent);
  expect_refused(llama(), "mask_token_id", absent);
  config["shifted_logits"] = false;
  expect_environment_error([&] { parse(config); }, {"`shifted_logits`"});
}

// LLaDA2.1 has the config.json of LLaDA2.0 and is decoded by other rules.
TEST(config, token_editing_is_told_by_what_lies_beside_the_config) {
  const scratch_folder directory;
  using told = std::pair<std::string, std::string>;
  const auto release = [&](const std::string& name, const std::string& file = "",
                           const std::string& text = "") {
    const fs::path path = directory.path() / name;
    write_file(path / "config.json", llada2().dump());
    if (!file.empty()) write_file(path / file, text);
    const model_config m = read_model_config(path);
    return told(m.release, m.told_by);
  };
  EXPECT_EQ(release("LLaDA2.0-mini", "README.md", "See also LLaDA2.1."), told());
  EXPECT_EQ(release("LLaDA2.1-mini"), told("LLaDA2.1", "its directory's name holds LLaDA2.1"));
  EXPECT_EQ(release("llada2.2-flash").first, "LLaDA2.2");
  EXPECT_EQ(release("models--inclusionAI--LLaDA2.1-mini/snapshots/0f").first, "LLaDA2.1");
  EXPECT_EQ(release("mine", "README.md", "model.generate(editing_threshold=0.5)"),
            told("LLaDA2.1", "README.md speaks of editing_threshold"));
  EXPECT_EQ(release("yours", "README.md", "# LLaDA2.2\nmodel.generate(editing_threshold=0)").first,
            "LLaDA2.2");
  EXPECT_EQ(
      release("his", "modeling_llada2_moe.py", "def generate(self, editing_threshold=0.9):").first,
      "LLaDA2.1");
  // Other families have no such rule.
  const fs::path other = directory.path() / "sdar-llada2.1";
  write_file(other / "config.json", sdar().dump());
  EXPECT_EQ(read_model_config(other).release, "");
}

json a2d() {
  json config = sdar();
  config["architectures"] = {"A2DQwen3LMHeadModel"};
  config["model_type"] = "a2d-qwen3";
  config.erase("mask_token_id");
  config.erase("block_size");
  return config;
}

TEST(config, a2d_attends_in_both_directions_and_asks_the_tokenizer_for_its_mask) {
  const scratch_folder folder;
  const fs::path path = folder.path() / "Qwen3-0.6B-diffusion-bd3lm-v0.1";
  write_file(path / "config.json", a2d().dump());
  expect_environment_error([&] { read_model_config(path); },
                           {"config.json", "`mask_token_id`", "tokenizer_config.json"});
  write_file(path / "tokenizer_config.json",
             R"({"mask_token": "<m>", "added_tokens_decoder": {"249": {"content": "<m>"}}})");
  const model_config m = read_model_config(path);
  EXPECT_EQ(m.family, model_family::qwen3);
  EXPECT_EQ(m.attention, mask_kind::full);
  EXPECT_EQ(m.mask_id, 249);
  EXPECT_TRUE(m.qk_norm);
  EXPECT_FALSE(m.shifted_logits);
  EXPECT_NE(m.caution.find("bd3lm"), std::string::npos) << m.caution;

  json blocks = a2d();
  blocks["attention"] = "block_causal";
  expect_refused(blocks, "block_size", absent, {"missing"});
  blocks["block_size"] = 32;
  write_file(path / "config.json", blocks.dump());
  const model_config b = read_model_config(path);
  EXPECT_EQ(b.attention, mask_kind::block_causal);
  EXPECT_EQ(b.block, 32);
  EXPECT_EQ(b.caution, "");
  expect_refused(blocks, "attention", "causal");

  json by_type = a2d();
  by_type.erase("architectures");
  by_type["mask_token_id"] = 250;
  EXPECT_EQ(parse(by_type).mask_id, 250);
}

TEST(config, llada2) {
  const model_config m = parse(llada2());
  EXPECT_EQ(m.family, model_family::llada2_moe);
  EXPECT_EQ(m.mask_id, 156895);
  EXPECT_EQ(m.eos_id, 156892);
  EXPECT_EQ(m.block, 32);
  EXPECT_EQ(m.rope.rotary_dim, 16);
  EXPECT_EQ(m.moe.experts, 16);
  EXPECT_EQ(m.moe.groups, 4);
  EXPECT_EQ(m.moe.groups_kept, 2);
  EXPECT_EQ(m.moe.first_dense_layers, 1);
  EXPECT_FLOAT_EQ(m.moe.scaling, 2.5F);
  EXPECT_TRUE(m.moe.sigmoid && m.moe.expert_bias && m.moe.normalize && m.qk_norm);
}

TEST(config, sdar_moe) {
  json config = sdar();
  config["architectures"] = {"SDARMoeForCausalLM"};
  config["num_experts"] = 8;
  config["num_experts_per_tok"] = 2;
  config["moe_intermediate_size"] = 32;
  config["norm_topk_prob"] = true;
  const model_config m = parse(config);
  EXPECT_EQ(m.moe.experts, 8);
  EXPECT_FALSE(m.moe.sigmoid || m.moe.expert_bias);
  EXPECT_EQ(m.moe.first_dense_layers, 0);
  expect_refused(config, "decoder_sparse_step", 2);
  expect_refused(config, "mlp_only_layers", {0});
}

TEST(config, missing_keys_are_named) {
  for (const char* key : {"d_model", "n_layers", "n_heads", "vocab_size", "max_sequence_length",
                          "rms_norm_eps", "rope_theta"}) {
    if (key == std::string("d_model")) continue;  // without it the Hugging Face names count
    expect_refused(llada(), key, absent, {"missing"});
  }
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                          "intermediate_size", "max_position_embeddings", "rms_norm_eps",
                          "rope_theta", "eos_token_id"}) {
    json config = sdar();
    if (key == std::string("eos_token_id")) config["mask_token_id"] = 1;
    expect_refused(config, key, absent, {"missing"});
  }
  for (const char* key : {"num_experts_per_tok", "moe_intermediate_size"}) {
    expect_refused(llada2(), key, absent, {"missing"});
  }
}

TEST(config, contradictions_are_refused) {
  expect_refused(llada(), "alibi", true);
  expect_refused(llada(), "rope", false);
  expect_refused(llada(), "block_type", "sequential");
  expect_refused(llada(), "layer_norm_type", "default");
  expect_refused(llada(), "activation_type", "gelu");
  expect_refused(llada(), "include_bias", true);
  expect_refused(llada(), "attention_layer_norm", true);
  expect_refused(llada(), "input_emb_norm", true);
  expect_refused(llada(), "scale_logits", true);
  expect_refused(llada(), "n_kv_heads", 3, {"divide"});
  expect_refused(llada(), "n_heads", 5, {"divide"});
  expect_refused(llada(), "embedding_size", 100, {"vocab_size"});
  expect_refused(llada(), "mask_token_id", 256);
  expect_refused(llada(), "mask_token_id", -1);
  expect_refused(llada(), "mask_token_id", 251, {"eos_token_id"});
  expect_refused(llada(), "eos_token_id", 999, {"vocabulary"});
  expect_refused(llada(), "eos_token_id", "two");
  expect_refused(sdar(), "use_sliding_window", true);
  expect_refused(sdar(), "layer_types", {"sliding_attention", "full_attention"});
  expect_refused(sdar(), "attention_bias", true);
  expect_refused(sdar(), "hidden_act", "gelu");
  expect_refused(sdar(), "head_dim", 25);
  expect_refused(llada2(), "rotary_dim", 32, {"partial_rotary_factor"});
  expect_refused(llada2(), "n_group", 3, {"num_experts"});
  expect_refused(llada2(), "topk_group", 5);
  expect_refused(llada2(), "num_experts_per_tok", 9, {"topk_group"});
  expect_refused(llada2(), "score_function", "tanh");
  expect_refused(llada2(), "use_bias", true);
  expect_refused(llada2(), "first_k_dense_replace", 4);
}

TEST(config, sizes_and_types_are_checked) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                          "intermediate_size", "max_position_embeddings", "head_dim"}) {
    for (const json& value : {json(-1), json(0), json(1LL << 40), json(2.5), json("64"), json(true),
                              json::array({64}), json(1e30)}) {
      expect_refused(sdar(), key, value);
    }
  }
  expect_refused(sdar(), "rope_theta", "big");
  expect_refused(sdar(), "rope_theta", 0);
  expect_refused(sdar(), "rms_norm_eps", -1.0);
  expect_refused(sdar(), "tie_word_embeddings", 1);
  expect_refused(sdar(), "architectures", "SDARForCausalLM");
  expect_refused(sdar(), "architectures", json::array());
  expect_refused(sdar(), "block_size", 0);
}

TEST(config, unknown_architecture_names_the_nearest) {
  expect_refused(llada(), "architectures", {"LLaDAModel"}, {"LLaDAModel", "LLaDAModelLM"});
  expect_refused(sdar(), "architectures", {"Qwen2ForCausalLM"}, {"Qwen3ForCausalLM"});
}

TEST(config, rope_parameters_of_newer_files) {
  json config = sdar();
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5000.0}};
  EXPECT_FLOAT_EQ(parse(config).rope.theta, 5000.0F);
}

// fixtures/rope_frequencies.json: what transformers computes for the same keys, in float32.
TEST(config, scaled_frequencies_are_those_of_transformers) {
  const json all = json::parse(test::text_of(test::fixtures() / "rope_frequencies.json"));
  for (const json& c : all.at("cases")) {
    SCOPED_TRACE(c.at("config").dump());
    json in_both_places = sdar(), old = sdar();
    old.update(c.at("config"));
    in_both_places.update(c.at("config"));
    in_both_places.erase("rope_scaling");
    in_both_places["rope_parameters"] = c.at("config").at("rope_scaling");
    for (const json& config : {old, in_both_places}) {
      const rope_params rope = parse(config).rope;
      const std::vector<float> got = rope_frequencies(rope);
      const auto want = c.at("frequency").get<std::vector<double>>();
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i] / want[i], 1, 3e-6) << i;
      }
      EXPECT_NEAR(rope.magnitude / c.at("magnitude").get<double>(), 1, 1e-7);
    }
  }
  EXPECT_EQ(all.at("cases").size(), 12U);
  EXPECT_EQ(parse(sdar()).rope.magnitude, 1.0F);
}

TEST(config, unknown_scalings_are_refused_by_name) {
  const auto refused = [](const json& scaling, const std::vector<std::string>& parts) {
    json config = sdar();
    config["rope_scaling"] = scaling;
    expect_environment_error([&] { parse(config); }, parts);
  };
  refused({{"type", "dynamic"}, {"factor", 4.0}},
          {"config.json", "`rope_scaling.type`", "\"dynamic\"", "\"yarn\""});
  refused({{"rope_type", "longrope"}, {"factor", 4.0}}, {"`rope_scaling.rope_type`", "longrope"});
  refused({{"rope_type", "yarn"}, {"factor", 4.0}, {"llama_4_scaling_beta", 0.1}},
          {"`rope_scaling.llama_4_scaling_beta`", "yarn"});
  refused({{"rope_type", "linear"}}, {"`rope_scaling.factor`", "missing"});
  refused({{"rope_type", "linear"}, {"factor", 0.5}}, {"`rope_scaling.factor`"});
  refused(
      {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 4}, {"high_freq_factor", 4}},
      {"`rope_scaling.high_freq_factor`", "low_freq_factor"});
  json config = sdar();
  config["rope_theta"] = 1;
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
  expect_environment_error([&] { parse(config); }, {"`rope_theta`", "yarn"});
}

TEST(config, files_are_named) {
  const scratch_folder directory;
  expect_environment_error([&] { read_model_config(directory.path() / "nowhere"); }, {"nowhere"});
  expect_environment_error([&] { read_model_config(directory.path()); }, {"config.json"});
  write_file(directory.path() / "config.json", "{");
  expect_environment_error([&] { read_model_config(directory.path()); }, {"config.json", "JSON"});
  write_file(directory.path() / "config.json", sdar().dump());
  write_file(directory.path() / "generation_config.json", R"({"eos_token_id": 1.5})");
  expect_environment_error([&] { read_model_config(directory.path()); },
                           {"generation_config.json", "`eos_token_id`"});
}

TEST(config, a_made_model_is_of_the_files_that_are_there) {
  const scratch_folder folder;
  const fs::path model = folder.path() / "tiny";
  fs::create_directory(model);
  write_file(model / delta_file, "abc");
  expect_environment_error([&] { read_model_config(model); },
                           {"holds only the delta", "./dev model tiny makes"});
  write_file(model / "config.json", sdar().dump());
  expect_environment_error([&] { read_model_config(model); }, {"no made_of.json", "./dev model"});
  // The digest of "abc" in FIPS 180-4.
  const std::string digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  write_file(model / made_of_file, json{{delta_file, digest}, {"../gone", "x"}}.dump());
  EXPECT_EQ(outdated_text(model), "");
  read_model_config(model);
  write_file(folder.path() / "gone", "abc");  // it has come back, as another
  expect_environment_error([&] { read_model_config(model); }, {"another ../gone"});
  write_file(model / made_of_file, json{{delta_file, digest}, {"../gone", digest}}.dump());
  EXPECT_EQ(outdated_text(model), "");
  write_file(model / delta_file, "abd");
  expect_environment_error([&] { read_model_config(model); },
                           {"tiny: the model was made of another delta.safetensors than the one "
                            "here; ./dev model tiny makes it anew"});
  for (const char* text : {"[]", "{}", "{"}) {
    write_file(model / made_of_file, text);
    expect_environment_error([&] { read_model_config(model); }, {"made_of.json"});
  }
  fs::remove(model / delta_file);  // a model as any other
  EXPECT_EQ(outdated_text(model), "");
}

TEST(config, published_configs_parse) {
  struct expected {
    std::int64_t parameters;
    std::int32_t mask, eos;
  };
  // The sizes that model cards and index files state.
  const std::map<std::string, expected> known = {
      {"LLaDA-8B-Instruct", {8015581184, 126336, 126081}},
      {"Dream-v0-Instruct-7B", {7615616512, 151666, 151643}},
      {"SDAR-4B-Chat", {8822848512 / 2, 151669, 151643}},
      {"SDAR-8B-Chat", {16381470720 / 2, 151669, 151643}},
      {"SDAR-30B-A3B-Chat", {30532122624, 151669, 151643}},
      {"LLaDA2.0-mini", {16255643392, 156895, 156892}},
      {"Qwen3-8B", {8190735360, -1, 151645}}};
  std::size_t count = 0;
  for (const char* kind : {"real", "reconstructed"}) {
    for (const auto& item : fs::directory_iterator(test::published() / "configs" / kind)) {
      const std::string file = item.path().filename().string();
      const std::string suffix = ".config.json";
      if (!file.ends_with(suffix)) continue;
      const std::string name = file.substr(0, file.size() - suffix.size());
      SCOPED_TRACE(name);
      const fs::path generation = item.path().parent_path() / (name + ".generation_config.json");
      const model_config m =
          parse_model_config(test::text_of(item.path()),
                             fs::exists(generation) ? test::text_of(generation) : "", name);
      ++count;
      // No published configuration says more than is read.
      EXPECT_EQ(m.unread.pictures.size(), 0U);
      EXPECT_EQ(caution_of({{}, m.unread.changing, m.unread.others}), "");
      EXPECT_GT(m.parameters(), 1'000'000'000);
      if (const auto at = known.find(name); at != known.end()) {
        EXPECT_EQ(m.parameters(), at->second.parameters);
        EXPECT_EQ(m.mask_id, at->second.mask);
        EXPECT_EQ(m.eos_id, at->second.eos);
      }
    }
  }
  EXPECT_EQ(count, 18U);
}

}  // namespace
}  // namespace unmask
