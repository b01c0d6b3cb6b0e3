// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From the published tensor names of each family to model_weights.
#include <unordered_set>

#include "harness/base/error.h"
#include "harness/base/parallel.h"
#include "harness/model/checkpoint.h"
#include "harness/model/weights.h"
#include "kernels/float16.h"

namespace unmask::inline model {
namespace {

// Where a naming scheme keeps each tensor; layer names follow `layer` + number + ".".
struct naming {
  const char *embedding, *final_norm, *lm_head, *layer;
  const char *attn_norm, *q, *k, *v, *q_norm, *k_norm, *attn_out, *ffn_norm;
  const char *gate, *up, *down;
};

constexpr naming llada_names = {"model.transformer.wte.weight",
                                "model.transformer.ln_f.weight",
                                "model.transformer.ff_out.weight",
                                "model.transformer.blocks.",
                                "attn_norm.weight",
                                "q_proj",
                                "k_proj",
                                "v_proj",
                                "",
                                "",
                                "attn_out.weight",
                                "ff_norm.weight",
                                "ff_proj.weight",
                                "up_proj.weight",
                                "ff_out.weight"};
constexpr naming hf_names = {"model.embed_tokens.weight",
                             "model.norm.weight",
                             "lm_head.weight",
                             "model.layers.",
                             "input_layernorm.weight",
                             "self_attn.q_proj",
                             "self_attn.k_proj",
                             "self_attn.v_proj",
                             "self_attn.q_norm.weight",
                             "self_attn.k_norm.weight",
                             "self_attn.o_proj.weight",
                             "post_attention_layernorm.weight",
                             "mlp.gate_proj.weight",
                             "mlp.up_proj.weight",
                             "mlp.down_proj.weight"};
// Ling 2.0 (LLaDA2): q, k and v are rows of one matrix, all Q heads, then all K, then all V.
constexpr const char* ling_fused = "attention.query_key_value";
constexpr naming ling_names = [] {
  naming names = hf_names;
  names.embedding = "model.word_embeddings.weight";
  names.q = names.k = names.v = "";
  names.q_norm = "attention.query_layernorm.weight";
  names.k_norm = "attention.key_layernorm.weight";
  names.attn_out = "attention.dense.weight";
  return names;
}();

std::string shape_text(const tensor_view& v) {
  std::string text = "[";
  for (int d = 0; d < v.rank; ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(v.shape[static_cast<std::size_t>(d)]);
  }
  return text + "]";
}

// True when every value is finite. An infinity or NaN has all exponent bits set; the blocks have a
// fixed length so that the compiler vectorises the inner loop.
template <class Bits>
bool all_finite(const Bits* bits, std::size_t count, Bits exponent) {
  constexpr std::size_t block = 1024;
  std::size_t i = 0;
  for (; i + block <= count; i += block) {
    Bits found = 0;
    for (std::size_t j = 0; j < block; ++j) {
      found |= static_cast<Bits>((bits[i + j] & exponent) == exponent ? 1 : 0);
    }
    if (found != 0) return false;
  }
  for (; i < count; ++i) {
    if ((bits[i] & exponent) == exponent) return false;
  }
  return true;
}

bool all_finite(const tensor_view& v) {
  const auto count = static_cast<std::size_t>(v.elements());
  switch (v.type) {
    case dtype::f32:
      return all_finite(static_cast<const std::uint32_t*>(v.data), count, 0x7F800000U);
    case dtype::bf16:
      return all_finite(static_cast<const std::uint16_t*>(v.data), count, std::uint16_t{0x7F80});
    default:
      return all_finite(static_cast<const std::uint16_t*>(v.data), count, std::uint16_t{0x7C00});
  }
}

class loader {
 public:
  loader(const model_config& config, const std::filesystem::path& directory)
      : config_(config), source_(std::make_shared<checkpoint>(directory)), names_(choose()) {}

  model_weights load(bool check_values) {
    const std::int64_t d = config_.hidden;
    model_weights w;
    w.embedding = take(names_.embedding, {config_.vocabulary, d});
    w.final_norm = take(names_.final_norm, {d});
    w.lm_head =
        config_.tied_embeddings ? w.embedding : take(names_.lm_head, {config_.vocabulary, d});
    for (std::int32_t i = 0; i < config_.layers; ++i) w.layers.push_back(load_layer(i));
    if (check_values) scan();
    w.bytes = bytes_;
    w.extra_tensors = source_->tensors() - taken_.size();
    w.memory.push_back(source_);
    return w;
  }

 private:
  const naming& choose() const {
    for (const naming* names : {&llada_names, &hf_names, &ling_names}) {
      if (source_->find(names->embedding)) return *names;
    }
    throw environment_error(source_->directory() + ": no tensor " + llada_names.embedding + ", " +
                            hf_names.embedding + " or " + ling_names.embedding +
                            "; the checkpoint is of an unknown family");
  }

  tensor_view take(const std::string& name, std::initializer_list<std::int64_t> shape) {
    const checkpoint::located found = source_->find(name);
    if (!found) {
      throw environment_error(source_->directory() + ": tensor \"" + name +
                              "\" is missing, but config.json calls for it");
    }
    const tensor_view view = found.file->view(*found.entry);
    tensor_view wanted;
    for (std::int64_t n : shape) wanted.shape[static_cast<std::size_t>(wanted.rank++)] = n;
    if (view.rank != wanted.rank || view.shape != wanted.shape) {
      throw environment_error(found.file->path() + ": tensor \"" + name + "\" has the shape " +
                              shape_text(view) + ", but config.json makes it " +
                              shape_text(wanted));
    }
    if (taken_.insert(name).second) {
      bytes_ += found.entry->end - found.entry->begin;
      scan_list_.push_back({found, view});
    }
    return view;
  }

  feed_forward_weights take_feed_forward(const std::string& at, std::int64_t f) {
    const std::int64_t d = config_.hidden;
    return {take(at + "gate_proj.weight", {f, d}), take(at + "up_proj.weight", {f, d}),
            take(at + "down_proj.weight", {d, f})};
  }

  layer_weights load_layer(std::int32_t index) {
    const std::string at = names_.layer + std::to_string(index) + ".";
    const std::int64_t d = config_.hidden;
    layer_weights w;
    w.attn_norm = take(at + names_.attn_norm, {d});
    load_qkv(at, w);
    if (config_.qk_norm) {
      w.q_norm = take(at + names_.q_norm, {config_.head_dim});
      w.k_norm = take(at + names_.k_norm, {config_.head_dim});
    }
    w.attn_out = take(at + names_.attn_out, {d, std::int64_t{config_.heads} * config_.head_dim});
    w.ffn_norm = take(at + names_.ffn_norm, {d});
    const moe_config& moe = config_.moe;
    if (moe.experts == 0 || index < moe.first_dense_layers) {
      const std::int64_t f = config_.feed_forward;
      w.dense = {take(at + names_.gate, {f, d}), take(at + names_.up, {f, d}),
                 take(at + names_.down, {d, f})};
      return w;
    }
    w.router = take(at + "mlp.gate.weight", {moe.experts, d});
    if (moe.expert_bias) w.router_bias = take(at + "mlp.gate.expert_bias", {moe.experts});
    for (std::int32_t e = 0; e < moe.experts; ++e) {
      w.experts.push_back(
          take_feed_forward(at + "mlp.experts." + std::to_string(e) + ".", moe.hidden));
    }
    if (moe.shared_experts > 0) {
      w.shared = take_feed_forward(at + "mlp.shared_experts.",
                                   std::int64_t{moe.hidden} * moe.shared_experts);
    }
    return w;
  }

  void load_qkv(const std::string& at, layer_weights& w) {
    const std::int64_t d = config_.hidden;
    const std::int64_t q = std::int64_t{config_.heads} * config_.head_dim;
    const std::int64_t kv = std::int64_t{config_.kv_heads} * config_.head_dim;
    if (&names_ == &ling_names) {
      const tensor_view all = take(at + ling_fused + ".weight", {q + 2 * kv, d});
      w.q = all.slice(0, q);
      w.k = all.slice(q, kv);
      w.v = all.slice(q + kv, kv);
      if (!config_.qkv_bias) return;
      const tensor_view bias = take(at + ling_fused + ".bias", {q + 2 * kv});
      w.q_bias = bias.slice(0, q);
      w.k_bias = bias.slice(q, kv);
      w.v_bias = bias.slice(q + kv, kv);
      return;
    }
    w.q = take(at + names_.q + ".weight", {q, d});
    w.k = take(at + names_.k + ".weight", {kv, d});
    w.v = take(at + names_.v + ".weight", {kv, d});
    if (!config_.qkv_bias) return;
    w.q_bias = take(at + names_.q + ".bias", {q});
    w.k_bias = take(at + names_.k + ".bias", {kv});
    w.v_bias = take(at + names_.v + ".bias", {kv});
  }

  void scan() const {
    for_each_parallel(scan_list_.size(), [this](std::size_t i) {
      const auto& [place, view] = scan_list_[i];
      if (!all_finite(view)) {
        throw environment_error(place.file->path() + ": tensor \"" + place.entry->name +
                                "\" holds NaN or infinity; the file is damaged");
      }
    });
  }

  const model_config& config_;
  std::shared_ptr<const checkpoint> source_;
  const naming& names_;
  std::unordered_set<std::string> taken_;
  std::vector<std::pair<checkpoint::located, tensor_view>> scan_list_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

model_weights load_weights(const model_config& config, const std::filesystem::path& directory,
                           bool check_values) {
  return loader(config, directory).load(check_values);
}

void soften(model_weights& weights, double by) {
  const tensor_view norm = weights.final_norm;  // one-dimensional: a row per element
  const auto softer = std::make_shared<std::vector<float>>();
  for (std::int64_t i = 0; i < norm.rows(); ++i) {
    softer->push_back(static_cast<float>(float_at(norm, i, 0) / by));
  }
  weights.final_norm.data = softer->data();
  weights.final_norm.type = dtype::f32;
  weights.final_norm.row_stride = 1;
  weights.memory.push_back(softer);
}

}  // namespace unmask::model
