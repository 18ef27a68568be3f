// SPDX-License-Identifier: BSD-3-Clause
// device_scope.cpp: contexts by the driver, since the runtime does not name the current one, and
// makes one on device 0 for most calls in a thread that has none. It must not know what is called.
#include "backend/cuda/device_scope.hpp"

#include <array>
#include <atomic>

#include "backend/cuda/check.hpp"
#include "backend/cuda/driver.hpp"

namespace fleet::cuda {
namespace {

struct Driver {
  CUresult (*current)(CUcontext*) = driver_function<decltype(current)>("cuCtxGetCurrent");
  CUresult (*make_current)(CUcontext) = driver_function<decltype(make_current)>("cuCtxSetCurrent");
  CUresult (*device)(CUdevice*, int) = driver_function<decltype(device)>("cuDeviceGet");
  CUresult (*retain)(CUcontext*,
                     CUdevice) = driver_function<decltype(retain)>("cuDevicePrimaryCtxRetain");
  CUresult (*release)(CUdevice) = driver_function<decltype(release)>("cuDevicePrimaryCtxRelease");
  CUresult (*exchange)(CUstreamCaptureMode*) =
      driver_function<decltype(exchange)>("cuThreadExchangeStreamCaptureMode");

  bool is_whole() const {
    return current != nullptr && make_current != nullptr && device != nullptr &&
           retain != nullptr && release != nullptr && exchange != nullptr;
  }
};

const Driver& driver() {
  static const Driver all;
  return all;
}

/// Of more devices nothing is remembered.
constexpr std::size_t kMostKnown = 64;

/// What the process has of a device: the context that the runtime uses there.
struct Known {
  std::atomic<CUcontext> context{nullptr};
  std::atomic<int> retained{0};
};
Known* known(int ordinal) {
  static std::array<Known, kMostKnown> all{};
  const auto at = static_cast<std::size_t>(ordinal);
  return at < kMostKnown ? &all[at] : nullptr;
}

CUresult retain(int ordinal, CUcontext& context) {
  CUdevice device = 0;
  if (const CUresult code = driver().device(&device, ordinal); !works(code)) return code;
  const CUresult code = driver().retain(&context, device);
  if (Known* const kept = known(ordinal); works(code) && kept != nullptr) {
    ++kept->retained;
    kept->context.store(context, std::memory_order_release);
  }
  return code;
}

CUresult find_context(int ordinal, CUcontext& context) {
  if (const Known* const kept = known(ordinal); kept != nullptr)
    context = kept->context.load(std::memory_order_acquire);
  return context != nullptr ? CUDA_SUCCESS : retain(ordinal, context);
}

CUresult make_current(int ordinal) {
  if (!driver().is_whole()) return CUDA_ERROR_NOT_FOUND;
  CUcontext context = nullptr;
  const CUresult code = find_context(ordinal, context);
  return works(code) ? driver().make_current(context) : code;
}

}  // namespace

DeviceScope::DeviceScope() {
  if (!driver().is_whole()) return;
  is_known_ = works(driver().current(&before_));
  has_mode_ = works(driver().exchange(&mode_before_));
}

DeviceScope::~DeviceScope() {
  if (is_known_ && now_ >= 0) works(driver().make_current(before_));
  if (has_mode_) works(driver().exchange(&mode_before_));
}

void DeviceScope::use(int ordinal) {
  if (ordinal == now_) return;
  check(make_current(ordinal), "the context of a device");
  now_ = ordinal;
}

bool DeviceScope::try_use(int ordinal) {
  if (ordinal != now_ && works(make_current(ordinal))) now_ = ordinal;
  return ordinal == now_;
}

void keep_device(int ordinal) {
  thread_local int kept = -1;
  if (ordinal == kept) return;
  check(make_current(ordinal), "the context of a device");
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  works(driver().exchange(&mode));
  kept = ordinal;
}

void retain_context(int ordinal) {
  CUcontext context = nullptr;
  if (driver().is_whole()) works(retain(ordinal, context));
}

void release_context(int ordinal) {
  Known* const kept = known(ordinal);
  CUdevice device = 0;
  if (kept == nullptr || !driver().is_whole() || !works(driver().device(&device, ordinal))) return;
  kept->context.store(nullptr);
  for (int times = kept->retained.exchange(0); times > 0; --times) works(driver().release(device));
}

}  // namespace fleet::cuda
