// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A model family as data: everything the forward and the decoders need to know, read from the
// checkpoint's config.json (and generation_config.json). No family has a code path of its own.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/unread.h"
#include "kernels/backend.h"
#include "kernels/model_core.h"

namespace unmask {

enum class model_family : std::uint8_t { llada, dream, sdar, qwen3, llada2_moe, llama, qwen2 };
const char* name_of(model_family family);

// Tokens <|im_start|> that a chat opens with where the model was trained to keep its attention sink
// there: a whole block, so that block-causal attention leaves the first token what a causal one
// makes of it.
constexpr std::int32_t sink_length = 16;

struct moe_config {
  std::int32_t experts = 0;  // 0: every layer is dense
  std::int32_t experts_per_token = 0;
  std::int32_t groups = 1;
  std::int32_t groups_kept = 1;
  std::int32_t hidden = 0;          // of one routed expert
  std::int32_t shared_experts = 0;  // width of the shared expert = hidden * shared_experts
  std::int32_t first_dense_layers = 0;
  float scaling = 1.0F;
  bool sigmoid = true;
  bool normalize = true;
  bool expert_bias = false;
};

struct model_config {
  model_family family = model_family::llada;
  std::string name;  // directory name of the checkpoint
  // What is doubtful about the checkpoint whatever decodes it (caution_of, contradictions_of); empty:
  // nothing is known.
  std::string caution;
  // "LLaDA2.1" or "LLaDA2.2" where something beside config.json says so, and what did (release_of).
  std::string release, told_by;

  std::int32_t layers = 0;
  std::int32_t hidden = 0;  // D
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t feed_forward = 0;  // F of a dense layer
  std::int32_t vocabulary = 0;    // V
  std::int32_t max_positions = 0;
  float norm_eps = 1e-6F;
  rope_params rope;
  // M-RoPE: pairs of a head that turn by frame, row and column of a picture; all 0: by the position.
  std::array<std::int32_t, 3> axes = {};
  bool qkv_bias = false;
  bool qk_norm = false;
  bool tied_embeddings = false;
  moe_config moe;

  mask_kind attention = mask_kind::full;  // full: bidirectional
  std::int32_t block = 0;                 // trained block length of block_causal models
  bool shifted_logits = false;            // row i predicts position i + 1 (Dream, autoregressive)
  std::int32_t sink_tokens = 0;           // that its chat template puts before a prompt

  std::int32_t mask_id = -1;           // -1: the model has no mask token (autoregressive)
  std::int32_t eos_id = -1;            // first EOS; also pads
  std::vector<std::int32_t> stop_ids;  // all ids that end an answer, eos_id among them

  unread_parts unread;              // keys of config.json that nothing reads
  std::int32_t further_layers = 0;  // behind `layers`; they predict further tokens and are not read

  std::int64_t parameters() const;  // count of all weights
};

// Read directory/config.json (+ generation_config.json when present). Unknown architectures,
// missing or contradictory keys are environment errors that name the file and the key.
model_config read_model_config(const std::filesystem::path& directory);

// read_model_config on texts in memory; generation may be empty (no such file). directory stands
// before the file names in messages and its last component becomes model_config::name. tokenizer_mask:
// the id of the tokenizer's mask token, for families whose config.json does not give it; -1: none.
model_config parse_model_config(std::string_view config, std::string_view generation,
                                const std::string& directory, std::int32_t tokenizer_mask = -1);

}  // namespace unmask
