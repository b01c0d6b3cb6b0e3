// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>

namespace unmask {

// SHA-256 of the bytes of `text`, 64 hex digits. Environment error when OpenSSL has none.
std::string sha256_hex(const std::string& text);

}  // namespace unmask
