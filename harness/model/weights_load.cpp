// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From the published tensor names of each family to model_weights.
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "harness/base/error.h"
#include "harness/base/parallel.h"
#include "harness/model/checkpoint.h"
#include "harness/model/share.h"
#include "harness/model/vision/weights.h"
#include "harness/model/weights.h"
#include "kernels/float16.h"

namespace unmask {
namespace {

// Where a naming scheme keeps each tensor, without ".weight" or ".bias"; `layers`, a number and "."
// stand before those of a layer.
using naming = std::map<std::string_view, std::string>;

const naming llada_names = {{"embedding", "model.transformer.wte"},
                            {"final_norm", "model.transformer.ln_f"},
                            {"lm_head", "model.transformer.ff_out"},
                            {"layers", "model.transformer.blocks."},
                            {"attn_norm", "attn_norm"},
                            {"q", "q_proj"},
                            {"k", "k_proj"},
                            {"v", "v_proj"},
                            {"attn_out", "attn_out"},
                            {"ffn_norm", "ff_norm"},
                            {"gate", "ff_proj"},
                            {"up", "up_proj"},
                            {"down", "ff_out"}};
const naming hf_names = {{"embedding", "model.embed_tokens"},
                         {"final_norm", "model.norm"},
                         {"lm_head", "lm_head"},
                         {"layers", "model.layers."},
                         {"attn_norm", "input_layernorm"},
                         {"q", "self_attn.q_proj"},
                         {"k", "self_attn.k_proj"},
                         {"v", "self_attn.v_proj"},
                         {"q_norm", "self_attn.q_norm"},
                         {"k_norm", "self_attn.k_norm"},
                         {"attn_out", "self_attn.o_proj"},
                         {"ffn_norm", "post_attention_layernorm"},
                         {"gate", "mlp.gate_proj"},
                         {"up", "mlp.up_proj"},
                         {"down", "mlp.down_proj"},
                         {"router", "mlp.gate"}};
// Ling 2.0 (LLaDA2): q, k and v are rows of one matrix, all Q heads, then all K, then all V.
const naming ling_names = [] {
  naming names = hf_names;
  names["embedding"] = "model.word_embeddings";
  names["q"] = names["k"] = names["v"] = "attention.query_key_value";
  names["q_norm"] = "attention.query_layernorm";
  names["k_norm"] = "attention.key_layernorm";
  names["attn_out"] = "attention.dense";
  return names;
}();

// SDAR-VL: SDAR inside a model that sees pictures.
const naming inner_names = [] {
  naming names = hf_names;
  for (const char* of_all : {"embedding", "final_norm", "lm_head", "layers"}) {
    names[of_all] = "language_model." + names[of_all];
  }
  return names;
}();

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.size(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
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

bool row_is_finite(const tensor_view& v) {
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

// Row by row where these are parts of longer ones.
bool all_finite(const tensor_view& v) {
  if (v.rank < 2 || v.row_stride == v.shape[1]) return row_is_finite(v);
  for (std::int64_t r = 0; r < v.rows(); ++r) {
    if (!row_is_finite(v.slice(r, 1))) return false;
  }
  return true;
}

class loader {
 public:
  loader(const model_config& config, const std::filesystem::path& directory)
      : config_(config),
        vision_(read_vision_config(directory, config.vocabulary)),
        source_(std::make_shared<checkpoint>(directory)),
        names_(choose()) {}

  model_weights load(bool check_values, const unread_use& use, const model_share& share) {
    model_weights w = collect_weights(
        config_, [&](const weight_name& name, std::initializer_list<std::int64_t> shape) {
          const std::size_t listed = scan_list_.size();
          const tensor_view whole = find(name, shape);
          if (!share.is_cut()) return whole;
          const tensor_view part = held_part(
              whole, cut_of(name, std::span(shape.begin(), shape.size()), config_, share));
          // Of a matrix of three tensors the parts of all are looked at.
          if (scan_list_.size() > listed) {
            scan_list_.back().second = part;
          } else if (!parts_of_.empty()) {
            scan_list_.push_back({source_->find(parts_of_), part});
          }
          return part;
        });
    w.held = share;
    if (!use.text_only) take_vision();
    w.unread = unread();
    refuse_unread(w.unread, use, source_->directory());
    if (check_values) scan();
    w.bytes = bytes_;
    w.memory.push_back(source_);
    return w;
  }

  loaded_vision load_vision() {
    loaded_vision v{take_vision(), source_};
    scan();
    return v;
  }

 private:
  static tensor_view held_part(tensor_view whole, const tensor_cut& held) {
    tensor_view part = whole.slice(held.rows.first, held.rows.size());
    if (part.rank < 2) return part;
    part.data = static_cast<std::byte*>(part.data) +
                static_cast<std::size_t>(held.columns.first) * size_of(part.type);
    part.shape[1] = held.columns.size();
    return part;
  }

  vision_weights take_vision() {
    if (!vision_.has_tower()) return {};
    return collect_vision_weights(
        vision_, config_.hidden,
        [&](const std::string& name, const std::vector<std::int64_t>& shape) {
          return take(name, shape);
        });
  }

  const naming& choose() const {
    for (const naming* names : {&llada_names, &hf_names, &ling_names, &inner_names}) {
      if (source_->find(names->at("embedding") + ".weight")) return *names;
    }
    throw environment_error(source_->directory() + ": no tensor " + llada_names.at("embedding") +
                            ".weight, " + hf_names.at("embedding") + ".weight or " +
                            ling_names.at("embedding") +
                            ".weight; the checkpoint is of an unknown family");
  }

  // Behind the last find().
  unread_parts unread() const {
    unread_parts parts = config_.unread;
    const unread_names names = {
        names_.at("layers"),
        config_.layers,
        config_.layers + config_.further_layers,
        {names_.at("embedding"), names_.at("final_norm"), names_.at("lm_head")}};
    const std::string head = names_.at("lm_head") + ".weight";
    for (const std::string& name : source_->names()) {
      if (taken_.contains(name) || (name == head && repeats_embedding(name))) continue;
      if (unused_by_tower(vision_, name)) continue;
      append_unread_tensor(name, names, parts);
    }
    parts.append({{}, source_->doubled(), {}});
    return parts;
  }

  // A head that the configuration ties to the embedding, written out with its values.
  bool repeats_embedding(const std::string& head) const {
    const checkpoint::located a = source_->find(head),
                              b = source_->find(names_.at("embedding") + ".weight");
    return a && b && a.entry->type == b.entry->type && a.entry->shape == b.entry->shape &&
           std::ranges::equal(a.bytes(), b.bytes());
  }

  std::string published(const weight_name& name) const {
    const std::string& what = name.what;
    if (what == "router_bias") return layer(name) + "mlp.gate.expert_bias";
    if (!name.part.empty()) {
      const std::string part = name.part == "shared." ? "shared_experts." : name.part;
      return layer(name) + "mlp." + part + what + "_proj.weight";
    }
    const bool bias = what.ends_with("_bias");
    const auto known = names_.find(std::string_view(what).substr(0, what.find("_bias")));
    return layer(name) + (known == names_.end() ? what : known->second) +
           (bias ? ".bias" : ".weight");
  }

  std::string layer(const weight_name& name) const {
    return name.layer < 0 ? "" : names_.at("layers") + std::to_string(name.layer) + ".";
  }

  tensor_view find(const weight_name& name, std::initializer_list<std::int64_t> shape) {
    const auto rows_of = std::string_view("qkv").find(name.what[0]);
    const bool fused = &names_ == &ling_names && rows_of != std::string_view::npos &&
                       (name.what.size() == 1 || name.what.ends_with("_bias"));
    parts_of_.clear();
    if (!fused) return take(published(name), shape);
    const std::int64_t q = std::int64_t{config_.heads} * config_.head_dim;
    const std::int64_t kv = std::int64_t{config_.kv_heads} * config_.head_dim;
    const std::int64_t all = q + 2 * kv, first[] = {0, q, q + kv};
    parts_of_ = published(name);
    const tensor_view whole = shape.size() == 1 ? take(published(name), {all})
                                                : take(published(name), {all, config_.hidden});
    return whole.slice(first[rows_of], *shape.begin());
  }

  tensor_view take(const std::string& name, const std::vector<std::int64_t>& wanted) {
    const checkpoint::located found = source_->find(name);
    if (!found) {
      throw environment_error(source_->directory() + ": tensor \"" + name +
                              "\" is missing, but config.json calls for it");
    }
    const tensor_view view = found.file->view(*found.entry);
    if (view.type == dtype::u8) {
      throw environment_error(found.file->path() + ": tensor \"" + name + "\" has the `dtype` " +
                              found.entry->type + "; weights must be F32, BF16 or F16");
    }
    if (found.entry->shape != wanted) {
      throw environment_error(found.file->path() + ": tensor \"" + name + "\" has the shape " +
                              shape_text(found.entry->shape) + ", but config.json makes it " +
                              shape_text(wanted));
    }
    if (taken_.insert(name).second) {
      bytes_ += found.entry->end - found.entry->begin;
      scan_list_.push_back({found, view});
    }
    return view;
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
  const vision_config vision_;
  std::shared_ptr<const checkpoint> source_;
  const naming& names_;
  std::unordered_set<std::string> taken_;
  std::string parts_of_;  // the matrix that the last tensor is a part of; empty: none
  std::vector<std::pair<checkpoint::located, tensor_view>> scan_list_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

model_weights load_weights(const model_config& config, const std::filesystem::path& directory,
                           bool check_values, const unread_use& use, const model_share& share) {
  return loader(config, directory).load(check_values, use, share);
}

loaded_vision load_vision_weights(const model_config& model,
                                  const std::filesystem::path& directory) {
  return loader(model, directory).load_vision();
}

}  // namespace unmask
