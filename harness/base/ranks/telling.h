// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstdint>

#include "harness/base/ranks/group.h"

namespace unmask {

// Who hears of a group's moves hears of this one, from its beginning to its end, however that comes. It
// brings `received` bytes.
class telling {
 public:
  telling(rank_group& group, std::uint64_t received)
      : listener_(group.tell(nullptr)), received_(received) {
    group.tell(listener_);
    if (listener_ != nullptr) listener_->begin();
  }
  ~telling() {
    if (listener_ != nullptr) listener_->end(received_);
  }
  telling(const telling&) = delete;
  telling& operator=(const telling&) = delete;

 private:
  gather_listener* listener_;
  std::uint64_t received_;
};

}  // namespace unmask
