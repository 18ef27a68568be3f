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

  CUresult (*exchange)(CUstreamCaptureMode*) =
      driver_function<decltype(exchange)>("cuThreadExchangeStreamCaptureMode");

  bool is_whole() const {
    return current != nullptr && make_current != nullptr && device != nullptr &&
           retain != nullptr && exchange != nullptr;
  }
};

const Driver& driver() {
  static const Driver all;
  return all;
}

/// The context that the runtime uses on a device, kept to the end of the process. The first call
/// makes it, which takes tenths of a second: side by side for several devices.
CUresult find_context(int ordinal, CUcontext& context) {
  constexpr std::size_t kKnownDevices = 64;  // more of them are asked for each time
  static std::array<std::atomic<CUcontext>, kKnownDevices> known{};
  const auto at = static_cast<std::size_t>(ordinal);
  if (at < kKnownDevices) context = known[at].load(std::memory_order_acquire);
  if (context != nullptr) return CUDA_SUCCESS;
  CUdevice device = 0;
  if (const CUresult code = driver().device(&device, ordinal); !works(code)) return code;
  const CUresult code = driver().retain(&context, device);
  if (works(code) && at < kKnownDevices) known[at].store(context, std::memory_order_release);
  return code;
}

CUresult make_current(int ordinal) {
  if (!driver().is_whole()) return CUDA_ERROR_NOT_FOUND;
  CUcontext context = nullptr;
  const CUresult code = find_context(ordinal, context);
  return works(code) ? driver().make_current(context) : code;
}

}  // namespace

DeviceScope::DeviceScope() {
  has_driver_ = driver().is_whole() && works(driver().current(&before_)) &&
                works(driver().exchange(&mode_before_));
}

DeviceScope::~DeviceScope() {
  if (!has_driver_) return;
  if (now_ >= 0) works(driver().make_current(before_));
  works(driver().exchange(&mode_before_));
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
  check(make_current(ordinal), "the context of a device");
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  works(driver().exchange(&mode));
}

}  // namespace fleet::cuda
