// SPDX-License-Identifier: BSD-3-Clause
// fake_gpus.hpp: what a test tells the library of GPUs that are virtual devices, and what a program
// with memory of its own on GPUs does. It knows no context.
#pragma once
#include <dlfcn.h>

#include <atomic>
#include <cstdint>

namespace fleet::test {

struct FakeGpus {
  std::atomic<int> count{2};
  /// How long opening them takes: time for other threads to come.
  std::atomic<int> open_ms{0};
  std::atomic<bool> refuses_to_open{false};
  std::atomic<int> opened{0};  ///< how often they were to be opened
  /// The program's own memory on a GPU, which no context has given.
  void* (*allocate)(int gpu, std::int64_t bytes) = nullptr;
  void (*release)(void* data) = nullptr;
};

inline constexpr const char* kFakeGpusSymbol = "fleet_fake_gpus";

/// Those of this process, which from now on counts as one that uses GPUs. nullptr without them.
inline FakeGpus* fake_gpus() {
  void* library = dlopen(FLEETBLAS_FAKE_GPUS, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto entry = reinterpret_cast<FakeGpus* (*)()>(dlsym(library, kFakeGpusSymbol));
  return entry != nullptr ? entry() : nullptr;
}

}  // namespace fleet::test
