// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Stands in for ICU's data library, 30 MB, in the archive for a machine with a GPU. What Unmask
// asks of ICU (character properties, case mapping of the root locale, canonical composition) is
// compiled into its common library; the data library holds locales and converters, which it never
// asks for. The layout is that of a data package with no entry ("ToCP"; unicode/udata.h).
#include <unicode/udata.h>
#include <unicode/uvernum.h>

#include <cstdint>

namespace {

struct package {
  std::uint16_t header_size;
  std::uint8_t magic_1, magic_2;
  UDataInfo info;
  char padding[8];
  std::uint32_t count, reserved;
};

}  // namespace

#define UNMASK_JOIN_OF(a, b, c) a##b##c
#define UNMASK_JOIN(a, b, c) UNMASK_JOIN_OF(a, b, c)

extern "C" __attribute__((visibility("default"), aligned(16)))
const package UNMASK_JOIN(icudt, U_ICU_VERSION_MAJOR_NUM, _dat) = {32,
                                                                   0xda,
                                                                   0x27,
                                                                   {sizeof(UDataInfo),
                                                                    0,
                                                                    0,
                                                                    0,
                                                                    sizeof(UChar),
                                                                    0,
                                                                    {'T', 'o', 'C', 'P'},
                                                                    {1, 0, 0, 0},
                                                                    {0, 0, 0, 0}},
                                                                   {},
                                                                   0,
                                                                   0};
