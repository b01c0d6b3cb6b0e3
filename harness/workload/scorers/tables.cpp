// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/tables.h"

#include "harness/base/compressed.h"

// The assembler copies the file as it is; the two labels are where it begins and ends.
#define UNMASK_EMBED(name, file)                                                              \
  __asm__(".section .rodata\n.balign 16\n" #name "_begin:\n.incbin \"" UNMASK_TABLES "/" file \
          "\"\n" #name "_end:\n.byte 0\n.previous\n");                                        \
  extern "C" const char name##_begin[];                                                       \
  extern "C" const char name##_end[];

UNMASK_EMBED(unmask_jieba_dictionary, "jieba_dict.txt.gz")
UNMASK_EMBED(unmask_jieba_hmm, "jieba_hmm.json.gz")
UNMASK_EMBED(unmask_langdetect_profiles, "langdetect_profiles.json.gz")
UNMASK_EMBED(unmask_langdetect_kanji, "langdetect_kanji.txt.gz")

namespace unmask::scorers {
namespace {

std::string unpacked(const char* begin, const char* end, const char* name) {
  constexpr std::size_t limit = std::size_t{64} << 20;
  return gunzip({begin, static_cast<std::size_t>(end - begin)}, name, limit);
}

}  // namespace

std::string table_text(table which) {
  switch (which) {
    case table::jieba_dictionary:
      return unpacked(unmask_jieba_dictionary_begin, unmask_jieba_dictionary_end,
                      "jieba's dictionary");
    case table::jieba_hmm:
      return unpacked(unmask_jieba_hmm_begin, unmask_jieba_hmm_end, "jieba's model");
    case table::langdetect_profiles:
      return unpacked(unmask_langdetect_profiles_begin, unmask_langdetect_profiles_end,
                      "langdetect's profiles");
    case table::langdetect_kanji:
      return unpacked(unmask_langdetect_kanji_begin, unmask_langdetect_kanji_end,
                      "langdetect's kanji");
  }
  return {};
}

}  // namespace unmask::scorers
