// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/config.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/nearest.h"
#include "harness/model/checkpoint.h"
#include "harness/model/vision/one_vision.h"

namespace unmask {
namespace {

// Bounds on sizes: far above every published model, far below what overflows a 64-bit product.
constexpr std::int64_t max_layers = 1024;
constexpr std::int64_t max_width = 1 << 18;
constexpr std::int64_t max_heads = 4096;
constexpr std::int64_t max_vocabulary = 1 << 24;
constexpr std::int64_t max_length = 1 << 28;
constexpr std::int64_t max_experts = 4096;
constexpr std::size_t config_limit = 16 << 20;  // bytes of a config.json

// What a published architecture name means. Ids are used when the config omits them, and only
// when they lie inside its vocabulary; -1: none.
struct architecture {
  const char* name;        // in "architectures"
  const char* model_type;  // in "model_type"
  model_family family;
  bool autoregressive;  // as published; `attention` in the config may say otherwise
  bool softmax_moe;     // a plain softmax router in every layer (Qwen3-MoE)
  std::int32_t default_mask;
  std::int32_t default_eos;
};

constexpr architecture architectures[] = {
    {"LLaDAModelLM", "llada", model_family::llada, false, false, 126336, 126081},
    {"MMadaModelLM", "mmada", model_family::llada, false, false, 126336, 126081},
    {"LlavaLLaDAModelLM", "llava_llada", model_family::llada, false, false, 126336, 126081},
    {"DreamModel", "Dream", model_family::dream, false, false, 151666, 151643},
    {"DimpleModel", "dimple", model_family::dream, false, false, 151666, 151643},
    {"SDARForCausalLM", "sdar", model_family::sdar, false, false, 151669, 151643},
    {"LlavaOnevisionForConditionalGeneration", "sdar_v", model_family::sdar, false, false, 151669,
     151643},
    {"SDARMoeForCausalLM", "sdar_moe", model_family::sdar, false, true, 151669, 151643},
    {"Qwen3ForCausalLM", "qwen3", model_family::qwen3, true, false, -1, -1},
    {"Qwen3MoeForCausalLM", "qwen3_moe", model_family::qwen3, true, true, -1, -1},
    {"A2DQwen3LMHeadModel", "a2d-qwen3", model_family::qwen3, false, false, -1, -1},
    {"LlamaForCausalLM", "llama", model_family::llama, true, false, -1, -1},
    {"Fast_dLLM_QwenForCausalLM", "Fast_dLLM_Qwen", model_family::qwen2, false, false, 151665,
     151645},
    {"LLaDA2MoeModelLM", "llada2_moe", model_family::llada2_moe, false, false, 156895, 156892},
    {"LLaDA2MoeModelLM", "llada2_moe_veomni", model_family::llada2_moe, false, false, 156895,
     156892},
    {"BailingMoeV2ForCausalLM", "bailing_moe", model_family::llada2_moe, true, false, -1, 156892},
};

// LLaDA keeps OLMo's key names; everyone else uses Hugging Face's.
struct key_names {
  const char *layers, *hidden, *heads, *kv_heads, *feed_forward, *positions, *tied;
};
constexpr key_names llada_keys = {"n_layers",    "d_model",         "n_heads",
                                  "n_kv_heads",  "mlp_hidden_size", "max_sequence_length",
                                  "weight_tying"};
constexpr key_names hf_keys = {"num_hidden_layers",   "hidden_size",
                               "num_attention_heads", "num_key_value_heads",
                               "intermediate_size",   "max_position_embeddings",
                               "tie_word_embeddings"};

std::int32_t size_of_key(const json_reader& config, const char* key, std::int64_t high) {
  return static_cast<std::int32_t>(config.integer(key, 1, high));
}

// Refuse switches that change the arithmetic in a way the forward does not know.
void require_flags(const json_reader& config, bool wanted,
                   std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (config.flag_or(key, wanted) == wanted) continue;
    config.fail(key, fmt::format("is {}; only {} is supported", !wanted, wanted));
  }
}

void require_text(const json_reader& config, const char* key, std::string_view wanted) {
  const std::string found = config.text_or(key, wanted);
  if (found != wanted) {
    config.fail(key, "is \"" + found + "\"; only \"" + std::string(wanted) + "\" is supported");
  }
}

const architecture& find_architecture(const json_reader& config) {
  std::string name;
  const char* key = "architectures";
  const char* architecture::*named = &architecture::name;
  if (const json_value* list = config.find(key)) {
    const json_value::array* items = list->items();
    if (items == nullptr || items->empty() || items->front().text() == nullptr) {
      config.fail(key, "must be an array of names");
    }
    name = *items->front().text();
  } else {
    key = "model_type";
    named = &architecture::model_type;
    if (!config.given(key)) {
      config.fail("architectures", "is missing, and so is `model_type`; one must name the model");
    }
    name = config.text(key);
  }
  std::vector<std::string> known;
  for (const architecture& a : architectures) {
    if (name == a.*named) return a;
    known.emplace_back(a.*named);
  }
  known.erase(std::unique(known.begin(), known.end()), known.end());
  config.fail(
      key, "names \"" + name.substr(0, 200) +
               "\", which is not supported; nearest supported names: " + nearest_list(name, known));
}

void read_sizes(const json_reader& config, const key_names& keys, model_config& m) {
  m.layers = size_of_key(config, keys.layers, max_layers);
  m.hidden = size_of_key(config, keys.hidden, max_width);
  m.heads = size_of_key(config, keys.heads, max_heads);
  m.kv_heads = static_cast<std::int32_t>(config.integer_or(keys.kv_heads, 1, max_heads, m.heads));
  if (m.heads % m.kv_heads != 0) {
    config.fail(keys.kv_heads, "is " + std::to_string(m.kv_heads) + ", which does not divide `" +
                                   config.name_of(keys.heads) + "` = " + std::to_string(m.heads));
  }
  if (config.given("head_dim")) {
    m.head_dim = size_of_key(config, "head_dim", max_heads);
  } else {
    if (m.hidden % m.heads != 0) {
      config.fail(keys.heads, "is " + std::to_string(m.heads) + ", which does not divide `" +
                                  config.name_of(keys.hidden) + "` = " + std::to_string(m.hidden));
    }
    m.head_dim = m.hidden / m.heads;
  }
  m.vocabulary = size_of_key(config, "vocab_size", max_vocabulary);
  m.max_positions = size_of_key(config, keys.positions, max_length);
  m.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0));
  m.tied_embeddings = config.flag_or(keys.tied, false);
}

// What a kind of scaling is called and which keys it reads; every other key is refused, because it may
// change the arithmetic.
struct scaling_name {
  const char* name;
  rope_scaling_kind kind;
  std::vector<std::string_view> keys;
};

const std::vector<scaling_name>& scaling_names() {
  static const std::vector<scaling_name> names = {
      {"linear", rope_scaling_kind::linear, {"factor"}},
      {"llama3",
       rope_scaling_kind::llama3,
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
      {"yarn",
       rope_scaling_kind::yarn,
       {"factor", "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim",
        "truncate", "original_max_position_embeddings"}}};
  return names;
}

// 0.1 m ln(factor) + 1 (arXiv 2309.00071, equation 22, with DeepSeek's m).
double yarn_magnitude(double factor, double m) {
  return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1;
}

void read_yarn(const json_reader& scaling, model_config& m) {
  rope_scaling& s = m.rope.scaling;
  if (m.rope.theta <= 1) scaling.fail("rope_type", "is \"yarn\", which needs `rope_theta` above 1");
  s.high = scaling.number_or("beta_fast", 1e-6, 1e6, 32);
  s.low = scaling.number_or("beta_slow", 1e-6, 1e6, 1);
  s.whole = scaling.flag_or("truncate", true);
  const double mscale = scaling.number_or("mscale", 0.0, 1e6, 0),
               all = scaling.number_or("mscale_all_dim", 0.0, 1e6, 0);
  const double usual = mscale > 0 && all > 0
                           ? yarn_magnitude(s.factor, mscale) / yarn_magnitude(s.factor, all)
                           : yarn_magnitude(s.factor, 1);
  m.rope.magnitude = static_cast<float>(scaling.number_or("attention_factor", 1e-6, 1e6, usual));
}

void add_caution(model_config& m, const std::string& sentence) {
  if (!sentence.empty()) m.caution += (m.caution.empty() ? "" : "; ") + sentence;
}

// Where a key has another value at the top than in the part that counts.
void compare_twice(const json_reader& config, const json_reader& inner, const char* key,
                   bool inner_counts, model_config& m) {
  if (!config.given(key) || !inner.given(key)) return;
  const double top = config.number(key, -1e300, 1e300), within = inner.number(key, -1e300, 1e300);
  if (top == within) return;
  add_caution(m,
              fmt::format("`{}` of config.json is {:g} and `{}` is {:g}: the {} counts, as in "
                          "transformers",
                          key, top, inner.name_of(key), within, inner_counts ? "second" : "first"));
}

// `rope_scaling`, or the same keys in transformers 5's `rope_parameters`, as ROPE_INIT_FUNCTIONS of
// transformers 5 reads them. The pretrained length is max_position_embeddings unless given.
void read_scaling(const json_reader& config, const char* name, model_config& m) {
  const json_reader scaling = config.child(name);
  const char* type_key = scaling.given("rope_type") ? "rope_type" : "type";
  const std::string type = scaling.text_or(type_key, "default");
  if (type == "default") return;
  const auto known = std::ranges::find(scaling_names(), type, &scaling_name::name);
  if (known == scaling_names().end()) {
    scaling.fail(type_key, "is \"" + type.substr(0, 200) +
                               "\"; only \"default\" (no scaling), \"linear\", \"llama3\" and " +
                               "\"yarn\" are supported");
  }
  for (const auto& [key, value] : *config.at(name).members()) {
    constexpr std::string_view always[] = {"rope_type", "type", "rope_theta",
                                           "partial_rotary_factor"};
    if (std::ranges::find(always, key) == std::end(always) &&
        std::ranges::find(known->keys, key) == known->keys.end() && !value.is_null()) {
      scaling.fail(key, "is not known for the scaling \"" + type + "\"");
    }
  }
  rope_scaling& s = m.rope.scaling;
  s.kind = known->kind;
  compare_twice(config, scaling, "original_max_position_embeddings", false, m);
  const json_reader& where = config.given("original_max_position_embeddings") ? config : scaling;
  s.positions = static_cast<double>(
      where.integer_or("original_max_position_embeddings", 1, max_length, m.max_positions));
  const bool by_length = s.kind == rope_scaling_kind::yarn && !scaling.given("factor");
  s.factor =
      by_length ? std::max(1.0, m.max_positions / s.positions) : scaling.number("factor", 1.0, 1e6);
  if (s.kind == rope_scaling_kind::linear) return;
  if (s.kind == rope_scaling_kind::yarn) return read_yarn(scaling, m);
  s.low = scaling.number("low_freq_factor", 1e-6, 1e6);
  s.high = scaling.number("high_freq_factor", 1e-6, 1e6);
  if (s.high <= s.low) {
    scaling.fail("high_freq_factor", "must be larger than `low_freq_factor`");
  }
}

// rope_theta and friends, at the top level or inside transformers 5's `rope_parameters`, which count
// where both are given.
void read_rope(const json_reader& config, model_config& m) {
  const bool newer = config.given("rope_parameters");
  const json_reader inner = newer ? config.child("rope_parameters") : config;
  const json_reader& source =
      newer && (inner.given("rope_theta") || !config.given("rope_theta")) ? inner : config;
  if (newer) {
    compare_twice(config, inner, "rope_theta", true, m);
    compare_twice(config, inner, "partial_rotary_factor", true, m);
  }
  m.rope.theta = static_cast<float>(source.number("rope_theta", 1.0, 1e12));

  const json_reader& partial = inner.given("partial_rotary_factor") ? inner : config;
  std::int32_t rotary = m.head_dim;
  const char* key = "head_dim";
  if (partial.given("partial_rotary_factor")) {
    key = "partial_rotary_factor";
    rotary =
        static_cast<std::int32_t>(static_cast<double>(m.head_dim) * partial.number(key, 0.0, 1.0));
  }
  if (config.given("rotary_dim")) {
    const std::int32_t stated = size_of_key(config, "rotary_dim", m.head_dim);
    if (key != std::string_view("head_dim") && stated != rotary) {
      config.fail("rotary_dim", "is " + std::to_string(stated) +
                                    ", but `partial_rotary_factor` of `head_dim` gives " +
                                    std::to_string(rotary));
    }
    key = "rotary_dim";
    rotary = stated;
  }
  if (rotary < 2 || rotary % 2 != 0) {
    partial.fail(key, "makes " + std::to_string(rotary) +
                          " dimensions of each head rotate; it must be an even number from 2");
  }
  m.rope.rotary_dim = rotary;
  for (const char* scaling : {"rope_scaling", "rope_parameters"}) {
    if (config.given(scaling)) read_scaling(config, scaling, m);
  }
}

// Dimple: pairs of a head for each axis of a picture, and its tower (read_vision_config).
void read_axes(const json_reader& config, model_config& m) {
  if (!config.given("mrope_section")) return;  // asked about text alone
  const json_value::array* list = config.at("mrope_section").items();
  std::int64_t pairs = 0;
  for (std::size_t i = 0; list != nullptr && list->size() == m.axes.size() && i < list->size();
       ++i) {
    const std::int64_t* count = (*list)[i].integer();
    if (count == nullptr || *count < 1 || *count > m.head_dim) break;
    m.axes[i] = static_cast<std::int32_t>(*count);
    pairs += *count;
  }
  if (2 * pairs != m.rope.rotary_dim || m.axes[2] == 0 || m.rope.magnitude != 1) {
    config.fail("mrope_section",
                fmt::format("must be three counts of pairs, {} in all", m.rope.rotary_dim / 2));
  }
  if (config.given("vision_config")) read_dimple(config, nullptr);
}

void refuse_windows(const json_reader& config) {
  require_flags(config, false, {"use_sliding_window", "use_mrope"});
  const json_value* types = config.find("layer_types");
  if (types == nullptr) return;
  if (types->items() == nullptr) config.fail("layer_types", "must be an array");
  for (const json_value& type : *types->items()) {
    if (type.text() == nullptr || *type.text() != "full_attention") {
      config.fail("layer_types", "lists a layer that is not \"full_attention\"");
    }
  }
}

void read_llada_native(const json_reader& config, model_config& m) {
  if (!config.given("n_kv_heads") && config.flag_or("multi_query_attention", false)) {
    m.kv_heads = 1;
  }
  if (config.given("mlp_hidden_size")) {
    m.feed_forward = size_of_key(config, "mlp_hidden_size", max_width);
  } else {
    m.feed_forward = static_cast<std::int32_t>(config.integer("mlp_ratio", 1, 64) * m.hidden);
  }
  // The tables have embedding_size rows: the vocabulary padded for speed.
  if (config.given("embedding_size")) {
    const std::int32_t rows = size_of_key(config, "embedding_size", max_vocabulary);
    if (rows < m.vocabulary) {
      config.fail("embedding_size",
                  "is " + std::to_string(rows) +
                      ", smaller than `vocab_size` = " + std::to_string(m.vocabulary));
    }
    m.vocabulary = rows;
  }
  require_flags(config, true, {"rope", "layer_norm_with_affine"});
  require_flags(config, false,
                {"alibi", "include_bias", "bias_for_layer_norm", "attention_layer_norm",
                 "input_emb_norm", "scale_logits"});
  require_text(config, "block_type", "llama");
  require_text(config, "activation_type", "silu");
  require_text(config, "layer_norm_type", "rms");
  if (config.integer_or("block_group_size", 1, 1, 1) != 1) return;
  m.qkv_bias = config.flag_or("include_qkv_bias", false);
}

void read_router(const json_reader& config, model_config& m) {
  moe_config& moe = m.moe;
  moe.experts_per_token =
      static_cast<std::int32_t>(config.integer("num_experts_per_tok", 1, moe.experts));
  moe.hidden = size_of_key(config, "moe_intermediate_size", max_width);
  moe.normalize = config.flag_or("norm_topk_prob", true);
}

void read_softmax_moe(const json_reader& config, model_config& m) {
  m.moe.experts = size_of_key(config, "num_experts", max_experts);
  read_router(config, m);
  m.moe.sigmoid = false;
  if (config.integer_or("decoder_sparse_step", 1, max_layers, 1) != 1) {
    config.fail("decoder_sparse_step", "must be 1: experts in every layer");
  }
  if (const json_value* dense = config.find("mlp_only_layers")) {
    if (dense->items() == nullptr || !dense->items()->empty()) {
      config.fail("mlp_only_layers", "must be an empty array: experts in every layer");
    }
  }
}

void read_ling(const json_reader& config, model_config& m) {
  require_flags(config, true, {"use_rmsnorm"});
  require_flags(config, false,
                {"use_bias", "norm_head", "norm_softmax", "using_split_qkv_in_self_attention"});
  m.qkv_bias = config.flag_or("use_qkv_bias", false);
  m.qk_norm = config.flag_or("use_qk_norm", true);
  moe_config& moe = m.moe;
  moe.experts = static_cast<std::int32_t>(config.integer_or("num_experts", 0, max_experts, 0));
  if (moe.experts == 0) return;
  read_router(config, m);
  moe.groups = static_cast<std::int32_t>(config.integer_or("n_group", 1, moe.experts, 1));
  if (moe.experts % moe.groups != 0) {
    config.fail("n_group",
                "is " + std::to_string(moe.groups) +
                    ", which does not divide `num_experts` = " + std::to_string(moe.experts));
  }
  const std::int32_t group_size = moe.experts / moe.groups;
  if (moe.groups > 1 && group_size < 2) {
    config.fail("n_group", "leaves one expert per group; groups are ranked by their two best");
  }
  moe.groups_kept =
      static_cast<std::int32_t>(config.integer_or("topk_group", 1, moe.groups, moe.groups));
  if (moe.experts_per_token > moe.groups_kept * group_size) {
    config.fail("num_experts_per_tok",
                "is " + std::to_string(moe.experts_per_token) + ", but the `topk_group` groups " +
                    "kept hold only " + std::to_string(moe.groups_kept * group_size) + " experts");
  }
  moe.shared_experts = static_cast<std::int32_t>(config.integer_or("num_shared_experts", 0, 64, 0));
  moe.first_dense_layers =
      static_cast<std::int32_t>(config.integer_or("first_k_dense_replace", 0, m.layers, 0));
  moe.scaling = static_cast<float>(config.number_or("routed_scaling_factor", 0.0, 1e6, 1.0));
  const std::string score = config.text_or("score_function", "sigmoid");
  if (score != "sigmoid" && score != "softmax") {
    config.fail("score_function",
                "is \"" + score + "\"; only \"sigmoid\" and \"softmax\" are supported");
  }
  moe.sigmoid = score == "sigmoid";
  moe.expert_bias = config.flag_or("moe_router_enable_expert_bias", false);
}

// eos_token_id is one id or an array of ids.
void append_ids(const json_reader& config, const char* key, std::int32_t vocabulary,
                std::vector<std::int32_t>& ids) {
  const json_value* value = config.find(key);
  if (value == nullptr) return;
  const auto append = [&](const json_value& item) {
    const std::int64_t* id = item.integer();
    if (id == nullptr) config.fail(key, "must be a token id or an array of token ids");
    if (*id < 0 || *id >= vocabulary) {
      config.fail(key, "is " + std::to_string(*id) + ", outside the vocabulary of " +
                           std::to_string(vocabulary));
    }
    const auto known = static_cast<std::int32_t>(*id);
    if (std::find(ids.begin(), ids.end(), known) == ids.end()) ids.push_back(known);
  };
  if (const json_value::array* items = value->items()) {
    for (const json_value& item : *items) append(item);
  } else {
    append(*value);
  }
}

void read_ids(const json_reader& config, const json_reader& generation, const architecture& kind,
              std::int32_t tokenizer_mask, model_config& m) {
  std::vector<std::int32_t> own;
  append_ids(config, "eos_token_id", m.vocabulary, own);
  append_ids(generation, "eos_token_id", m.vocabulary, m.stop_ids);
  if (m.stop_ids.empty()) m.stop_ids = own;  // transformers' generate() reads the first file alone
  if (m.stop_ids.empty() && kind.default_eos >= 0 && kind.default_eos < m.vocabulary) {
    m.stop_ids.push_back(kind.default_eos);
  }
  if (m.stop_ids.empty()) {
    config.fail("eos_token_id", "is missing, and generation_config.json does not give it either");
  }
  const bool agree = !own.empty() && std::ranges::find(m.stop_ids, own[0]) != m.stop_ids.end();
  m.eos_id = agree ? own[0] : m.stop_ids.front();  // what pads, where both name it
  for (const std::int32_t id : own) {
    if (std::ranges::find(m.stop_ids, id) != m.stop_ids.end()) continue;
    add_caution(
        m,
        fmt::format("config.json names eos_token_id {}, generation_config.json does not: answers "
                    "end at the second file's ids alone, as in transformers",
                    id));
  }
  // Its turns end at <|eot_id|>; its own loop refuses the end token of the file (read_llada_v).
  constexpr std::int32_t end_of_turn = 126348;
  if (kind.name == llada_v_architecture && end_of_turn < m.vocabulary) {
    m.stop_ids.push_back(end_of_turn);
  }
  // SDAR-VL's generate.py stops at <|im_end|> too.
  constexpr std::int32_t end_of_message = 151645;
  if (kind.name == sdar_vl_architecture && end_of_message < m.vocabulary &&
      std::ranges::find(m.stop_ids, end_of_message) == m.stop_ids.end()) {
    m.stop_ids.push_back(end_of_message);
  }
  if (m.attention == mask_kind::causal) return;

  const char* key = "mask_token_id";
  if (config.given(key)) {
    m.mask_id = static_cast<std::int32_t>(config.integer(key, 0, m.vocabulary - 1));
    if (generation.given(key) && generation.integer(key, -1, max_vocabulary) != m.mask_id) {
      add_caution(m,
                  fmt::format("mask_token_id of config.json is {}, of generation_config.json {}: "
                              "the first counts",
                              m.mask_id, generation.integer(key, -1, max_vocabulary)));
    }
  } else if (generation.given(key)) {
    m.mask_id = static_cast<std::int32_t>(generation.integer(key, 0, m.vocabulary - 1));
  } else if (kind.default_mask < 0 && tokenizer_mask >= 0 && tokenizer_mask < m.vocabulary) {
    m.mask_id = tokenizer_mask;
  } else if (kind.default_mask < 0) {
    config.fail(key,
                "is missing, tokenizer_config.json names no mask_token inside the vocabulary "
                "either, and a model that decodes masks needs it");
  } else if (kind.default_mask < m.vocabulary) {
    m.mask_id = kind.default_mask;
  } else {
    config.fail(key, "is missing, and the vocabulary of " + std::to_string(m.vocabulary) +
                         " is too small for this family's usual " +
                         std::to_string(kind.default_mask));
  }
  if (std::find(m.stop_ids.begin(), m.stop_ids.end(), m.mask_id) != m.stop_ids.end()) {
    config.fail(key, "is " + std::to_string(m.mask_id) + ", which `eos_token_id` names too");
  }
}

// A2D models (dLLM, "autoregressive to diffusion") have the tensors of the causal model they were trained
// on from, and attend in both directions; row p predicts token p. Block diffusion is published under the
// same name, so `attention` and `block_size` must say so where it is meant.
void read_two_way_attention(const json_reader& config, model_config& m) {
  const std::string attention = config.text_or("attention", "full");
  if (attention != "full" && attention != "block_causal") {
    config.fail("attention",
                "is \"" + attention + "\"; only \"full\" and \"block_causal\" are supported");
  }
  m.shifted_logits = config.flag_or("shifted_logits", false);
  if (attention == "full") return;
  m.attention = mask_kind::block_causal;
  m.block = static_cast<std::int32_t>(config.integer("block_size", 1, m.max_positions));
}

// Autoregressive families name a causal model. One of them that was trained on into a block
// diffusion model says so in two keys of its own, `attention` and `shifted_logits`: the second is
// true unless given, because training on from a causal model keeps its shift.
void read_adapted_attention(const json_reader& config, model_config& m) {
  const std::string attention = config.text_or("attention", "causal");
  if (attention != "causal" && attention != "block_causal") {
    config.fail("attention",
                "is \"" + attention + "\"; only \"causal\" and \"block_causal\" are supported");
  }
  m.shifted_logits = config.flag_or("shifted_logits", true);
  m.attention = attention == "causal" ? mask_kind::causal : mask_kind::block_causal;
  if (m.attention == mask_kind::causal && !m.shifted_logits) {
    config.fail("shifted_logits", "is false, but row p of a causal model predicts token p + 1");
  }
  if (m.attention == mask_kind::causal) return;
  m.block = static_cast<std::int32_t>(config.integer("block_size", 1, m.max_positions));
  const auto sink = config.integer_or("sink_tokens", 0, sink_length, 0);
  if (sink != 0 && sink != sink_length) {
    config.fail("sink_tokens", "is " + std::to_string(sink) + "; only 0 and " +
                                   std::to_string(sink_length) + " are supported");
  }
  m.sink_tokens = static_cast<std::int32_t>(sink);
}

void read_attention(const json_reader& config, const architecture& kind, model_config& m) {
  m.shifted_logits = m.family == model_family::dream || m.family == model_family::qwen2;
  if (kind.autoregressive) {
    read_adapted_attention(config, m);
  } else if (m.family == model_family::qwen3) {
    read_two_way_attention(config, m);
  } else if (m.family == model_family::sdar || m.family == model_family::llada2_moe) {
    m.attention = mask_kind::block_causal;
    const std::int64_t usual = m.family == model_family::sdar ? 4 : 32;
    m.block = static_cast<std::int32_t>(config.integer_or("block_size", 1, m.max_positions, usual));
  } else if (m.family == model_family::qwen2) {  // Fast-dLLM v2
    m.attention = mask_kind::block_causal;
    m.block = static_cast<std::int32_t>(config.integer_or("bd_size", 1, m.max_positions, 32));
  }
}

}  // namespace

const char* name_of(model_family family) {
  constexpr const char* names[] = {"llada",      "dream", "sdar", "qwen3",
                                   "llada2_moe", "llama", "qwen2"};
  return names[static_cast<std::size_t>(family)];
}

model_config parse_model_config(std::string_view config_text, std::string_view generation_text,
                                const std::string& directory, std::int32_t tokenizer_mask) {
  const std::string prefix = directory.empty() ? "" : directory + "/";
  const json_value root = parse_python_json(config_text, prefix + "config.json");
  const json_value generation_root =
      generation_text.empty()
          ? json_value{json_value::object{}}
          : parse_python_json(generation_text, prefix + "generation_config.json");
  json_reader whole(root, prefix + "config.json");
  std::set<std::string> asked, asked_inside;
  whole.note_asked(asked);
  const json_reader generation(generation_root, prefix + "generation_config.json");
  const architecture& kind = find_architecture(whole);
  // SDAR-VL keeps the language model's keys in an object of their own.
  const bool inside = kind.name == sdar_vl_architecture;
  json_reader config = inside ? whole.child("text_config") : whole;
  if (inside) {
    config.note_asked(asked_inside);
    require_text(config, "model_type", "sdar");
  }

  model_config m;
  m.family = kind.family;
  const std::filesystem::path path = std::filesystem::path(directory).lexically_normal();
  m.name = (path.has_filename() ? path.filename() : path.parent_path().filename()).string();

  // LLaDA-V republishes LLaDA under Hugging Face key names.
  const bool native = m.family == model_family::llada && config.given("d_model");
  read_sizes(config, native ? llada_keys : hf_keys, m);
  if (native) {
    read_llada_native(config, m);
  } else {
    m.feed_forward = size_of_key(config, "intermediate_size", max_width);
    require_text(config, "hidden_act", "silu");
    require_flags(config, false, {"mlp_bias", "attention_bias"});
    refuse_windows(config);
  }
  m.qkv_bias = m.qkv_bias || m.family == model_family::dream || m.family == model_family::qwen2;
  m.qk_norm = m.family == model_family::sdar || m.family == model_family::qwen3;
  if (kind.softmax_moe) read_softmax_moe(config, m);
  if (m.family == model_family::llada2_moe) read_ling(config, m);
  if (m.family == model_family::dream) require_flags(config, true, {"full_attn_mask"});
  m.further_layers =
      static_cast<std::int32_t>(config.integer_or("num_nextn_predict_layers", 0, max_layers, 0));
  read_rope(config, m);
  read_attention(config, kind, m);
  read_ids(config, generation, kind, tokenizer_mask, m);
  // Read again where pictures are asked about (read_vision_config).
  if (kind.name == llada_v_architecture) read_llada_v(config, m.vocabulary);
  if (kind.name == dimple_architecture) read_axes(config, m);
  if (kind.name == mmada_architecture) read_mmada(config, m.vocabulary);
  if (inside) {
    read_sdar_vl(whole);
    m.tied_embeddings = m.tied_embeddings || whole.flag_or("tie_word_embeddings", false);
    m.unread = unread_keys(*root.find("text_config"), asked_inside);
  }
  m.unread.append(unread_keys(root, asked));
  return m;
}

model_config read_model_config(const std::filesystem::path& directory) {
  if (!std::filesystem::is_directory(directory)) {
    throw environment_error(directory.string() + ": no such directory; give the directory that " +
                            "holds config.json");
  }
  if (!std::filesystem::exists(directory / "config.json") &&
      std::filesystem::exists(directory / delta_file)) {
    throw environment_error(
        directory.string() + ": holds only the delta to a model that lies elsewhere; " +
        "./dev model " + directory.lexically_normal().filename().string() + " makes the model");
  }
  if (!std::filesystem::exists(directory / "config.json")) {
    const std::vector<std::filesystem::path> snapshots = entries_of(directory / "snapshots");
    if (!snapshots.empty()) {
      throw environment_error(directory.string() +
                              ": is the root of a Hugging Face cache entry; its model lies in " +
                              snapshots.back().string());
    }
  }
  if (const std::string why = outdated_text(directory); !why.empty()) {
    throw environment_error(directory.string() + ": the model " + why);
  }
  const std::filesystem::path generation = directory / "generation_config.json";
  model_config m =
      parse_model_config(read_file(directory / "config.json", config_limit),
                         is_there(generation) ? read_file(generation, config_limit) : "",
                         directory.string(), mask_of_tokenizer(directory));
  std::tie(m.release, m.told_by) = release_of(m, directory);
  for (const std::string& sentence : {caution_of(m, directory), contradictions_of(m, directory)}) {
    add_caution(m, sentence);
  }
  return m;
}

}  // namespace unmask
