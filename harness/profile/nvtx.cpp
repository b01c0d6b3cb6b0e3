// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/nvtx.h"

#include <array>

#if UNMASK_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace unmask {
namespace {

constexpr std::array<const char*, 11> category_names = {
    "none", "prefill", "denoise", "commit", "select",   "attention",
    "mlp",  "lm_head", "sample",  "cache",  "scheduler"};

}  // namespace

const char* name_of(range_category category) {
  return category_names.at(static_cast<std::size_t>(category));
}

#if UNMASK_HAS_NVTX

namespace {

// The domain, its category names and one registered name per category; made at the first range.
struct domain {
  nvtxDomainHandle_t handle = nvtxDomainCreateA("unmask");
  std::array<nvtxStringHandle_t, category_names.size()> names{};

  domain() {
    for (std::size_t i = 1; i < category_names.size(); ++i) {
      nvtxDomainNameCategoryA(handle, static_cast<std::uint32_t>(i), category_names[i]);
      names[i] = nvtxDomainRegisterStringA(handle, category_names[i]);
    }
  }
};

const domain& the_domain() {
  static const domain result;
  return result;
}

void push(nvtxStringHandle_t name, range_category category, std::int64_t payload) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = static_cast<std::uint32_t>(category);
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = name;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = payload;
  nvtxDomainRangePushEx(the_domain().handle, &attributes);
}

}  // namespace

range_name::range_name(const char* name, range_category category)
    : handle_(nvtxDomainRegisterStringA(the_domain().handle, name)), category_(category) {}

profile_range::profile_range(range_category category, std::int64_t payload) {
  push(the_domain().names[static_cast<std::size_t>(category)], category, payload);
}

profile_range::profile_range(const range_name& name, std::int64_t payload) {
  push(static_cast<nvtxStringHandle_t>(name.handle_), name.category_, payload);
}

profile_range::~profile_range() {
  nvtxDomainRangePop(the_domain().handle);
}

bool nvtx_built() {
  return true;
}

#else

range_name::range_name(const char*, range_category category) : category_(category) {}
profile_range::profile_range(range_category, std::int64_t) {}
profile_range::profile_range(const range_name&, std::int64_t) {}
profile_range::~profile_range() = default;
bool nvtx_built() {
  return false;
}

#endif

}  // namespace unmask
