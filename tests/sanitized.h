// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Sanitizers make loops over small models five to twenty times slower. Tests that only repeat what
// fewer repetitions show as well take fewer under them.
#pragma once

namespace unmask::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace unmask::testing
