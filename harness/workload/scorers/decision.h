// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

namespace unmask::scorers {

// What a scorer says of an answer. Undecided: the official scorer gives a verdict that ours cannot
// establish; it is counted and never passed.
enum class decision { broken, kept, undecided };

}  // namespace unmask::scorers
