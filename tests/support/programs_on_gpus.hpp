// SPDX-License-Identifier: BSD-3-Clause
// programs_on_gpus.hpp: programs whose GPUs are virtual devices behind a device library
// (fake_gpus.cpp), and the products that they make. It knows nothing below the C API.
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backend/host/machine.hpp"
#include "fleetblas/fleetblas.h"
#include "support/fake_gpus.hpp"
#include "support/host_context.hpp"
#include "support/processes.hpp"

namespace fleet::test {

inline constexpr int kGpus = 2;

inline std::string machine_file() {
  const std::string file = temporary_file("gpus.json");
  std::ofstream(file) << to_json(host_machine(kGpus, 2, std::int64_t{1} << 30));
  return file;
}

/// Options that send all products to the fake GPUs, by plans for a machine with placeholder rates.
inline std::string gpu_options(const std::string& backend) {
  return "backend=" + backend +
         ";offload=always;online=off;tile=32;device_library=" FLEETBLAS_FAKE_GPUS ";machine=" +
         machine_file();
}

/// The same as environment variables, for the default context.
inline void set_environment(const std::string& backend) {
  setenv("FLEETBLAS_BACKEND", backend.c_str(), 1);
  setenv("FLEETBLAS_OFFLOAD", "always", 1);
  setenv("FLEETBLAS_ONLINE", "off", 1);
  setenv("FLEETBLAS_TILE", "32", 1);
  setenv("FLEETBLAS_DEVICE_LIBRARY", FLEETBLAS_FAKE_GPUS, 1);
  setenv("FLEETBLAS_MACHINE", machine_file().c_str(), 1);
}

/// The fake GPUs in their initial state.
inline FakeGpus& gpus() {
  FakeGpus* const fake = fake_gpus();
  if (fake == nullptr) std::abort();
  fake->count = kGpus;
  fake->open_ms = 0;
  fake->refuses_to_open = false;
  fake->opened = 0;
  return *fake;
}

/// c = a * ones + 2 * ones: every element becomes edge + 2 if `a` is all ones.
inline fleet_status multiply_by_ones(fleet_context* context, std::int64_t edge, const double* a,
                                     std::vector<double>& c) {
  const std::vector<double> ones(static_cast<std::size_t>(edge * edge), 1.0);
  c = ones;
  return fleet_dgemm(context, FLEET_NO_TRANS, FLEET_NO_TRANS, edge, edge, edge, 1.0, a, edge,
                     ones.data(), edge, 2.0, c.data(), edge);
}

inline bool multiply(fleet_context* context, std::int64_t edge) {
  const std::vector<double> ones(static_cast<std::size_t>(edge * edge), 1.0);
  std::vector<double> c;
  return multiply_by_ones(context, edge, ones.data(), c) == FLEET_OK &&
         c == std::vector<double>(c.size(), static_cast<double>(edge) + 2);
}

/// Whether `give` gives a text.
template <typename Give, typename... Words>
bool gives_text(fleet_context* context, Give give, Words... words) {
  char* text = nullptr;
  const bool given = give(context, words..., &text) == FLEET_OK && text != nullptr;
  fleet_free_text(text);
  return given;
}

/// Memory of the program on a GPU, all ones.
class OnGpu {
 public:
  OnGpu(FakeGpus& gpus, int gpu, std::int64_t elements)
      : gpus_(gpus), data_(static_cast<double*>(gpus.allocate(gpu, elements * 8))) {
    std::fill_n(data_, elements, 1.0);
  }
  ~OnGpu() { gpus_.release(data_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  const double* data() const { return data_; }

 private:
  FakeGpus& gpus_;
  double* data_;
};

/// Looks like GPU memory to the CPU: addresses of this process without pages.
inline const double* nobodys_memory(std::int64_t elements) {
  return static_cast<const double*>(mmap(nullptr, static_cast<std::size_t>(elements) * 8, PROT_NONE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

/// Runs `test` in a process that has not called the library before. It must write `output` to
/// stderr.
template <typename Test>
void in_a_program_of_its_own(Test&& test, const std::string& output = "") {
  const Ended ended = run_program(
      [&] {
        test(gpus());
        std::fflush(stdout);
        return testing::Test::HasFailure() ? 1 : 7;
      },
      120);
  EXPECT_EQ(ended.code, 7) << ended.output;
  EXPECT_NE(ended.output.find(output), std::string::npos) << ended.output;
}

/// Runs all jobs at once; "" if every one returned true, else the failed ones with their last
/// messages.
inline std::string at_once(const std::vector<std::function<bool()>>& jobs) {
  std::atomic<bool> go{false};
  std::vector<std::string> complaints(jobs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    threads.emplace_back([&, i] {
      while (!go) std::this_thread::yield();
      if (!jobs[i]()) complaints[i] = "job " + std::to_string(i) + ": " + fleet_message() + "\n";
    });
  go = true;
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& complaint : complaints) all += complaint;
  return all;
}

}  // namespace fleet::test
