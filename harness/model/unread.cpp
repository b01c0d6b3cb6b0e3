// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/unread.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <limits>

#include <fmt/format.h>

#include "harness/base/error.h"

namespace unmask {
namespace {

constexpr std::size_t most_named = 4;

// Keys of published configurations that change no answer: of training, of how a library runs the model,
// and of what another key has said already.
constexpr std::string_view harmless_keys[] = {
    // transformers
    "_name_or_path", "architectures", "attention_dropout", "attn_implementation", "auto_map",
    "bos_token_id", "dtype", "hidden_dropout", "initializer_range", "max_window_layers",
    "model_type", "pad_token_id", "pretraining_tp", "sliding_window", "tokenizer_class",
    "torch_dtype", "transformers_version", "use_cache",
    // said by contradictions_of
    "quantization_config",
    // read for some values of another key alone
    "attention", "mask_token_id", "mlp_ratio", "multi_query_attention",
    // LLaDA
    "alibi_bias_max", "attention_layer_norm_with_affine", "embedding_dropout", "flash_attention",
    "flash_attn_varlen", "init_cutoff_factor", "init_device", "init_fn", "init_std", "precision",
    "residual_dropout", "rope_full_precision",
    // MMaDA: sizes of the parts of its vocabulary
    "codebook_size", "llm_vocab_size", "new_vocab_size", "num_new_special_tokens", "num_vq_tokens",
    // SDAR
    "debug", "ep_size", "fuse_cross_entropy", "micro_forward", "skip_checkpoint", "use_deepep",
    // experts
    "output_dropout", "output_router_logits", "router_aux_loss_coef", "router_dtype"};

// Keys that other families compute with, and what they are without effect at.
struct changing_key {
  std::string_view name;
  double neutral;
};
constexpr changing_key changing_keys[] = {
    {"attention_multiplier", -1}, {"attn_logit_softcapping", 0},  {"clip_qkv", 0},
    {"embedding_multiplier", 1},  {"final_logit_softcapping", 0}, {"logit_scale", 1},
    {"logits_scaling", 1},        {"query_pre_attn_scalar", -1},  {"residual_multiplier", 1}};

// Whether a name has one of these words at its beginning or behind a point or an underscore.
bool holds_any(std::string_view name, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
      if (at == 0 || name[at - 1] == '.' || name[at - 1] == '_') return true;
    }
    return false;
  });
}

bool says_nothing(const json_value& value) {
  if (value.is_null()) return true;
  if (const bool* flag = value.boolean()) return !*flag;
  if (const std::string* text = value.text()) return text->empty();
  if (const json_value::array* items = value.items()) return items->empty();
  if (const json_value::object* members = value.members()) return members->empty();
  return false;
}

bool is_number(const json_value& value, double wanted) {
  if (const std::int64_t* whole = value.integer()) return static_cast<double>(*whole) == wanted;
  const double* fraction = std::get_if<double>(&value.data);
  return fraction != nullptr && *fraction == wanted;
}

bool of_pictures(std::string_view key) {
  return key.starts_with("mm_") || key == "mrope_section" ||
         holds_any(key, {"vision", "image", "img", "video"});
}

// "A, B, C and 7 more"
std::string some_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most_named); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > most_named) text += fmt::format(" and {} more", names.size() - most_named);
  return text;
}

std::string counted(const std::vector<std::string>& names) {
  return fmt::format("{} {}", names.size(), names.size() == 1 ? "part" : "parts");
}

}  // namespace

void unread_parts::append(const unread_parts& more) {
  for (const auto list :
       {&unread_parts::pictures, &unread_parts::changing, &unread_parts::others}) {
    (this->*list).insert((this->*list).end(), (more.*list).begin(), (more.*list).end());
  }
}

unread_parts unread_keys(const json_value& config, const std::set<std::string>& asked) {
  unread_parts parts;
  for (const auto& [name, value] : *config.members()) {
    if (asked.contains(name) || says_nothing(value)) continue;
    if (std::ranges::find(harmless_keys, name) != std::end(harmless_keys)) continue;
    const std::string shown = fmt::format("`{}` of config.json", name.substr(0, 100));
    const auto known = std::ranges::find(changing_keys, name, &changing_key::name);
    if (of_pictures(name)) {
      parts.pictures.push_back(shown);
    } else if (known == std::end(changing_keys)) {
      parts.others.push_back(shown);
    } else if (!is_number(value, known->neutral)) {
      parts.changing.push_back(shown);
    }
  }
  for (const char* scaling : {"rope_scaling", "rope_parameters"}) {
    const json_value* inside = config.find(scaling);
    const json_value* section = inside == nullptr ? nullptr : inside->find("mrope_section");
    if (section != nullptr && !says_nothing(*section)) {
      parts.pictures.push_back(fmt::format("`{}.mrope_section` of config.json", scaling));
    }
  }
  return parts;
}

void append_unread_tensor(const std::string& name, const unread_names& of, unread_parts& parts) {
  if (name.ends_with("inv_freq") || holds_any(name, {"rotary_emb."})) return;
  if (name.starts_with(of.layers)) {
    std::int32_t layer = std::numeric_limits<std::int32_t>::max();
    std::from_chars(name.data() + of.layers.size(), name.data() + name.size(), layer);
    const bool further = layer >= of.first_other && layer < of.last_other;
    (further ? parts.others : parts.changing).push_back(name);
  } else if (holds_any(name, {"vision", "visual", "image", "img", "mm_projector", "multi_modal"})) {
    parts.pictures.push_back(name);
  } else if (std::ranges::any_of(of.tables, [&](const std::string& table) {
               return name == table || name.starts_with(table + ".");
             })) {
    parts.changing.push_back(name);
  } else {
    parts.others.push_back(name);
  }
}

std::string caution_of(const unread_parts& parts) {
  std::string all;
  const auto say = [&](const std::vector<std::string>& names, const char* what) {
    if (names.empty()) return;
    all += fmt::format("{}{} {} {} not read: {}", all.empty() ? "" : "; ", counted(names), what,
                       names.size() == 1 ? "is" : "are", some_of(names));
  };
  say(parts.changing, "that would change answers");
  say(parts.pictures, "of a picture tower");
  say(parts.others, "of the checkpoint");
  return all;
}

void refuse_unread(const unread_parts& parts, const unread_use& use, const std::string& where) {
  if (!parts.changing.empty() && !use.accepted) {
    throw environment_error(
        fmt::format("{}: holds {} that would change answers and that nothing reads: {}; mend the "
                    "checkpoint, or "
                    "take it without them: `unread = \"accept\"` of [[model]], or --unread accept",
                    where, counted(parts.changing), some_of(parts.changing)));
  }
  if (!parts.pictures.empty() && !use.text_only) {
    throw environment_error(fmt::format(
        "{}: holds {} of a picture tower that nothing reads: {}; to ask it about text alone: "
        "`pictures = \"off\"` of [[model]], or --pictures off",
        where, counted(parts.pictures), some_of(parts.pictures)));
  }
}

}  // namespace unmask
