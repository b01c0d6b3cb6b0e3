// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/cupti_counters.h"

#include "harness/base/error.h"

#if UNMASK_HAS_CUPTI

#include <dlfcn.h>

#include <cstdlib>

#include "harness/profile/cupti_api.h"

namespace unmask {
namespace {

// CUPTI's parameter blocks: all zero, with their own size.
#define UNMASK_CUPTI_BLOCK(type, name) \
  type name{};                         \
  name.structSize = type##_STRUCT_SIZE

// The host-side object that knows a chip's counters.
class chip_host {
 public:
  explicit chip_host(const std::string& chip, const std::vector<std::uint8_t>& availability = {}) {
    UNMASK_CUPTI_BLOCK(CUpti_Profiler_Host_Initialize_Params, p);
    p.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
    p.pChipName = chip.c_str();
    p.pCounterAvailabilityImage = availability.empty() ? nullptr : availability.data();
    const CUptiResult result = cupti::open_library().cuptiProfilerHostInitialize(&p);
    if (result != CUPTI_SUCCESS) {
      throw environment_error("CUPTI does not know the chip '" + chip +
                              "': its counters are not available");
    }
    object_ = p.pHostObject;
  }
  ~chip_host() {
    UNMASK_CUPTI_BLOCK(CUpti_Profiler_Host_Deinitialize_Params, p);
    p.pHostObject = object_;
    cupti::open_library().cuptiProfilerHostDeinitialize(&p);
  }
  chip_host& operator=(chip_host&&) = delete;
  CUpti_Profiler_Host_Object* get() const { return object_; }

 private:
  CUpti_Profiler_Host_Object* object_ = nullptr;
};

std::vector<const char*> pointers_to(const std::vector<std::string>& names) {
  std::vector<const char*> pointers;
  for (const std::string& n : names) pointers.push_back(n.c_str());
  return pointers;
}

// False when CUPTI does not take these metrics; it does not say which of them.
bool adds(const chip_host& host, const std::vector<std::string>& metrics) {
  std::vector<const char*> names = pointers_to(metrics);
  UNMASK_CUPTI_BLOCK(CUpti_Profiler_Host_ConfigAddMetrics_Params, p);
  p.pHostObject = host.get();
  p.ppMetricNames = names.data();
  p.numMetrics = names.size();
  return cupti::open_library().cuptiProfilerHostConfigAddMetrics(&p) == CUPTI_SUCCESS;
}

metric_plan plan_on(const chip_host& host, const std::string& chip,
                    const std::vector<std::string>& metrics) {
  metric_plan plan{chip, metrics, {}, 0};
  // All in one call: CUPTI schedules every call's metrics into passes of their own.
  if (!adds(host, metrics)) {
    for (const std::string& name : metrics) {
      if (!adds(chip_host(chip), {name})) {
        throw environment_error("chip " + chip + " has no metric '" + name + "'");
      }
    }
    throw environment_error("chip " + chip + " cannot count these metrics together");
  }
  UNMASK_CUPTI_BLOCK(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
  size.pHostObject = host.get();
  UNMASK_CUPTI_CALL(cuptiProfilerHostGetConfigImageSize, &size);
  plan.image.resize(size.configImageSize);
  UNMASK_CUPTI_BLOCK(CUpti_Profiler_Host_GetConfigImage_Params, image);
  image.pHostObject = host.get();
  image.configImageSize = plan.image.size();
  image.pConfigImage = plan.image.data();
  UNMASK_CUPTI_CALL(cuptiProfilerHostGetConfigImage, &image);
  UNMASK_CUPTI_BLOCK(CUpti_Profiler_Host_GetNumOfPasses_Params, passes);
  passes.configImageSize = plan.image.size();
  passes.pConfigImage = plan.image.data();
  UNMASK_CUPTI_CALL(cuptiProfilerHostGetNumOfPasses, &passes);
  plan.passes = passes.numOfPasses;
  return plan;
}

// Function of the driver library, which only machines with a driver have.
template <class Function>
Function driver_function(const char* name) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  auto function = driver ? reinterpret_cast<Function>(dlsym(driver, name)) : nullptr;
  if (!function) throw environment_error("counters need a GPU: there is no NVIDIA driver");
  return function;
}

// Throws the reason when the device cannot be profiled.
void require_support(CUdevice device) {
  UNMASK_CUPTI_BLOCK(CUpti_Profiler_DeviceSupported_Params, p);
  p.cuDevice = device;
  p.api = CUPTI_PROFILER_RANGE_PROFILING;
  UNMASK_CUPTI_CALL(cuptiProfilerDeviceSupported, &p);
  if (p.isSupported == CUPTI_PROFILER_CONFIGURATION_SUPPORTED) return;
  const struct {
    CUpti_Profiler_Support_Level level;
    const char* what;
  } reasons[] = {{p.architecture, "its architecture"},
                 {p.sli, "SLI"},
                 {p.vGpu, "a virtual GPU without profiling"},
                 {p.confidentialCompute, "confidential computing"},
                 {p.cmp, "a mining processor"},
                 {p.wsl, "WSL"}};
  std::string why;
  for (const auto& r : reasons) {
    if (r.level != CUPTI_PROFILER_CONFIGURATION_SUPPORTED) {
      why += (why.empty() ? "" : ", ") + std::string(r.what);
    }
  }
  throw environment_error("this device has no counters (" + why + ")");
}

class device_counters final : public range_counters {
 public:
  explicit device_counters(std::size_t most) : most_(most) {}
  ~device_counters() override {
    if (!profiler_) return;
    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_Disable_Params, p);
    p.pRangeProfilerObject = profiler_;
    cupti::open_library().cuptiRangeProfilerDisable(&p);
  }

  void start(const std::vector<std::string>& metrics) {
    CUcontext context = nullptr;
    CUdevice device = 0;
    driver_function<CUresult (*)(CUcontext*)>("cuCtxGetCurrent")(&context);
    if (!context || driver_function<CUresult (*)(CUdevice*)>("cuCtxGetDevice")(&device) != 0) {
      throw environment_error("counters need a CUDA context: nothing ran on a GPU yet");
    }
    UNMASK_CUPTI_BLOCK(CUpti_Profiler_Initialize_Params, init);
    UNMASK_CUPTI_CALL(cuptiProfilerInitialize, &init);
    require_support(device);
    UNMASK_CUPTI_BLOCK(CUpti_Device_GetChipName_Params, name);
    name.deviceIndex = static_cast<std::size_t>(device);
    UNMASK_CUPTI_CALL(cuptiDeviceGetChipName, &name);
    chip_ = name.pChipName;

    UNMASK_CUPTI_BLOCK(CUpti_Profiler_GetCounterAvailability_Params, available);
    available.ctx = context;
    UNMASK_CUPTI_CALL(cuptiProfilerGetCounterAvailability, &available);
    std::vector<std::uint8_t> availability(available.counterAvailabilityImageSize);
    available.pCounterAvailabilityImage = availability.data();
    UNMASK_CUPTI_CALL(cuptiProfilerGetCounterAvailability, &available);
    host_ = std::make_unique<chip_host>(chip_, availability);
    plan_ = plan_on(*host_, chip_, metrics);
    if (plan_.passes != 1) {
      throw environment_error("these metrics need " + std::to_string(plan_.passes) +
                              " passes on chip " + chip_ + "; a decoding run cannot be replayed");
    }
    enable(context);
  }

  void enter(profile_phase phase, std::int64_t) override {
    if (is_container(phase) || !running_) return;
    if (pushed_ >= most_) {
      ++left_out_;
      return;
    }
    push(phase);
  }

  void leave(profile_phase phase) override {
    if (!is_container(phase) && in_range_) pop();
  }

  counter_table finish() override {
    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_Stop_Params, stop);
    stop.pRangeProfilerObject = profiler_;
    UNMASK_CUPTI_CALL(cuptiRangeProfilerStop, &stop);
    running_ = false;
    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_DecodeData_Params, decode);
    decode.pRangeProfilerObject = profiler_;
    UNMASK_CUPTI_CALL(cuptiRangeProfilerDecodeData, &decode);
    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
    info.pCounterDataImage = data_.data();
    info.counterDataImageSize = data_.size();
    UNMASK_CUPTI_CALL(cuptiRangeProfilerGetCounterDataInfo, &info);
    std::vector<counted_range> ranges;
    for (std::size_t i = 0; i < info.numTotalRanges; ++i) ranges.push_back(range_at(i));
    counter_table table =
        sum_ranges(chip_, ranges, static_cast<std::int64_t>(decode.numOfRangeDropped), left_out_);
    if (table.problem.empty() && !stop.isAllPassSubmitted) {
      table.problem = "CUPTI wants another pass, although the plan has one";
    }
    return table;
  }

 private:
  void enable(CUcontext context) {
    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_Enable_Params, on);
    on.ctx = context;
    UNMASK_CUPTI_CALL(cuptiRangeProfilerEnable, &on);
    profiler_ = on.pRangeProfilerObject;

    std::vector<const char*> names = pointers_to(plan_.metrics);
    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
    size.pRangeProfilerObject = profiler_;
    size.pMetricNames = names.data();
    size.numMetrics = names.size();
    size.maxNumOfRanges = most_;
    size.maxNumRangeTreeNodes = static_cast<std::uint32_t>(most_);
    UNMASK_CUPTI_CALL(cuptiRangeProfilerGetCounterDataSize, &size);
    data_.assign(size.counterDataSize, 0);
    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, image);
    image.pRangeProfilerObject = profiler_;
    image.counterDataSize = data_.size();
    image.pCounterData = data_.data();
    UNMASK_CUPTI_CALL(cuptiRangeProfilerCounterDataImageInitialize, &image);

    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_SetConfig_Params, config);
    config.pRangeProfilerObject = profiler_;
    config.configSize = plan_.image.size();
    config.pConfig = plan_.image.data();
    config.counterDataImageSize = data_.size();
    config.pCounterDataImage = data_.data();
    config.range = CUPTI_UserRange;
    config.replayMode = CUPTI_UserReplay;
    config.maxRangesPerPass = most_;
    config.numNestingLevels = 1;
    config.minNestingLevel = 1;
    config.passIndex = 0;
    config.targetNestingLevel = 1;
    UNMASK_CUPTI_CALL(cuptiRangeProfilerSetConfig, &config);
    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_Start_Params, go);
    go.pRangeProfilerObject = profiler_;
    UNMASK_CUPTI_CALL(cuptiRangeProfilerStart, &go);
    running_ = true;
  }

  // Every range has a name of its own: equal names could share one sum.
  void push(profile_phase phase) {
    const std::string name = std::string(name_of(phase)) + "#" + std::to_string(pushed_);
    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_PushRange_Params, p);
    p.pRangeProfilerObject = profiler_;
    p.pRangeName = name.c_str();
    UNMASK_CUPTI_CALL(cuptiRangeProfilerPushRange, &p);
    in_range_ = true;
    ++pushed_;
  }

  void pop() {
    UNMASK_CUPTI_BLOCK(CUpti_RangeProfiler_PopRange_Params, p);
    p.pRangeProfilerObject = profiler_;
    in_range_ = false;
    cupti::open_library().cuptiRangeProfilerPopRange(&p);  // in a destructor: must not throw
  }

  counted_range range_at(std::size_t index) const {
    counted_range range;
    UNMASK_CUPTI_BLOCK(CUpti_Profiler_Host_GetRangeName_Params, name);
    name.pCounterDataImage = data_.data();
    name.counterDataImageSize = data_.size();
    name.rangeIndex = index;
    name.delimiter = "/";
    UNMASK_CUPTI_CALL(cuptiProfilerHostGetRangeName, &name);
    range.range = name.pRangeName;
    std::free(const_cast<char*>(name.pRangeName));  // ours to free, says the header
    std::vector<const char*> names = pointers_to(plan_.metrics);
    std::vector<double> values(names.size());
    UNMASK_CUPTI_BLOCK(CUpti_Profiler_Host_EvaluateToGpuValues_Params, p);
    p.pHostObject = host_->get();
    p.pCounterDataImage = data_.data();
    p.counterDataImageSize = data_.size();
    p.rangeIndex = index;
    p.ppMetricNames = names.data();
    p.numMetrics = names.size();
    p.pMetricValues = values.data();
    UNMASK_CUPTI_CALL(cuptiProfilerHostEvaluateToGpuValues, &p);
    for (std::size_t i = 0; i < values.size(); ++i) range.values[plan_.metrics[i]] = values[i];
    return range;
  }

  std::string chip_;
  std::unique_ptr<chip_host> host_;
  metric_plan plan_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  std::vector<std::uint8_t> data_;  // counter data image
  std::size_t most_ = 0, pushed_ = 0;
  std::int64_t left_out_ = 0;
  bool in_range_ = false, running_ = false;
};

}  // namespace

std::vector<std::string> counter_chips() {
  UNMASK_CUPTI_BLOCK(CUpti_Profiler_Host_GetSupportedChips_Params, p);
  UNMASK_CUPTI_CALL(cuptiProfilerHostGetSupportedChips, &p);
  return {p.ppChipNames, p.ppChipNames + p.numChips};
}

metric_plan plan_metrics(const std::string& chip, const std::vector<std::string>& metrics,
                         const std::vector<std::uint8_t>& availability) {
  const chip_host host(chip, availability);
  return plan_on(host, chip, metrics);
}

std::unique_ptr<range_counters> count_ranges(const std::vector<std::string>& metrics,
                                             std::size_t most_ranges) {
  auto counters = std::make_unique<device_counters>(most_ranges);
  counters->start(metrics);
  return counters;
}

}  // namespace unmask

#else

namespace unmask {

namespace {
constexpr const char* counters_absent = "this program was built without CUPTI headers";
}

std::vector<std::string> counter_chips() {
  throw environment_error(counters_absent);
}
metric_plan plan_metrics(const std::string&, const std::vector<std::string>&,
                         const std::vector<std::uint8_t>&) {
  throw environment_error(counters_absent);
}
std::unique_ptr<range_counters> count_ranges(const std::vector<std::string>&, std::size_t) {
  throw environment_error(counters_absent);
}

}  // namespace unmask

#endif
