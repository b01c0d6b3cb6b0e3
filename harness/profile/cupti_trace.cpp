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

namespace unmask {
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

class cupti_trace final : public kernel_trace {
 public:
  explicit cupti_trace(phase_listener* next) : next_(next) {}
  ~cupti_trace() override {
    if (!finished_) stop();
  }
  cupti_trace& operator=(cupti_trace&&) = delete;

  void start() {
    {
      const std::lock_guard lock(shared().guard);
      shared().records = {};
      shared().nodes.clear();
    }
    UNMASK_CUPTI_CALL(cuptiSubscribe, &subscriber_, on_resource, nullptr);
    for (const CUpti_CallbackId id :
         {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED}) {
      UNMASK_CUPTI_CALL(cuptiEnableCallback, 1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id);
    }
    UNMASK_CUPTI_CALL(cuptiActivityRegisterCallbacks, give_buffer, take_buffer);
    for (const CUpti_ActivityKind kind : kinds) {
      UNMASK_CUPTI_CALL(cuptiActivityEnable, kind);
      ++enabled_;
    }
    std::uint64_t theirs = 0;
    UNMASK_CUPTI_CALL(cuptiGetTimestamp, &theirs);
    offset_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                  std::chrono::steady_clock::now().time_since_epoch())
                  .count() -
              static_cast<std::int64_t>(theirs);
  }

  void enter(profile_phase phase, std::int64_t payload) override {
    const auto id = static_cast<std::uint64_t>(instances_.size()) + 1;
    instances_.push_back({id, phase, payload});
    open_.push_back(id);
    current_instance = id;
    cupti::open_library().cuptiActivityPushExternalCorrelationId(our_kind, id);
    if (next_) next_->enter(phase, payload);
  }

  void leave(profile_phase phase) override {
    if (next_) next_->leave(phase);
    std::uint64_t last = 0;
    cupti::open_library().cuptiActivityPopExternalCorrelationId(our_kind, &last);
    if (!open_.empty()) open_.pop_back();
    current_instance = open_.empty() ? 0 : open_.back();
  }

  void work(profile_phase phase, const phase_work& done) override {
    if (next_) next_->work(phase, done);
  }

  void step(const step_numbers& held) override {
    if (auto* next = dynamic_cast<step_listener*>(next_)) next->step(held);
  }

  std::int64_t offset() const override { return offset_; }

  activity_records finish() override {
    UNMASK_CUPTI_CALL(cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    stop();
    const std::lock_guard lock(shared().guard);
    activity_records records = std::move(shared().records);
    shared().records = {};
    records.instances = instances_;
    for (const auto& [node, instance] : shared().nodes) records.nodes.push_back({node, instance});
    return records;
  }

 private:
  void stop() {
    const cupti::library& api = cupti::open_library();
    while (enabled_ > 0) api.cuptiActivityDisable(kinds[--enabled_]);
    if (subscriber_) api.cuptiUnsubscribe(subscriber_);
    subscriber_ = nullptr;
    current_instance = 0;
    finished_ = true;
  }

  phase_listener* next_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::vector<std::uint64_t> open_;  // ids of the phases that are open
  std::vector<phase_instance> instances_;
  std::int64_t offset_ = 0;
  std::size_t enabled_ = 0;  // of `kinds`
  bool finished_ = false;
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

std::unique_ptr<kernel_trace> trace_kernels(phase_listener* next) {
  auto trace = std::make_unique<cupti_trace>(next);
  trace->start();
  return trace;
}

}  // namespace unmask

#else

namespace unmask {

namespace {
constexpr const char* traces_absent = "this program was built without CUPTI headers";
}

std::string why_no_cupti() {
  return traces_absent;
}

std::unique_ptr<kernel_trace> trace_kernels(phase_listener*) {
  throw environment_error(traces_absent);
}

}  // namespace unmask

#endif
