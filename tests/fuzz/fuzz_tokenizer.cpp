// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Two uses of one input. As a text: what a small tokenizer encodes must decode to the same text.
// As tokenizer.json, a zero byte and a text: an error, or ids inside the vocabulary.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "harness/base/error.h"
#include "harness/base/unicode.h"
#include "harness/model/tokenizer.h"
#include "harness/model/tokenizer_parts.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

std::string escaped(const std::string& text) {
  return text == "\"" || text == "\\" ? "\\" + text : text;
}

// All 256 bytes, a few merges, two added tokens; the pattern of GPT-2.
unmask::tokenizer small_tokenizer() {
  std::string vocab;
  for (int b = 0; b < 256; ++b) {
    const std::string token = unmask::to_byte_alphabet(static_cast<std::uint8_t>(b));
    vocab += "\"" + escaped(token) + "\":" + std::to_string(b) + ",";
  }
  const std::string json = R"({"model":{"type":"BPE","vocab":{)" + vocab +
                           R"("th":256,"the":257,"Ġthe":258,"aa":259,"aaaa":260},)"
                           R"("merges":["t h","th e","Ġ the","a a","aa aa"]},)"
                           R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)"
                           R"("added_tokens":[{"id":300,"content":"<|end|>","special":true},)"
                           R"({"id":301,"content":"<|endless|>","special":false}]})";
  return unmask::tokenizer::parse(json, "", "fuzz");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  static const unmask::tokenizer small = small_tokenizer();
  const std::string valid = unmask::repair_utf8(input);
  require(small.decode(small.encode(input), false) == valid);
  require(small.decode(small.encode(input, false), false) == valid);
  require(unmask::repair_utf8(valid) == valid);

  const std::size_t zero = input.find('\0');
  if (zero == std::string_view::npos) return 0;
  try {
    const unmask::tokenizer t = unmask::tokenizer::parse(input.substr(0, zero), "", "fuzz");
    for (const std::int32_t id : t.encode(input.substr(zero + 1))) {
      require(id >= 0 && id < t.vocabulary_size());
    }
  } catch (const unmask::error& problem) {
    require(problem.code() == unmask::exit_code::environment);
  }
  return 0;
}
