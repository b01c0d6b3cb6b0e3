// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// fixtures/tokenizer.json is a small byte-level BPE; fixtures/tokenizer_cases.json holds variants
// of it (as merge patches) with ids and texts computed by Hugging Face's tokenizers 0.23.3.
#include "harness/model/tokenizer.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/harness/model/support.h"

namespace unmask {
namespace {

using nlohmann::json;
using test::expect_environment_error;
namespace fs = std::filesystem;
using ids = std::vector<std::int32_t>;

json base() {
  return json::parse(test::text_of(test::fixtures() / "tokenizer.json"));
}

tokenizer parse(const json& j, const std::string& config = "") {
  return tokenizer::parse(j.dump(), config, "models/some");
}

TEST(tokenizer, equals_hugging_face_on_every_variant) {
  std::size_t count = 0;
  for (const json& variant :
       json::parse(test::text_of(test::fixtures() / "tokenizer_cases.json"))) {
    SCOPED_TRACE(variant["name"]);
    json full = base();
    full.merge_patch(variant["patch"]);
    const tokenizer t = parse(full);
    for (const json& item : variant["cases"]) {
      const std::string text = item["text"];
      SCOPED_TRACE(text);
      const ids want = item["ids"];
      EXPECT_EQ(t.encode(text), want);
      EXPECT_EQ(t.encode(text, false), item.value("plain_ids", want));
      if (item.contains("decoded")) {
        EXPECT_EQ(t.decode(want, false), item["decoded"]);
        EXPECT_EQ(t.decode(want, true), item["decoded_plain"]);
      }
      ++count;
    }
  }
  EXPECT_EQ(count, 221U);
}

TEST(tokenizer, look_ups) {
  const tokenizer t = parse(base());
  EXPECT_EQ(t.vocabulary_size(), 334);
  EXPECT_EQ(t.token_id("<|end|>"), 330);
  EXPECT_EQ(t.token_id("Ġ"), 220);
  EXPECT_EQ(t.token_id(" "), -1);  // not in the byte alphabet
  EXPECT_EQ(t.token_id("absent token"), -1);
  EXPECT_EQ(t.decode(ids{-5, 330, 99999, 283}, false), "<|end|>hello");
}

TEST(tokenizer, malformed_utf8_becomes_the_replacement_character) {
  const tokenizer t = parse(base());
  const ids replacement = t.encode("\xEF\xBF\xBD");
  for (const std::string bad : {"\xFF", "\xC3", "\xE6\x97", "\xF0\x9F\x98", "\x80"}) {
    EXPECT_EQ(t.encode(bad), replacement);
  }
  EXPECT_EQ(t.encode("\xED\xA0\x80").size(), 3 * replacement.size());  // a surrogate: three parts
  const std::string text("a\0b\xFFz", 5);
  EXPECT_EQ(t.decode(t.encode(text), false), std::string("a\0b", 3) + "\xEF\xBF\xBDz");
  // Half a character, as a decoder sees it in the middle of a generation.
  const ids half = {t.token_id("æ")};
  EXPECT_EQ(t.decode(half, false), "\xEF\xBF\xBD");
}

TEST(tokenizer, merges_may_be_pairs) {
  json pairs = base();
  json texts = base();
  const json small = base();
  for (std::size_t i = 0; i < small["model"]["merges"].size(); ++i) {
    const json& merge = small["model"]["merges"][i];
    if (merge.is_array()) {
      texts["model"]["merges"][i] = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
    } else {
      const std::string text = merge;
      pairs["model"]["merges"][i] = {text.substr(0, text.find(' ')),
                                     text.substr(text.find(' ') + 1)};
    }
  }
  const std::string text = "the cat sat on the mat, hello there";
  EXPECT_EQ(parse(pairs).encode(text), parse(texts).encode(text));
}

TEST(tokenizer, long_pieces_are_not_quadratic) {
  const tokenizer t = parse(base());
  const std::string text(2'000'000, 'a');
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(t.decode(t.encode(text), false), text);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

// Every component and setting that is not supported is refused with file, key and name.
TEST(tokenizer, unknown_components_are_named) {
  const auto refused = [](const json& patch, std::vector<std::string> parts) {
    json j = base();
    j.merge_patch(patch);
    SCOPED_TRACE(patch.dump());
    parts.insert(parts.begin(), "models/some/tokenizer.json");
    expect_environment_error([&] { parse(j); }, parts);
  };
  refused({{"pre_tokenizer", {{"type", "Metaspace"}}}}, {"`pre_tokenizer.type`", "Metaspace"});
  refused({{"pre_tokenizer", {{"pretokenizers", {{{"type", "BertPreTokenizer"}}}}}}},
          {"`pre_tokenizer.pretokenizers[0].type`", "BertPreTokenizer"});
  refused({{"pre_tokenizer", nullptr}}, {"`pre_tokenizer`", "ByteLevel"});
  refused({{"pre_tokenizer", {{"pretokenizers", {{{"type", "Digits"}}}}}}},
          {"`pre_tokenizer`", "ByteLevel"});
  refused({{"pre_tokenizer", {{"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}}}},
          {"`pre_tokenizer.pretokenizers[1].type`", "ByteLevel"});
  const auto split = [](const json& s) {
    return json{{"pre_tokenizer", {{"pretokenizers", {s, {{"type", "ByteLevel"}}}}}}};
  };
  refused(split({{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}}),
          {"`pre_tokenizer.pretokenizers[0].pattern`", "compile"});
  refused(split({{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Contiguous"}}),
          {"`pre_tokenizer.pretokenizers[0].behavior`", "Contiguous"});
  refused(split({{"type", "Split"}, {"behavior", "Isolated"}}),
          {"`pre_tokenizer.pretokenizers[0].pattern`", "missing"});
  refused({{"normalizer", {{"type", "Lowercase"}}}}, {"`normalizer.type`", "Lowercase"});
  refused({{"normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "Replace"}}}}}}},
          {"`normalizer.normalizers[0].type`", "Replace"});
  refused({{"decoder", {{"type", "WordPiece"}}}}, {"`decoder.type`", "WordPiece"});
  refused({{"model", {{"type", "Unigram"}}}}, {"`model.type`", "Unigram"});
  refused({{"model", {{"byte_fallback", true}}}}, {"`model.byte_fallback`"});
  refused({{"model", {{"dropout", 0.1}}}}, {"`model.dropout`"});
  refused({{"model", {{"end_of_word_suffix", "</w>"}}}}, {"`model.end_of_word_suffix`"});
  refused({{"model", {{"unk_token", "<unk>"}}}}, {"`model.unk_token`", "<unk>"});
  refused({{"model", {{"merges", {"a"}}}}}, {"merge 1"});
  refused({{"model", {{"merges", {"a b c"}}}}}, {"merge 1"});
  refused({{"model", {{"merges", json::array({json::array({"q", "q"})})}}}},
          {"merge 1", "vocabulary"});
  refused({{"model", {{"merges", {7}}}}}, {"`model.merges`", "number 1"});
  refused({{"model", {{"vocab", {{"a", 65}}}}}}, {"65", "two tokens"});
  refused({{"model", {{"vocab", {{"a", -1}}}}}}, {"\"a\""});
  refused({{"model", {{"vocab", {{"a", 1LL << 40}}}}}}, {"\"a\""});
  refused({{"model", nullptr}}, {"`model`", "missing"});
  const auto added = [](const json& item) { return json{{"added_tokens", {item}}}; };
  refused(added({{"id", 400}, {"content", "x y"}, {"single_word", true}}),
          {"`added_tokens[0].single_word`"});
  refused(added({{"id", 400}}), {"`added_tokens[0].content`", "missing"});
  refused(added({{"content", "x y"}}), {"`added_tokens[0].id`", "missing"});
  refused(added({{"id", 400}, {"content", ""}}), {"`added_tokens[0].id`", "without text"});
  refused(added({{"id", 400}, {"content", "cat"}}), {"`added_tokens[0].id`", "400", "264"});
}

TEST(tokenizer, a_byte_without_token_is_an_error_unless_there_is_an_unknown_token) {
  json j = base();
  j["model"]["vocab"].erase("!");
  const tokenizer t = parse(j);
  EXPECT_NO_THROW(t.encode("hello"));
  expect_environment_error([&] { t.encode("hello!"); }, {"byte 33"});
  j["model"]["unk_token"] = "a";
  EXPECT_EQ(parse(j).encode("!!"), parse(j).encode("aa"));
  j["model"]["fuse_unk"] = true;  // one for a run of them
  EXPECT_EQ(parse(j).encode("!!").size(), 1u);
}

// As transformers 5.23 has it: SDAR's <|MASK|> is not marked special and yet left out of answers, and so
// are a model's own roles; a token that is only listed keeps its flag.
TEST(tokenizer, tokens_with_a_role_are_special) {
  const std::string config = R"({"mask_token": {"content": "<mask>"},
      "extra_special_tokens": {"image_token": "<image>"},
      "additional_special_tokens": ["<tool>", "<x>"], "added_tokens_decoder": {
          "340": {"content": "<mask>"}, "341": {"content": "<tool>"},
          "342": {"content": "<x>", "special": true}, "343": {"content": "<image>"}}})";
  const tokenizer t = parse(base(), config);
  EXPECT_EQ(t.decode(ids{340, 341, 342, 343}, true), "<tool>");
  EXPECT_EQ(t.decode(ids{340, 341, 342, 343}, false), "<mask><tool><x><image>");
}

TEST(tokenizer, tokenizer_config_adds_tokens) {
  const std::string config =
      R"({"added_tokens_decoder": {"340": {"content": "<new>", "special": true},
          "330": {"content": "<other>", "special": true}}})";
  const tokenizer t = parse(base(), config);
  EXPECT_EQ(t.token_id("<new>"), 340);
  EXPECT_EQ(t.token_id("<|end|>"), 330);  // tokenizer.json wins
  EXPECT_EQ(t.token_id("<other>"), -1);
  EXPECT_EQ(t.encode("<new>"), ids{340});
  expect_environment_error(
      [] { parse(base(), R"({"added_tokens_decoder": {"x1": {"content": "<new>"}}})"); },
      {"tokenizer_config.json", "`added_tokens_decoder.x1`"});
}

TEST(tokenizer, vocabulary_and_merges_files) {
  const scratch_folder directory;
  const auto file = [&](const char* name) { return directory.path() / name; };
  expect_environment_error([&] { tokenizer::load(directory.path()); }, {"neither tokenizer.json"});
  write_file(file("vocab.json"), base()["model"]["vocab"].dump());
  expect_environment_error([&] { tokenizer::load(directory.path()); }, {"merges.txt"});
  std::string merges = "#version: 0.2\n";
  const json small = base();
  for (const json& m : small["model"]["merges"]) {
    merges += m.is_array() ? m[0].get<std::string>() + " " + m[1].get<std::string>()
                           : m.get<std::string>();
    merges += "\n";
  }
  write_file(file("merges.txt"), merges);
  write_file(file("added_tokens.json"), R"({"<|end|>": 330, "<MASK>": 331})");
  EXPECT_EQ(tokenizer::load(directory.path()).token_id("<MASK>"), 331);
  write_file(file("tokenizer_config.json"),
             R"({"tokenizer_class": "Qwen2Tokenizer",
                  "added_tokens_decoder": {"331": {"content": "<|MASK|>", "special": false}}})");
  const tokenizer t = tokenizer::load(directory.path());
  EXPECT_EQ(t.token_id("<|MASK|>"), 331);  // the newer spelling
  EXPECT_EQ(t.token_id("<MASK>"), -1);
  EXPECT_EQ(t.encode("the cats' 123 hello\n\n world"),
            parse(small).encode("the cats' 123 hello\n\n world"));
  write_file(file("tokenizer_config.json"), R"({"tokenizer_class": "LlamaTokenizer"})");
  expect_environment_error([&] { tokenizer::load(directory.path()); },
                           {"tokenizer_config.json", "`tokenizer_class`", "LlamaTokenizer"});
  fs::remove(file("tokenizer_config.json"));
  write_file(file("added_tokens.json"), R"({"<|end|>": "x"})");
  expect_environment_error([&] { tokenizer::load(directory.path()); },
                           {"added_tokens.json", "`<|end|>`"});
  fs::remove(file("added_tokens.json"));
  write_file(file("merges.txt"), "#version: 0.2\nno-space\n");
  expect_environment_error([&] { tokenizer::load(directory.path()); }, {"merges.txt", "merge 1"});
}

// ---- published vocabularies ---------------------------------------------------------------------

// Vocabularies cut down to what these texts can use: ids and merges are the published ones.
void expect_vectors(const fs::path& vocabulary) {
  const tokenizer t = tokenizer::load(vocabulary);
  const std::string input = test::text_of(vocabulary / "vectors.inp");
  std::istringstream output(test::text_of(vocabulary / "vectors.out"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::size_t count = 0;
  std::size_t begin = 0;
  for (std::string line; std::getline(output, line); ++count) {
    const std::size_t end = input.find(separator, begin);
    ASSERT_NE(end, std::string::npos);
    const std::string text = input.substr(begin, end - begin);
    begin = end + separator.size();
    SCOPED_TRACE(text);
    std::istringstream numbers(line);
    ids want;
    for (std::int32_t id = 0; numbers >> id;) want.push_back(id);
    EXPECT_EQ(t.encode(text), want);
    EXPECT_EQ(t.decode(want, false), text);
  }
  EXPECT_EQ(count, 46U);
}

TEST(tokenizer, qwen2_vectors) {
  const fs::path directory = test::published() / "tokenizers/qwen2";
  expect_vectors(directory);
  const tokenizer t = tokenizer::load(directory);
  EXPECT_EQ(t.vocabulary_size(), 151670);
  EXPECT_EQ(t.token_id("<|MASK|>"), 151669);
  EXPECT_EQ(t.encode("<|im_start|>user\n").front(), 151644);
}

TEST(tokenizer, gpt2_vectors) {
  expect_vectors(test::published() / "tokenizers/gpt2");
}

TEST(tokenizer, minimind_round_trip) {
  const tokenizer t = tokenizer::load(test::published() / "tokenizers/minimind");
  EXPECT_EQ(t.vocabulary_size(), 6400);
  const std::string text = "<|im_start|>user\n你好, hello 12!<|im_end|>\n";
  EXPECT_EQ(t.decode(t.encode(text), false), text);
  EXPECT_EQ(t.encode(text).front(), 1);
}

TEST(tokenizer, embedded_models_round_trip) {
  for (const auto& item : fs::directory_iterator(test::embedded_models())) {
    if (!fs::exists(item.path() / "tokenizer.json")) continue;
    const tokenizer t = tokenizer::load(item.path());
    const std::string text = "Compute 12 + 7. Then say: it's done!\n";
    EXPECT_EQ(t.decode(t.encode(text), true), text);
  }
}

// The ids that tokenizers 0.23 puts around "hi" with these post-processors.
TEST(tokenizer, raw_prompts_get_what_the_post_processor_adds) {
  const auto around = [](const char* processor) {
    json t = json::parse(test::text_of(test::fixtures() / "tokenizer.json"));
    t["post_processor"] = json::parse(processor);
    const tokenizer made = tokenizer::parse(t.dump(), "", "some");
    const std::vector<std::int32_t> around_it = made.encode_raw("hi"), inner = made.encode("hi");
    const auto at = std::search(around_it.begin(), around_it.end(), inner.begin(), inner.end());
    EXPECT_NE(at, around_it.end());
    return std::pair(
        std::vector<std::int32_t>(around_it.begin(), at),
        std::vector<std::int32_t>(at + static_cast<std::ptrdiff_t>(inner.size()), around_it.end()));
  };
  const std::string bos = R"({"type": "TemplateProcessing", "pair": [],
    "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"B": {"id": "B", "ids": [7, 8], "tokens": ["x", "y"]}}})";
  const std::string level = R"({"type": "ByteLevel", "trim_offsets": true})";
  EXPECT_EQ(around("null"), std::pair(ids{}, ids{}));
  EXPECT_EQ(around(level.c_str()), std::pair(ids{}, ids{}));
  EXPECT_EQ(around(bos.c_str()), std::pair(ids({7, 8}), ids{}));
  EXPECT_EQ(around((R"({"type": "Sequence", "processors": [)" + level + "," + bos + "]}").c_str()),
            std::pair(ids({7, 8}), ids{}));
  EXPECT_EQ(around(R"({"type": "RobertaProcessing", "cls": ["c", 3], "sep": ["s", 4]})"),
            std::pair(ids{3}, ids{4}));
  const std::string nothing = R"({"type": "TemplateProcessing", "pair": [],
    "single": [{"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {}})";
  const auto both = [&](const std::string& a, const std::string& b) {
    return around((R"({"type": "Sequence", "processors": [)" + a + "," + b + "]}").c_str());
  };
  EXPECT_EQ(both(nothing, bos), std::pair(ids({7, 8}), ids{}));
  test::expect_environment_error([&] { both(bos, bos); },
                                 {"`post_processor.processors[1].type`", "second component"});
  test::expect_environment_error([&] { around(R"({"type": "Other"})"); },
                                 {"`post_processor.type`", "Other"});
}

}  // namespace
}  // namespace unmask
