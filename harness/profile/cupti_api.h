// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// CUPTI, opened at run time: the program starts on machines without it. Included only by the files
// of this folder that talk to CUPTI, in builds that have its headers.
#pragma once

#include <cupti.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include <string>

namespace unmask::cupti {

// Records of activities have the layout of the newest header; older libraries write older ones.
static_assert(CUPTI_API_VERSION >= 130000, "Unmask reads the records of CUPTI 13");

using kernel_record = CUpti_ActivityKernel10;
using memcpy_record = CUpti_ActivityMemcpy6;
using memset_record = CUpti_ActivityMemset4;

// clang-format off
#define UNMASK_CUPTI_FUNCTIONS(X)                                                       \
  X(cuptiGetVersion) X(cuptiGetResultString) X(cuptiGetTimestamp)                       \
  X(cuptiActivityRegisterCallbacks) X(cuptiActivityEnable) X(cuptiActivityDisable)      \
  X(cuptiActivityFlushAll) X(cuptiActivityGetNextRecord)                                \
  X(cuptiActivityGetNumDroppedRecords) X(cuptiActivityPushExternalCorrelationId)        \
  X(cuptiActivityPopExternalCorrelationId) X(cuptiSubscribe) X(cuptiUnsubscribe)        \
  X(cuptiEnableCallback) X(cuptiGetGraphNodeId) X(cuptiProfilerInitialize)              \
  X(cuptiProfilerDeviceSupported) X(cuptiProfilerGetCounterAvailability)                \
  X(cuptiDeviceGetChipName) X(cuptiProfilerHostGetSupportedChips)                       \
  X(cuptiProfilerHostInitialize) X(cuptiProfilerHostDeinitialize)                       \
  X(cuptiProfilerHostConfigAddMetrics) X(cuptiProfilerHostGetConfigImageSize)           \
  X(cuptiProfilerHostGetConfigImage) X(cuptiProfilerHostGetNumOfPasses)                 \
  X(cuptiProfilerHostGetRangeName) X(cuptiProfilerHostEvaluateToGpuValues)              \
  X(cuptiRangeProfilerEnable) X(cuptiRangeProfilerDisable)                              \
  X(cuptiRangeProfilerGetCounterDataSize) X(cuptiRangeProfilerCounterDataImageInitialize) \
  X(cuptiRangeProfilerSetConfig) X(cuptiRangeProfilerStart) X(cuptiRangeProfilerStop)   \
  X(cuptiRangeProfilerPushRange) X(cuptiRangeProfilerPopRange)                          \
  X(cuptiRangeProfilerDecodeData) X(cuptiRangeProfilerGetCounterDataInfo)
// clang-format on

// Every function that Unmask calls, under its own name.
struct library {
#define UNMASK_CUPTI_MEMBER(name) decltype(&::name) name = nullptr;
  UNMASK_CUPTI_FUNCTIONS(UNMASK_CUPTI_MEMBER)
#undef UNMASK_CUPTI_MEMBER
};

// Opened once and never closed (closing CUPTI 13.0 and 13.1 crashes). Environment error, the same
// at every call, when it is absent, too old, or lacks a function.
const library& open_library();

// Throws an environment error with the call and CUPTI's words for the failure.
void check(CUptiResult result, const char* call);

// What a failure means for the user and what to do about it; empty: nothing special.
std::string advice(CUptiResult result);

}  // namespace unmask::cupti

#define UNMASK_CUPTI_CALL(name, ...) \
  ::unmask::cupti::check(::unmask::cupti::open_library().name(__VA_ARGS__), #name)
