// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/tokenizer.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/base/unicode.h"
#include "harness/model/tokenizer_parts.h"

namespace unmask {
namespace {

constexpr std::size_t tokenizer_limit = 256 << 20;

std::string read_text(const std::filesystem::path& path) {
  std::string text = read_file(path, tokenizer_limit);
  refuse_lfs_pointer(text, path.string());
  return text;
}

std::string read_if_present(const std::filesystem::path& path) {
  return is_there(path) ? read_text(path) : std::string();
}

void encode_plain(const tokenizer_parts& parts, std::string_view text,
                  std::vector<std::int32_t>& out) {
  for (const std::string& piece : parts.pieces.split(text)) parts.model.encode(piece, out);
}

// Cut the added tokens out of text; plain gets what lies between, in order.
template <class Plain>
void cut_added(const tokenizer_parts& parts, const added_token_matcher& matcher,
               std::string_view text, bool parse_special, std::vector<std::int32_t>& out,
               const Plain& plain) {
  std::size_t done = 0;
  while (done < text.size()) {
    const auto found = matcher.next(text, done, parse_special);
    if (found.begin == std::string_view::npos) break;
    const added_token& token = parts.added[found.index];
    std::string_view before = text.substr(done, found.begin - done);
    if (token.strip_left) before.remove_suffix(trailing_space(before));
    plain(before);
    out.push_back(token.id);
    done = found.end;
    if (token.strip_right) done += leading_space(text.substr(done));
  }
  plain(text.substr(done));
}

}  // namespace

tokenizer tokenizer::load(const std::filesystem::path& directory) {
  const std::string config = read_if_present(directory / "tokenizer_config.json");
  if (is_there(directory / "tokenizer.json")) {
    return parse(read_file(directory / "tokenizer.json", tokenizer_limit), config,
                 directory.string());
  }
  if (!std::filesystem::exists(directory / "vocab.json")) {
    throw environment_error(directory.string() +
                            ": holds neither tokenizer.json nor vocab.json and merges.txt");
  }
  return parse_vocabulary(
      read_file(directory / "vocab.json", tokenizer_limit), read_text(directory / "merges.txt"),
      read_if_present(directory / "added_tokens.json"), config, directory.string());
}

tokenizer tokenizer::parse(std::string_view tokenizer_json, std::string_view config,
                           const std::string& directory) {
  return tokenizer(std::make_shared<const tokenizer_parts>(
      read_tokenizer_json(tokenizer_json, config, directory)));
}

tokenizer tokenizer::parse_vocabulary(std::string_view vocab_json, std::string_view merges_txt,
                                      std::string_view added_tokens_json, std::string_view config,
                                      const std::string& directory) {
  return tokenizer(std::make_shared<const tokenizer_parts>(
      read_vocabulary(vocab_json, merges_txt, added_tokens_json, config, directory)));
}

std::vector<std::int32_t> tokenizer::encode(std::string_view text, bool parse_special) const {
  const std::string valid = repair_utf8(text);
  const tokenizer_parts& parts = *parts_;
  std::vector<std::int32_t> ids;
  cut_added(parts, parts.raw, valid, parse_special, ids, [&](std::string_view plain) {
    if (plain.empty()) return;
    const std::string composed = parts.nfc ? normalize_nfc(plain) : std::string(plain);
    cut_added(parts, parts.normalized, composed, parse_special, ids,
              [&](std::string_view rest) { encode_plain(parts, rest, ids); });
  });
  return ids;
}

std::vector<std::int32_t> tokenizer::encode_raw(std::string_view text) const {
  std::vector<std::int32_t> ids = parts_->before;
  const std::vector<std::int32_t> inner = encode(text);
  ids.insert(ids.end(), inner.begin(), inner.end());
  ids.insert(ids.end(), parts_->after.begin(), parts_->after.end());
  return ids;
}

std::string tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    const auto added = parts_->added_by_id.find(id);
    if (added != parts_->added_by_id.end()) {
      const added_token& token = parts_->added[added->second];
      if (skip_special && token.special) continue;
      // As every other token: the decoder reads it in the byte alphabet where it can.
      bytes += from_byte_alphabet(token.text).value_or(token.text);
    } else if (const std::string* token = parts_->model.bytes(id)) {
      bytes += *token;
    }
  }
  return repair_utf8(bytes);
}

std::int32_t tokenizer::token_id(std::string_view token) const {
  for (const added_token& added : parts_->added) {
    if (added.text == token) return added.id;
  }
  return parts_->model.find(token);
}

std::int32_t tokenizer::vocabulary_size() const {
  std::int32_t size = parts_->model.size();
  for (const added_token& added : parts_->added) size = std::max(size, added.id + 1);
  return size;
}

encoded_pair encode_pair(const tokenizer& tokens, std::string_view context,
                         std::string_view continuation, const std::string& bos, std::int32_t eos) {
  const std::string_view words = rstrip(context);
  const std::string before = bos + std::string(words);
  const std::string all =
      before + std::string(context.substr(words.size())) + std::string(continuation);
  encoded_pair pair;
  pair.context = tokens.encode(before);
  pair.continuation = tokens.encode(all);
  pair.continuation.erase(
      pair.continuation.begin(),
      pair.continuation.begin() +
          static_cast<std::ptrdiff_t>(std::min(pair.context.size(), pair.continuation.size())));
  if (eos >= 0) pair.continuation.push_back(eos);
  return pair;
}

}  // namespace unmask
