// SPDX-License-Identifier: BSD-3-Clause
// fake_gpus.hpp: controls of the fake GPUs for tests, and memory that a program allocates on them
// without the library. It knows no context.
#pragma once
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fleet::test {

struct FakeGpus {
  std::atomic<int> count{2};
  /// Duration of opening them, so that other threads can arrive meanwhile.
  std::atomic<int> open_ms{0};
  std::atomic<bool> refuses_to_open{false};
  std::atomic<int> full{-1};        ///< one on which nothing can be opened
  std::atomic<bool> answers{true};  ///< GPUs say where memory lies
  std::atomic<int> opened{0};       ///< number of attempts to open them
  /// Allocates memory on a GPU as a program does without the library.
  void* (*allocate)(int gpu, std::int64_t bytes) = nullptr;
  void (*release)(void* data) = nullptr;

  /// What is to be told when the work in a stream of the program is done. Never told by themselves.
  std::vector<std::function<void(const char*)>> recorded;
  bool loads_kernels = false;  ///< their first launches must not come while streams are held
  std::atomic<int> held{0};    ///< streams of the program that wait for an event

  /// Text of a machine: GPUs opened from now on are simulated on it. Their runs compute nothing,
  /// and say how long they would take. Empty: virtual devices.
  std::string simulated;
  std::string later;             ///< text of the machine that they have become; empty: as opened
  std::vector<double> pace;      ///< each simulated run takes this many times as long, in turn
  bool disturbed = false;        ///< other load comes and goes: parts of simulated runs are slower
  std::function<bool()> unpins;  ///< asked whether memory can be unpinned; empty: it can
  std::function<void()> beside;  ///< done during each simulated run
  int runs = 0, timed_runs = 0;  ///< simulated ones; of these, with times of tasks
  double last_s = 0;             ///< seconds of the last simulated run
};

inline constexpr const char* kFakeGpusSymbol = "fleet_fake_gpus";

/// The fake GPUs of this process, which from now on counts as one that uses GPUs; nullptr without
/// them.
inline FakeGpus* fake_gpus() {
  void* library = dlopen(FLEETBLAS_FAKE_GPUS, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto entry = reinterpret_cast<FakeGpus* (*)()>(dlsym(library, kFakeGpusSymbol));
  return entry != nullptr ? entry() : nullptr;
}

}  // namespace fleet::test
