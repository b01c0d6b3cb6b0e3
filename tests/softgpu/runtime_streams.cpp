// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA runtime's stand-in: streams, graphs and events.
#include <atomic>
#include <chrono>

#include "tests/softgpu/runtime.h"
#include "tests/softgpu/runtime_state.h"

using namespace unmask::softgpu;

namespace {

struct runnable {  // a cudaGraphExec_t
  std::vector<work> nodes;
};
struct event {  // a cudaEvent_t
  stream* in = nullptr;
  std::uint64_t asked = 0, reached = 0;
  double at = 0;
};

std::atomic<double> pretended = 0;

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count() + pretended;
}

}  // namespace

void unmask::softgpu::pretend_seconds(double seconds) {
  pretended += seconds;
}

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  auto* made = new stream;
  made->blocking = (flags & cudaStreamNonBlocking) == 0;
  all().streams.insert(made);
  *s = reinterpret_cast<cudaStream_t>(made);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* s) {
  return cudaStreamCreateWithFlags(s, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  if (s == nullptr || !known(s)) return result(cudaErrorInvalidResourceHandle);
  stream& own = stream_of(s);
  (void)drain(own);
  all().streams.erase(&own);
  delete &own;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (!known(s)) return result(cudaErrorInvalidResourceHandle);
  ++all().waits;
  stream& own = stream_of(s);
  if (own.capture != nullptr) {
    own.broken = true;
    note_host("call while capturing", "cudaStreamSynchronize of the captured stream");
    return result(cudaErrorStreamCaptureUnsupported);
  }
  return result(drain(own));
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  if (!known(s)) return result(cudaErrorInvalidResourceHandle);
  stream& own = stream_of(s);
  if (own.capture != nullptr) {
    own.broken = true;
    note_host("call while capturing", "cudaStreamQuery of the captured stream");
    return result(cudaErrorStreamCaptureUnsupported);
  }
  cudaError_t status = cudaSuccess;
  if (!advance(own, &status)) return cudaErrorNotReady;  // which is remembered for nobody
  ++all().waits;
  return result(status);
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  if (s == nullptr) return result(cudaErrorStreamCaptureUnsupported);
  ++all().captures;
  stream& own = stream_of(s);
  if (own.capture != nullptr) return result(cudaErrorIllegalState);
  own.capture = new graph;
  own.broken = false;
  own.capture_mode = mode;
  if (mode != cudaStreamCaptureModeRelaxed) ++all().capturing;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* g) {
  stream& own = stream_of(s);
  *g = nullptr;
  if (own.capture == nullptr) return result(cudaErrorIllegalState);
  graph* made = own.capture;
  own.capture = nullptr;
  if (own.capture_mode != cudaStreamCaptureModeRelaxed) --all().capturing;
  if (own.broken) {
    delete made;
    return result(cudaErrorStreamCaptureInvalidated);
  }
  *g = reinterpret_cast<cudaGraph_t>(made);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  const stream& own = stream_of(s);
  *status = own.capture == nullptr ? cudaStreamCaptureStatusNone
            : own.broken           ? cudaStreamCaptureStatusInvalidated
                                   : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* e, cudaGraph_t g, unsigned long long) {
  *e = reinterpret_cast<cudaGraphExec_t>(new runnable{reinterpret_cast<graph*>(g)->nodes});
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t s) {
  if (stream_of(s).capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s) {
  if (stream_of(s).capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  ++all().graph_launches;
  all().graph_nodes += reinterpret_cast<runnable*>(e)->nodes.size();
  for (const work& w : reinterpret_cast<runnable*>(e)->nodes) {
    const cudaError_t status = enqueue(stream_of(s), w);
    if (status != cudaSuccess) return result(status);
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) {
  delete reinterpret_cast<graph*>(g);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e) {
  delete reinterpret_cast<runnable*>(e);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* e) {
  *e = reinterpret_cast<cudaEvent_t>(new event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  auto* own = reinterpret_cast<event*>(e);
  if (own->in != nullptr && own->reached != own->asked) (void)drain(*own->in);
  delete own;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  auto* own = reinterpret_cast<event*>(e);
  own->in = &stream_of(s);
  const std::uint64_t turn = ++own->asked;
  return result(enqueue(*own->in, [own, turn] {
    own->reached = turn;
    own->at = now();
  }));
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  auto* own = reinterpret_cast<event*>(e);
  if (own->in == nullptr) return cudaSuccess;
  return result(drain(*own->in));
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  const auto *first = reinterpret_cast<event*>(a), *second = reinterpret_cast<event*>(b);
  if (first->in == nullptr || second->in == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (first->asked != first->reached || second->asked != second->reached)
    return result(cudaErrorNotReady);
  *ms = static_cast<float>((second->at - first->at) * 1000);
  return cudaSuccess;
}

}  // extern "C"
