// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_at_once.cpp: runs of several threads on one backend, each with a GPU of its own, in
// streams and as graphs. A machine's only GPU is there twice: streams, arenas and graphs are by
// device of the backend.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backend/device_library.hpp"
#include "base/error.hpp"
#include "run/execute.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;

std::unique_ptr<Backend> two_devices() {
  std::string why;
  const int count = device_library({}).count(why);
  if (count == 0) throw Error(Status::unsupported, "these tests need a GPU");
  return device_library({}).open({}, count > 1 ? std::vector<int>{0, 1} : std::vector<int>{0, 0});
}

/// One thread's products on one device, whose results are known: elements are small integers.
class Products {
 public:
  Products(Backend& backend, std::mutex& begins, DeviceId device)
      : backend_(backend), begins_(begins), device_(device), random_(device) {}

  void compute() {
    for (int trial = 0; trial < test::scaled(40) && wrong_.empty(); ++trial) compute_one(trial);
  }
  const std::string& wrong() const { return wrong_; }

 private:
  void compute_one(int trial) {
    const std::int64_t m = between(random_, 1, 700), n = between(random_, 1, 700),
                       k = between(random_, 1, 700);
    const DeviceId home = between(random_, 0, 1) == 0 ? kHost : device_;
    Problem problem = make_problem({.m = m, .n = n, .k = k}, {.homes = {home, kHost, home}});
    problem.operands[kC].access = Access::write;
    Tuning tuning;
    tuning.workers = {device_};
    tuning.grid = {1, 1};
    tuning.tile = between(random_, 64, 400);
    const Plan plan = make_plan(problem, backend_.machine(), tuning);
    const std::int64_t elements[] = {m * k, k * n, m * n};
    std::vector<double> host[3];
    Arguments arguments{.alpha = 1.0, .beta = 0.0};
    arguments.ld = {m, k, m};
    for (std::size_t x = 0; x < 3; ++x) {
      host[x].assign(static_cast<std::size_t>(elements[x]), x == kC ? 0.0 : 1.0 + trial % 3);
      const std::int64_t bytes = elements[x] * std::int64_t{sizeof(double)};
      arguments.data[x] = backend_.allocate(problem.operands[x].home, bytes);
      move(problem.operands[x].home, arguments.data[x], kHost, host[x].data(), elements[x]);
    }
    const double one = 1.0 + trial % 3, right = one * one * static_cast<double>(k);
    const auto serial = static_cast<std::uint64_t>(1000 * device_ + trial);
    for (int round = 0; round < 8 && wrong_.empty(); ++round) {  // streams, a capture, replays
      const Binding binding = bind(*plan.program, {&arguments, 1});
      std::unique_ptr<Execution> run;
      {
        const std::lock_guard lock(begins_);
        run = backend_.begin(plan, binding, serial);
      }
      const Trace trace = complete(plan, binding, *run);
      if (trace.status != Status::ok) wrong_ = trace.message;
      move(kHost, host[kC].data(), problem.operands[kC].home, arguments.data[kC], elements[kC]);
      for (double& x : host[kC]) {
        if (x != right && wrong_.empty())
          wrong_ = to_text(problem) + " round " + std::to_string(round) + ": " + std::to_string(x) +
                   " in place of " + std::to_string(right);
        x = 0;
      }
    }
    for (std::size_t x = 0; x < 3; ++x)
      backend_.release(problem.operands[x].home, arguments.data[x]);
  }

  void move(DeviceId to, void* target, DeviceId from, const void* source, std::int64_t elements) {
    backend_.transfer(
        to, {.data = target, .rows = elements, .cols = 1, .ld = elements}, from,
        {.data = const_cast<void*>(source), .rows = elements, .cols = 1, .ld = elements},
        sizeof(double));
  }

  Backend& backend_;
  std::mutex& begins_;
  const DeviceId device_;
  test::Generator random_;
  std::string wrong_;
};

TEST(CudaAtOnce, RunsOfTwoThreadsOnTheirOwnDevicesAreRight) {
  const auto backend = two_devices();
  std::mutex begins;
  Products first(*backend, begins, kFirstDevice), second(*backend, begins, kFirstDevice + 1);

  std::thread other([&] { second.compute(); });
  first.compute();
  other.join();

  EXPECT_EQ(first.wrong(), "");
  EXPECT_EQ(second.wrong(), "");
}

}  // namespace
}  // namespace fleet
