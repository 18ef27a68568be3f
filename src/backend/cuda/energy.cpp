// SPDX-License-Identifier: BSD-3-Clause
// energy.cpp: NVML is part of the driver, so it is looked for when it is needed.
#include "backend/cuda/energy.hpp"

#include <dlfcn.h>

#include <array>

#include "backend/cuda/check.hpp"

namespace fleet::cuda {
namespace {

constexpr int kSuccess = 0;  // NVML_SUCCESS

template <typename Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace

EnergyCounters::EnergyCounters(const std::vector<int>& ordinals) {
  // Never closed: its threads and handlers are the driver's.
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto init = find<int (*)()>(library, "nvmlInit_v2");
  const auto handle_of =
      find<int (*)(const char*, void**)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto read = find<Read>(library, "nvmlDeviceGetTotalEnergyConsumption");
  if (init == nullptr || handle_of == nullptr || read == nullptr || init() != kSuccess) return;
  for (const int ordinal : ordinals) {
    // NVML numbers all GPUs, CUDA the visible ones, so they are matched by bus address.
    std::array<char, 32> address{};
    void* handle = nullptr;
    if (!works(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), ordinal)) ||
        handle_of(address.data(), &handle) != kSuccess)
      return;
    handles_.push_back(handle);
  }
  read_ = read;
}

std::optional<double> EnergyCounters::joules(std::size_t place) const {
  unsigned long long millijoules = 0;
  if (read_ == nullptr || read_(handles_.at(place), &millijoules) != kSuccess) return {};
  return static_cast<double>(millijoules) / 1000;
}

}  // namespace fleet::cuda
