// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/published_decoding.h"

#include <stdexcept>

#include <fmt/format.h>

namespace unmask {
namespace {

using enum model_family;

// Rows with a release come before the row of their family.
constexpr published_decoding all_decodings[] = {
    {"LLaDA-V", llada, mask_kind::full, "LLaDA-V", "vanilla", "llada-v", "block_length=128",
     "LLaDA-V modeling_llada.py, generate_with_embeds", ""},
    {"MMaDA", llada, mask_kind::full, "MMaDA", "vanilla", "", "block_length=128 tokens_per_step=2",
     "MMaDA inference_mmu.py", ""},
    {"LLaDA", llada, mask_kind::full, "", "vanilla", "", "", "LLaDA generate.py", ""},
    {"Dimple", dream, mask_kind::full, "Dimple", "vanilla", "dimple", "",
     "ReadMe of yu-rp/Dimple, confident decoding", ""},
    {"Dream", dream, mask_kind::full, "", "vanilla", "dream-instruct", "",
     "model card of Dream-org/Dream-v0-Instruct-7B", ""},
    {"SDAR-VL", sdar, mask_kind::block_causal, "SDAR-VL", "block_diffusion", "hf", "",
     "SDAR-VL generate.py", ""},
    {"SDAR", sdar, mask_kind::block_causal, "", "block_diffusion", "hf", "", "SDAR generate.py",
     ""},
    {"LLaDA2.2", llada2_moe, mask_kind::block_causal, "LLaDA2.2", "llada21", "speed", "",
     "LLaDA2.2-flash's model card, as others quote it", "deletions and insertions"},
    {"LLaDA2.1", llada2_moe, mask_kind::block_causal, "LLaDA2.1", "llada21", "quality", "",
     "model card of inclusionAI/LLaDA2.1-mini, Quality Mode; preset speed: its Speed Mode", ""},
    {"LLaDA2.0", llada2_moe, mask_kind::block_causal, "", "llada2", "", "",
     "modeling_llada2_moe.py, generate", ""},
    {"Fast-dLLM v2", qwen2, mask_kind::block_causal, "", "fast_dllm_v2", "hf", "",
     "Fast_dLLM_v2 modeling.py, generate; preset eval: its scripts' fast setting", ""},
    {"A2D (MDLM)", qwen3, mask_kind::full, "", "vanilla", "", "block_length=32",
     "ZHZisZZ/dllm, dllm/pipelines/a2d/eval.py", ""},
    {"A2D (BD3LM)", qwen3, mask_kind::block_causal, "", "block_diffusion", "", "",
     "none: the settings are this program's", ""},
    {"Llama trained on into block diffusion", llama, mask_kind::block_causal, "", "block_diffusion",
     "", "", "none: the settings are this program's", ""},
    {"Qwen3", qwen3, mask_kind::causal, "", "autoregressive", "", "", "greedy decoding", ""},
    {"Llama", llama, mask_kind::causal, "", "autoregressive", "", "", "greedy decoding", ""},
    {"Ling 2.0", llada2_moe, mask_kind::causal, "", "autoregressive", "", "", "greedy decoding",
     ""},
};

}  // namespace

std::span<const published_decoding> published_decodings() {
  return all_decodings;
}

const published_decoding& decoding_of(const model_config& model) {
  for (const published_decoding& row : all_decodings) {
    if (row.family == model.family && row.attention == model.attention &&
        row.release == model.release) {
      return row;
    }
  }
  throw std::logic_error("no published decoding is listed for " + model.name);
}

std::string describe(const published_decoding& decoding) {
  std::string text = decoding.method;
  if (*decoding.preset != 0) text += fmt::format(" --preset {}", decoding.preset);
  if (*decoding.settings != 0) text += fmt::format(" with {}", decoding.settings);
  text += fmt::format(" ({})", decoding.source);
  if (*decoding.missing != 0) text += fmt::format("; no method here does its {}", decoding.missing);
  return text;
}

std::string departure_of(const model_config& model, const std::string& method) {
  if (model.release.empty() || model.family != llada2_moe) return {};
  const published_decoding& own = decoding_of(model);
  if (method != own.method) {
    return fmt::format(
        "{} is published with token editing ({}; {}), which {} does and {} does not: neither its "
        "quality nor its speed is the published one",
        model.name, model.release, model.told_by, own.method, method);
  }
  if (*own.missing == 0) return {};
  return fmt::format("{} is published with {} ({}; {}), which no method here does", model.name,
                     own.missing, model.release, model.told_by);
}

}  // namespace unmask
