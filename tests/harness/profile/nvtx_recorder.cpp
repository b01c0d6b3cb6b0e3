// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/harness/profile/nvtx_recorder.h"

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace unmask {
namespace {

struct recorded_domain {
  std::string name;
  std::map<std::uint32_t, std::string> categories;
};

// Deques, because handles are addresses of their elements.
struct recorder {
  std::deque<recorded_domain> domains;
  std::deque<std::string> strings;
  std::vector<nvtx_event> events;
  std::mutex writing;  // ranks of a test are threads
};

recorder& the_recorder() {
  static recorder result;
  return result;
}

recorded_domain& domain_of(nvtxDomainHandle_t handle) {
  return *reinterpret_cast<recorded_domain*>(handle);
}

nvtxDomainHandle_t create_domain(const char* name) {
  const std::lock_guard hold(the_recorder().writing);
  the_recorder().domains.push_back({name, {}});
  return reinterpret_cast<nvtxDomainHandle_t>(&the_recorder().domains.back());
}

void name_category(nvtxDomainHandle_t domain, std::uint32_t category, const char* name) {
  const std::lock_guard hold(the_recorder().writing);
  domain_of(domain).categories[category] = name;
}

nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
  const std::lock_guard hold(the_recorder().writing);
  the_recorder().strings.emplace_back(text);
  return reinterpret_cast<nvtxStringHandle_t>(&the_recorder().strings.back());
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  const std::lock_guard hold(the_recorder().writing);
  nvtx_event event{nvtx_event::kind::push, domain_of(domain).name, "", false, "", -1};
  event.registered = attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
  if (event.registered) {
    event.name = *reinterpret_cast<const std::string*>(attributes->message.registered);
  } else if (attributes->messageType == NVTX_MESSAGE_TYPE_ASCII) {
    event.name = attributes->message.ascii;
  }
  event.category = domain_of(domain).categories[attributes->category];
  if (attributes->payloadType == NVTX_PAYLOAD_TYPE_INT64)
    event.payload = attributes->payload.llValue;
  the_recorder().events.push_back(std::move(event));
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  const std::lock_guard hold(the_recorder().writing);
  the_recorder().events.push_back(
      {nvtx_event::kind::pop, domain_of(domain).name, "", false, "", 0});
  return 0;
}

template <class Function>
void install(NvtxFunctionTable table, int which, Function* function) {
  *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
}

int attach(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned entries = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &entries) == 0) {
    return 0;
  }
  install(table, NVTX_CBID_CORE2_DomainCreateA, create_domain);
  install(table, NVTX_CBID_CORE2_DomainNameCategoryA, name_category);
  install(table, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  install(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  install(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}

}  // namespace

std::vector<nvtx_event> take_nvtx_events() {
  const std::lock_guard hold(the_recorder().writing);
  return std::exchange(the_recorder().events, {});
}

std::vector<std::string> registered_nvtx_strings() {
  return {the_recorder().strings.begin(), the_recorder().strings.end()};
}

}  // namespace unmask

// NVTX looks for this symbol before it looks for a tool on disk.
extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = unmask::attach;
}
