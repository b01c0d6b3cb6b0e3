// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the compiler was asked to watch. Sanitizers make loops over small models five to twenty
// times slower: tests that only repeat what fewer repetitions show as well take fewer under them.
#pragma once

namespace unmask {

#if !defined(__has_feature)
#define UNMASK_HAS_FEATURE(name) 0
#else
#define UNMASK_HAS_FEATURE(name) __has_feature(name)
#endif

#if defined(__SANITIZE_THREAD__) || UNMASK_HAS_FEATURE(thread_sanitizer)
inline constexpr bool thread_sanitized = true;
#else
inline constexpr bool thread_sanitized = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || UNMASK_HAS_FEATURE(address_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = thread_sanitized;
#endif

#undef UNMASK_HAS_FEATURE

}  // namespace unmask
