// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/check/checker.h"

#include <numeric>

namespace unmask::device_checks {
namespace {

std::vector<device_check>& all_device_checks() {
  static std::vector<device_check> all;
  return all;
}

}  // namespace

register_device_check::register_device_check(const char* operations,
                                             std::function<void(checker&)> cases,
                                             std::optional<cuda::multiplied> by,
                                             std::optional<cuda::multiplied> folded_by) {
  all_device_checks().push_back({operations, std::move(cases), by, folded_by});
}

namespace {
std::vector<device_race>& all_device_races() {
  static std::vector<device_race> all;
  return all;
}
}  // namespace

register_device_race::register_device_race(
    const char* name, cuda::multiplied of,
    std::function<std::function<void()>(const backend&)> prepare) {
  all_device_races().push_back({name, of, std::move(prepare)});
}

std::vector<device_race> registered_device_races() {
  std::vector<device_race> sorted = all_device_races();
  std::ranges::sort(sorted, {}, &device_race::name);
  return sorted;
}

std::vector<device_check> registered_device_checks() {
  std::vector<device_check> sorted = all_device_checks();
  std::ranges::sort(sorted, {}, &device_check::operations);
  return sorted;
}

ragged::ragged(checker& c, std::vector<std::int32_t> keys, std::int64_t gap)
    : length(std::move(keys)), sequences(static_cast<std::int32_t>(length.size())), begins{0} {
  const std::int32_t longest = *std::ranges::max_element(length);
  stride = (longest + kv_page_size - 1) / kv_page_size;
  std::vector<std::int32_t> table(static_cast<std::size_t>(all_pages()));
  std::iota(table.begin(), table.end(), 0);
  std::ranges::shuffle(table, c.random());
  for (std::int32_t s = 0; s < sequences; ++s) {
    for (std::int32_t p = 0; p < length[static_cast<std::size_t>(s)]; p += 1 + c.below(gap)) {
      owners.push_back(s);
      places.push_back(p);
    }
    begins.push_back(static_cast<std::int32_t>(places.size()));
  }
  rows = static_cast<std::int32_t>(places.size());
  begin = c.ints(begins);
  owner = c.ints(owners);
  place = c.ints(places);
  lengths = c.ints(length);
  pages = c.ints(table);
}

}  // namespace unmask::device_checks
