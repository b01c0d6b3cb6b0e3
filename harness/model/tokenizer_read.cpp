// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// tokenizer.json (the subset that byte-level BPE models use) and its older form, vocab.json with
// merges.txt.
#include <algorithm>
#include <charconv>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/unicode.h"
#include "harness/model/tokenizer_parts.h"

namespace unmask {
namespace {

constexpr std::int64_t max_id = (1 << 24) - 1;

std::string in(const std::string& directory, const char* file) {
  return directory.empty() ? file : directory + "/" + file;
}

std::string shown(std::string_view text) {
  return "\"" + std::string(text.substr(0, 100)) + "\"";
}

// ---- vocabulary and merges ----------------------------------------------------------------------

void read_vocabulary_object(const json_value& vocab, const std::string& file, bpe& model) {
  if (vocab.members() == nullptr) {
    throw environment_error(file + ": the vocabulary must be an object of ids by token");
  }
  for (const auto& [text, value] : *vocab.members()) {
    const std::int64_t* id = value.integer();
    if (id == nullptr || *id < 0 || *id > max_id) {
      throw environment_error(file + ": the vocabulary gives " + shown(text) +
                              " no id between 0 and " + std::to_string(max_id));
    }
    if (!model.add_token(text, static_cast<std::int32_t>(*id))) {
      throw environment_error(file + ": the vocabulary gives the id " + std::to_string(*id) +
                              " of " + shown(text) + " to two tokens");
    }
  }
}

void add_merge(bpe& model, std::string_view left, std::string_view right, const std::string& file,
               std::size_t number) {
  if (!model.add_merge(left, right)) {
    throw environment_error(file + ": merge " + std::to_string(number) + " (" + shown(left) +
                            " and " + shown(right) + ") needs a token that is not in the " +
                            "vocabulary");
  }
}

void add_merge_line(bpe& model, std::string_view line, const std::string& file,
                    std::size_t number) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    throw environment_error(file + ": merge " + std::to_string(number) + " (" + shown(line) +
                            ") must be two tokens with one space between");
  }
  add_merge(model, line.substr(0, space), line.substr(space + 1), file, number);
}

void read_model(const json_reader& model, bpe& out) {
  const std::string type = model.text_or("type", "BPE");
  if (type != "BPE") model.fail("type", "is " + shown(type) + "; only \"BPE\" is supported");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.text_or(key, "").empty()) model.fail(key, "is not supported; it must be empty");
  }
  if (model.number_or("dropout", 0, 1, 0) != 0) {
    model.fail("dropout", "is not supported; it must be 0 or null");
  }
  if (model.flag_or("byte_fallback", false)) {
    model.fail("byte_fallback", "is true; only byte-level BPE, which needs none, is supported");
  }
  read_vocabulary_object(model.at("vocab"), model.file(), out);
  out.set_ignore_merges(model.flag_or("ignore_merges", false));
  if (model.given("unk_token")) {
    const std::string unknown = model.text("unk_token");
    const std::int32_t id = out.find(unknown);
    if (id < 0) model.fail("unk_token", "is " + shown(unknown) + ", which has no id");
    out.set_unknown(id, model.flag_or("fuse_unk", false));
  }
  const json_value::array* merges = model.at("merges").items();
  if (merges == nullptr) model.fail("merges", "must be an array");
  std::size_t number = 0;
  for (const json_value& item : *merges) {
    ++number;
    const json_value::array* pair = item.items();
    if (item.text() != nullptr) {
      add_merge_line(out, *item.text(), model.file(), number);
    } else if (pair != nullptr && pair->size() == 2 && (*pair)[0].text() != nullptr &&
               (*pair)[1].text() != nullptr) {
      add_merge(out, *(*pair)[0].text(), *(*pair)[1].text(), model.file(), number);
    } else {
      model.fail("merges", "must hold texts \"a b\" or pairs; number " + std::to_string(number) +
                               " is neither");
    }
  }
}

// ---- normaliser, pre-tokenizer, decoder ---------------------------------------------------------

[[noreturn]] void refuse(const json_reader& component, const std::string& type,
                         const char* supported) {
  component.fail("type",
                 "is " + shown(type) + ", which is not supported; supported are " + supported);
}

// Calls visit(child) for each member of a Sequence's array.
template <class Visit>
void for_each_child(const json_reader& sequence, const char* key, const Visit& visit) {
  const json_value::array* items = sequence.at(key).items();
  if (items == nullptr) sequence.fail(key, "must be an array");
  for (std::size_t i = 0; i < items->size(); ++i) {
    visit(json_reader((*items)[i], sequence.file(),
                      sequence.name_of(key) + "[" + std::to_string(i) + "]"));
  }
}

void read_normalizer(const json_reader& component, tokenizer_parts& parts) {
  const std::string type = component.text("type");
  if (type == "NFC") {
    parts.nfc = true;
  } else if (type == "Sequence") {
    for_each_child(component, "normalizers",
                   [&](const json_reader& child) { read_normalizer(child, parts); });
  } else {
    refuse(component, type, "NFC and Sequence");
  }
}

void add_split(const json_reader& component, const char* key, const std::string& pattern,
               pretokenizer::behavior behavior, bool invert, tokenizer_parts& parts) {
  try {
    parts.pieces.add_split(pattern, behavior, invert);
  } catch (const error& problem) {
    component.fail(key, std::string("is not usable: ") + problem.what());
  }
}

void read_split(const json_reader& component, tokenizer_parts& parts) {
  const json_reader pattern = component.child("pattern");
  const std::string expression =
      pattern.given("Regex") ? pattern.text("Regex") : regex_escape(pattern.text("String"));
  const std::string name = component.text_or("behavior", "Isolated");
  if (name != "Isolated" && name != "Removed") {
    component.fail("behavior",
                   "is " + shown(name) + "; only \"Isolated\" and \"Removed\" are supported");
  }
  add_split(component, "pattern", expression,
            name == "Isolated" ? pretokenizer::behavior::isolated : pretokenizer::behavior::removed,
            component.flag_or("invert", false), parts);
}

// Returns true when the component, or one inside it, is ByteLevel.
bool read_pretokenizer(const json_reader& component, tokenizer_parts& parts) {
  const std::string type = component.text("type");
  constexpr auto isolated = pretokenizer::behavior::isolated;
  if (type == "Sequence") {
    bool byte_level = false;
    for_each_child(component, "pretokenizers", [&](const json_reader& child) {
      if (byte_level) {
        child.fail("type", "stands after ByteLevel, which must come last");
      }
      byte_level = read_pretokenizer(child, parts);
    });
    return byte_level;
  }
  if (type == "ByteLevel") {
    if (component.flag_or("add_prefix_space", true)) parts.pieces.add_prefix_space();
    if (component.flag_or("use_regex", true)) parts.pieces.add_split(gpt2_pattern, isolated, false);
    return true;
  }
  if (type == "Split") {
    read_split(component, parts);
  } else if (type == "Digits") {
    const bool each = component.flag_or("individual_digits", false);
    parts.pieces.add_split(each ? R"(\p{N})" : R"(\p{N}+)", isolated, false);
  } else {
    refuse(component, type, "ByteLevel, Split, Digits and Sequence");
  }
  return false;
}

void read_decoder(const json_reader& component) {
  const std::string type = component.text("type");
  if (type == "Sequence") {
    for_each_child(component, "decoders", [](const json_reader& child) { read_decoder(child); });
  } else if (type != "ByteLevel") {
    refuse(component, type, "ByteLevel and Sequence");
  }
}

// ---- post-processor -----------------------------------------------------------------------------

// "cls" and "sep" of BertProcessing and RobertaProcessing: ["<s>", 0].
std::int32_t id_of_pair(const json_reader& component, const char* key) {
  const json_value::array* pair = component.at(key).items();
  const std::int64_t* id = pair != nullptr && pair->size() == 2 ? (*pair)[1].integer() : nullptr;
  if (id == nullptr || *id < 0 || *id > max_id) component.fail(key, "must be a token and its id");
  return static_cast<std::int32_t>(*id);
}

// The ids of {"SpecialToken": {"id": NAME}}: those of `special_tokens`.
std::vector<std::int32_t> template_ids(const json_reader& component, const std::string& name) {
  std::vector<std::int32_t> ids;
  const json_reader token = component.child("special_tokens").child(name);
  const json_value::array* list = token.at("ids").items();
  if (list == nullptr) token.fail("ids", "must be an array of token ids");
  for (const json_value& item : *list) {
    const std::int64_t* id = item.integer();
    if (id == nullptr || *id < 0 || *id > max_id) token.fail("ids", "holds no token id");
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  return ids;
}

// Puts ids around those that are there: a Sequence works from the inside out.
void put_around(const std::vector<std::int32_t>& before, const std::vector<std::int32_t>& after,
                tokenizer_parts& parts) {
  parts.before.insert(parts.before.begin(), before.begin(), before.end());
  parts.after.insert(parts.after.end(), after.begin(), after.end());
}

// True when the component, or one inside it, adds tokens. tokenizers lets one of a Sequence do so.
bool read_postprocessor(const json_reader& component, tokenizer_parts& parts) {
  const std::string type = component.text("type");
  if (type == "Sequence") {
    bool adds = false;
    for_each_child(component, "processors", [&](const json_reader& child) {
      const bool this_adds = read_postprocessor(child, parts);
      if (adds && this_adds) {
        child.fail("type", "is the second component of a Sequence that adds tokens; one may");
      }
      adds = adds || this_adds;
    });
    return adds;
  }
  if (type == "ByteLevel") return false;  // which only moves offsets
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    put_around({id_of_pair(component, "cls")}, {id_of_pair(component, "sep")}, parts);
  } else if (type == "TemplateProcessing") {
    std::vector<std::int32_t> before, after;
    bool behind = false;
    for_each_child(component, "single", [&](const json_reader& piece) {
      if (piece.given("Sequence")) {
        if (behind) piece.fail("Sequence", "stands twice in the template of one text");
        behind = true;
        return;
      }
      const auto ids = template_ids(component, piece.child("SpecialToken").text("id"));
      auto& side = behind ? after : before;
      side.insert(side.end(), ids.begin(), ids.end());
    });
    put_around(before, after, parts);
    return !before.empty() || !after.empty();
  } else {
    refuse(component, type,
           "ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing and Sequence");
  }
  return true;
}

// ---- added tokens -------------------------------------------------------------------------------

// Adds unless the id or the text is taken already (the first list read wins).
void add_token(tokenizer_parts& parts, added_token token, const json_reader& where,
               std::string_view key) {
  if (token.text.empty()) where.fail(key, "is an added token without text");
  const std::int32_t in_vocabulary = parts.model.find(token.text);
  if (in_vocabulary >= 0 && in_vocabulary != token.id) {
    where.fail(key, "gives " + shown(token.text) + " the id " + std::to_string(token.id) +
                        ", but the vocabulary gives it " + std::to_string(in_vocabulary));
  }
  if (parts.added_by_id.contains(token.id)) return;
  for (const added_token& other : parts.added) {
    if (other.text == token.text) return;
  }
  parts.added_by_id.emplace(token.id, parts.added.size());
  const bool composed = token.normalized && parts.nfc;
  (token.normalized ? parts.normalized : parts.raw)
      .add(composed ? normalize_nfc(token.text) : token.text, parts.added.size(), token.special);
  parts.added.push_back(std::move(token));
}

added_token read_added(const json_reader& item, std::int64_t id) {
  if (item.flag_or("single_word", false)) {
    item.fail("single_word", "is true, which is not supported");
  }
  added_token token;
  token.text = item.text("content");
  token.id = static_cast<std::int32_t>(id);
  token.special = item.flag_or("special", false);
  token.strip_left = item.flag_or("lstrip", false);
  token.strip_right = item.flag_or("rstrip", false);
  token.normalized = item.flag_or("normalized", false);
  return token;
}

// Tokens that tokenizer_config.json gives a special role. transformers counts them as special
// whatever their own flag says: SDAR's <|MASK|> has "special": false. A token of
// additional_special_tokens keeps its flag.
using token_names = std::vector<std::string>;

token_names special_names(const json_reader& config) {
  token_names names;
  const auto append = [&](const json_value& value) {
    const json_value* content = value.members() != nullptr ? value.find("content") : &value;
    if (content != nullptr && content->text() != nullptr) names.push_back(*content->text());
  };
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                          "cls_token", "mask_token"}) {
    if (config.given(key)) append(config.at(key));
  }
  // An object of a model's own roles: {"image_token": "<image>"}.
  const json_value* own = config.find("extra_special_tokens");
  if (own != nullptr && own->members() != nullptr) {
    for (const auto& [role, token] : *own->members()) append(token);
  }
  return names;
}

added_token with_role(added_token token, const token_names& special) {
  token.special = token.special || std::ranges::find(special, token.text) != special.end();
  return token;
}

void read_added_list(const json_reader& root, const token_names& special, tokenizer_parts& parts) {
  if (!root.given("added_tokens")) return;
  for_each_child(root, "added_tokens", [&](const json_reader& item) {
    const std::int64_t id = item.integer("id", 0, max_id);
    add_token(parts, with_role(read_added(item, id), special), item, "id");
  });
}

// added_tokens_decoder of tokenizer_config.json: {"151643": {"content": ...}, ...}.
void read_added_decoder(const json_reader& config, tokenizer_parts& parts) {
  if (!config.given("added_tokens_decoder")) return;
  const json_reader decoder = config.child("added_tokens_decoder");
  std::vector<std::pair<std::int64_t, const std::string*>> order;
  for (const auto& member : *config.at("added_tokens_decoder").members()) {
    std::int64_t id = -1;
    const char* end = member.first.data() + member.first.size();
    const auto [stop, problem] = std::from_chars(member.first.data(), end, id);
    if (problem != std::errc() || stop != end || id < 0 || id > max_id) {
      decoder.fail(member.first, "is not a token id");
    }
    order.emplace_back(id, &member.first);
  }
  std::sort(order.begin(), order.end());
  const token_names special = special_names(config);
  for (const auto& [id, key] : order) {
    add_token(parts, with_role(read_added(decoder.child(*key), id), special), decoder, *key);
  }
}

// added_tokens.json: {"<|im_end|>": 151645, ...}.
void read_added_map(const json_value& root, const std::string& file, tokenizer_parts& parts) {
  const json_reader map(root, file);
  for (const auto& member : *root.members()) {
    added_token token;
    token.text = member.first;
    token.id = static_cast<std::int32_t>(map.integer(member.first, 0, max_id));
    token.special = true;
    add_token(parts, std::move(token), map, member.first);
  }
}

json_value parse_or_empty(std::string_view text, const std::string& file) {
  return text.empty() ? json_value{json_value::object{}} : parse_python_json(text, file);
}

}  // namespace

tokenizer_parts read_tokenizer_json(std::string_view text, std::string_view config_text,
                                    const std::string& directory) {
  const std::string file = in(directory, "tokenizer.json");
  const json_value root_value = parse_json(text, file);
  const json_reader root(root_value, file);
  tokenizer_parts parts;
  read_model(root.child("model"), parts.model);
  if (root.given("normalizer")) read_normalizer(root.child("normalizer"), parts);
  if (!root.given("pre_tokenizer") || !read_pretokenizer(root.child("pre_tokenizer"), parts)) {
    root.fail("pre_tokenizer", "has no ByteLevel component; only byte-level BPE is supported");
  }
  if (root.given("decoder")) read_decoder(root.child("decoder"));
  if (root.given("post_processor")) read_postprocessor(root.child("post_processor"), parts);
  const std::string config_file = in(directory, "tokenizer_config.json");
  const json_value config_value = parse_or_empty(config_text, config_file);
  const json_reader config(config_value, config_file);
  read_added_list(root, special_names(config), parts);
  read_added_decoder(config, parts);
  return parts;
}

tokenizer_parts read_vocabulary(std::string_view vocab, std::string_view merges,
                                std::string_view added, std::string_view config_text,
                                const std::string& directory) {
  const std::string config_file = in(directory, "tokenizer_config.json");
  const json_value config_value = parse_or_empty(config_text, config_file);
  const json_reader config(config_value, config_file);
  tokenizer_parts parts;
  const std::string vocab_file = in(directory, "vocab.json");
  read_vocabulary_object(parse_json(vocab, vocab_file), vocab_file, parts.model);

  const std::string merges_file = in(directory, "merges.txt");
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', begin), merges.size());
    std::string_view line = merges.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !(begin == 0 && line.starts_with("#version"))) {
      add_merge_line(parts.model, line, merges_file, ++number);
    }
    begin = end + 1;
  }

  // These files carry no pre-tokenizer; the class name in tokenizer_config.json stands for it.
  const std::string kind = config.text_or("tokenizer_class", "GPT2Tokenizer");
  constexpr auto isolated = pretokenizer::behavior::isolated;
  if (kind.starts_with("Qwen2Tokenizer") || kind.starts_with("DreamTokenizer")) {
    parts.nfc = true;
    parts.pieces.add_split(qwen2_pattern, isolated, false);
  } else if (kind.starts_with("GPT2Tokenizer")) {
    if (config.flag_or("add_prefix_space", false)) parts.pieces.add_prefix_space();
    parts.pieces.add_split(gpt2_pattern, isolated, false);
  } else {
    config.fail("tokenizer_class", "is " + shown(kind) +
                                       "; without tokenizer.json only Qwen2Tokenizer, " +
                                       "DreamTokenizer and GPT2Tokenizer are known");
  }
  // tokenizer_config.json is the newer of the two lists, so its spelling of an id wins.
  read_added_decoder(config, parts);
  const std::string added_file = in(directory, "added_tokens.json");
  const json_value added_value = parse_or_empty(added, added_file);
  read_added_map(added_value, added_file, parts);
  return parts;
}

}  // namespace unmask
