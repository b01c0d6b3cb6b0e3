// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "harness/base/error.h"

namespace unmask {

std::string sha256_hex(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr) != 1) {
    throw environment_error("OpenSSL cannot compute SHA-256 on this machine");
  }
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace unmask
