// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/cupti_trace.h"

#include "harness/base/error.h"

#if UNMASK_HAS_CUPTI

#include <cxxabi.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

#include "harness/profile/cupti_api.h"

namespace unmask::inline profile {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{4} << 20;
constexpr std::size_t buffer_alignment = 8;
constexpr CUpti_ExternalCorrelationKind our_kind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

std::string demangled(const char* name) {
  if (!name) return "[unnamed kernel]";
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result;
}

const char* copy_name(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "[memcpy HtoD]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "[memcpy DtoH]";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "[memcpy DtoD]";
    default:
      return "[memcpy other]";
  }
}

// Shared with CUPTI's callbacks, which carry no pointer of ours and come on threads of its own.
struct shared_state {
  std::mutex guard;
  activity_records records;
  std::unordered_map<std::uint64_t, std::uint64_t> nodes;
};

shared_state& shared() {
  static shared_state* state = new shared_state;  // callbacks may come while the program ends
  return *state;
}

// Phase instance of this thread in which graph nodes are being created; 0: none.
thread_local std::uint64_t current_instance = 0;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
  *size = *buffer ? buffer_bytes : 0;
  *most = 0;
}

void add_record(activity_records& into, const CUpti_Activity* record) {
  const auto time = [](std::uint64_t t) { return static_cast<std::int64_t>(t); };
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      const auto* k = reinterpret_cast<const cupti::kernel_record*>(record);
      into.kernels.push_back({demangled(k->name), time(k->start), time(k->end), k->correlationId,
                              k->deviceId, k->streamId, k->graphNodeId});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto* m = reinterpret_cast<const cupti::memcpy_record*>(record);
      into.kernels.push_back({copy_name(m->copyKind), time(m->start), time(m->end),
                              m->correlationId, m->deviceId, m->streamId, m->graphNodeId});
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto* m = reinterpret_cast<const cupti::memset_record*>(record);
      into.kernels.push_back({"[memset]", time(m->start), time(m->end), m->correlationId,
                              m->deviceId, m->streamId, m->graphNodeId});
      break;
    }
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto* e = reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
      if (e->externalKind == our_kind) into.externals.push_back({e->correlationId, e->externalId});
      break;
    }
    default:
      break;
  }
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t, std::size_t valid) {
  const cupti::library& api = cupti::open_library();
  const std::lock_guard lock(shared().guard);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && api.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    add_record(shared().records, record);
  }
  std::size_t dropped = 0;
  if (api.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
    shared().records.dropped += dropped;
  }
  std::free(buffer);
}

// Nodes of a graph belong to the phase that captured them; instantiating a graph clones its nodes,
// and the clones are what the kernel records name.
void CUPTIAPI on_resource(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                          const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
  if (id != CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED && id != CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) {
    return;
  }
  const auto* resource = static_cast<const CUpti_ResourceData*>(data);
  const auto* graph = static_cast<const CUpti_GraphData*>(resource->resourceDescriptor);
  const cupti::library& api = cupti::open_library();
  std::uint64_t node = 0, original = 0;
  if (api.cuptiGetGraphNodeId(graph->node, &node) != CUPTI_SUCCESS) return;
  const std::lock_guard lock(shared().guard);
  if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) {
    if (current_instance != 0) shared().nodes[node] = current_instance;
  } else if (api.cuptiGetGraphNodeId(graph->originalNode, &original) == CUPTI_SUCCESS) {
    const auto found = shared().nodes.find(original);
    if (found != shared().nodes.end()) shared().nodes[node] = found->second;
  }
}

constexpr CUpti_ActivityKind kinds[] = {
    // Before the kernels: an external id is recorded only for activities that come after.
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_RUNTIME,  // external ids hang on API calls, of both kinds
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,  // KIND_KERNEL would serialise
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET,
};

}  // namespace

std::string why_no_cupti() {
  try {
    cupti::open_library();
    return "";
  } catch (const error& problem) {
    return problem.what();
  }
}

struct kernel_trace::impl {
  phase_listener* next;
  CUpti_SubscriberHandle subscriber = nullptr;
  std::vector<std::uint64_t> open;  // ids of the phases that are open
  std::vector<phase_instance> instances;
  std::int64_t offset = 0;
  std::size_t enabled = 0;  // of `kinds`
  bool finished = false;

  explicit impl(phase_listener* n) : next(n) {}

  void start() {
    {
      const std::lock_guard lock(shared().guard);
      shared().records = {};
      shared().nodes.clear();
    }
    UNMASK_CUPTI_CALL(cuptiSubscribe, &subscriber, on_resource, nullptr);
    for (const CUpti_CallbackId id :
         {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED}) {
      UNMASK_CUPTI_CALL(cuptiEnableCallback, 1, subscriber, CUPTI_CB_DOMAIN_RESOURCE, id);
    }
    UNMASK_CUPTI_CALL(cuptiActivityRegisterCallbacks, give_buffer, take_buffer);
    for (const CUpti_ActivityKind kind : kinds) {
      UNMASK_CUPTI_CALL(cuptiActivityEnable, kind);
      ++enabled;
    }
    std::uint64_t theirs = 0;
    UNMASK_CUPTI_CALL(cuptiGetTimestamp, &theirs);
    offset = std::chrono::duration_cast<std::chrono::nanoseconds>(
                 std::chrono::steady_clock::now().time_since_epoch())
                 .count() -
             static_cast<std::int64_t>(theirs);
  }

  void stop() {
    const cupti::library& api = cupti::open_library();
    while (enabled > 0) api.cuptiActivityDisable(kinds[--enabled]);
    if (subscriber) api.cuptiUnsubscribe(subscriber);
    subscriber = nullptr;
    current_instance = 0;
    finished = true;
  }
};

kernel_trace::kernel_trace(phase_listener* next) : impl_(std::make_unique<impl>(next)) {
  try {
    impl_->start();
  } catch (...) {
    impl_->stop();
    throw;
  }
}

kernel_trace::~kernel_trace() {
  if (!impl_->finished) impl_->stop();
}

void kernel_trace::enter(profile_phase phase, std::int64_t payload) {
  const auto id = static_cast<std::uint64_t>(impl_->instances.size()) + 1;
  impl_->instances.push_back({id, phase, payload});
  impl_->open.push_back(id);
  current_instance = id;
  cupti::open_library().cuptiActivityPushExternalCorrelationId(our_kind, id);
  if (impl_->next) impl_->next->enter(phase, payload);
}

void kernel_trace::leave(profile_phase phase) {
  if (impl_->next) impl_->next->leave(phase);
  std::uint64_t last = 0;
  cupti::open_library().cuptiActivityPopExternalCorrelationId(our_kind, &last);
  if (!impl_->open.empty()) impl_->open.pop_back();
  current_instance = impl_->open.empty() ? 0 : impl_->open.back();
}

void kernel_trace::work(profile_phase phase, const phase_work& done) {
  if (impl_->next) impl_->next->work(phase, done);
}
void kernel_trace::step(const step_numbers& held) {
  if (auto* next = dynamic_cast<step_listener*>(impl_->next)) next->step(held);
}

std::int64_t kernel_trace::offset() const {
  return impl_->offset;
}

activity_records kernel_trace::finish() {
  UNMASK_CUPTI_CALL(cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  impl_->stop();
  const std::lock_guard lock(shared().guard);
  activity_records records = std::move(shared().records);
  shared().records = {};
  records.instances = impl_->instances;
  for (const auto& [node, instance] : shared().nodes) records.nodes.push_back({node, instance});
  return records;
}

}  // namespace unmask::profile

#else

namespace unmask::inline profile {

namespace {
constexpr const char* absent = "this program was built without CUPTI headers";
}

std::string why_no_cupti() {
  return absent;
}

struct kernel_trace::impl {};
kernel_trace::kernel_trace(phase_listener*) {
  throw environment_error(absent);
}
kernel_trace::~kernel_trace() = default;
void kernel_trace::enter(profile_phase, std::int64_t) {}
void kernel_trace::leave(profile_phase) {}
void kernel_trace::work(profile_phase, const phase_work&) {}
void kernel_trace::step(const step_numbers&) {}
activity_records kernel_trace::finish() {
  return {};
}
std::int64_t kernel_trace::offset() const {
  return 0;
}

}  // namespace unmask::profile

#endif
