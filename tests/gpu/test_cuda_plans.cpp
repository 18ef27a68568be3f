// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_plans.cpp: the planner's plans for random problems and rules give the right C on the
// GPUs of this machine, in streams and as graphs, with NaN in all memory that was not written, and
// write nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "base/error.hpp"
#include "gpu/gpus.hpp"
#include "probe/probe.hpp"
#include "support/beside_backend.hpp"
#include "support/host_trial.hpp"
#include "support/level3_trial.hpp"
#include "support/random_plans.hpp"
#include "support/scale.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

using test::between;
using test::Generator;
using test::gpus;
using test::HostTrial;

/// A random problem and plan for all or some of the devices; nothing if it cannot be planned.
struct Case {
  Problem problem;
  Plan plan;
};
std::optional<Case> random_case(Generator& random, const Machine& machine, const Problem& problem,
                                std::int64_t most_tile) {
  Tuning tuning = test::random_tuning(random, machine, problem, most_tile);
  if (tuning.has_cpu()) tuning.workers.pop_back();
  auto plan = test::plan_if_any(problem, machine, tuning);
  if (!plan) return std::nullopt;
  return Case{problem, std::move(*plan)};
}

/// Such calls of other routines than gemm never come to a plan.
bool is_empty(const Problem& problem) { return problem.m == 0 || problem.n == 0 || problem.k == 0; }

struct Ran {
  int most_issuers = 0;  ///< threads that handed over the tasks of one plan
  int in_turn = 0;       ///< plans in which devices send in turn
};

/// Copies and kernels of a product. Plans of so few are handed over by one thread.
constexpr int kFewCalls = 600;
int calls_of(const Plan& plan) {
  int calls = 0;
  for (const Task& task : plan.tasks) calls += task.chunks;
  return calls;
}

/// The machine as if it had been measured behind switches: one link takes all that leaves a device.
Machine behind_switches(Machine machine) {
  for (const Link& link : machine.links)
    if (!on_host(link.source) && !on_host(link.target))
      for (const PortShare& share : link.ports)
        machine.ports[static_cast<std::size_t>(share.port)].capacity = link.bytes_per_s;
  return machine;
}

/// `on_one_device`: all matrices of a problem are at home on one, and devices hang on switches.
Ran expect_right_random_plans(const Options& options, unsigned seed, bool on_one_device = false) {
  Generator random(seed);
  const auto backend = gpus(options);
  const Machine machine = on_one_device ? behind_switches(backend->machine()) : backend->machine();
  Ran ran;
  int run = 0, refused = 0;
  for (int trial = 0; trial < test::scaled(400); ++trial) {
    const std::int64_t most = trial % 8 == 0 ? 400 : 90;
    const int devices = machine.device_count();
    Problem problem = test::random_gemm(random, devices, most);
    const auto home = static_cast<DeviceId>(kFirstDevice + between(random, 0, devices - 1));
    if (on_one_device)
      for (Operand& operand : problem.operands) operand.home = home;
    const auto made = random_case(random, machine, problem, most / 3);
    if (!made) {
      ++refused;
      continue;
    }
    ++run;
    ran.in_turn += sends_in_turn(made->plan);
    const std::string wrong = test::with_type(made->problem.type, [&]<typename T>() {
      HostTrial<T> trial_of(made->problem, random(), between(random, 0, 3));
      const Trace trace = trial_of.run(made->plan, *backend);
      ran.most_issuers = std::max(ran.most_issuers, trace.issuers);
      if (!options.inject.issuers && calls_of(made->plan) <= kFewCalls) {
        EXPECT_EQ(trace.issuers, 0);
      }
      return trace.status == Status::ok ? trial_of.verdict() : trace.message;
    });
    EXPECT_EQ(wrong, "") << to_text(made->problem) << " rules "
                         << to_string(made->plan.tuning.rules) << " trial " << trial;
    if (!wrong.empty()) break;
  }
  EXPECT_GT(run, refused);
  return ran;
}

TEST(Cuda, RandomPlansGiveTheRightC) {
  Options options;
  options.inject.poison = true;
  expect_right_random_plans(options, 20261121);
}

TEST(Cuda, RandomPlansThatAThreadForEachDeviceHandsOverGiveTheRightC) {
  Options options;
  options.inject.poison = options.inject.issuers = true;
  const int devices = static_cast<int>(test::all_gpus().size());
  EXPECT_EQ(expect_right_random_plans(options, 20261126).most_issuers, devices);
}

TEST(Cuda, RandomPlansOfDataOnOneDeviceGiveTheRightC) {
  const std::size_t devices = test::all_gpus().size();
  for (const bool issuers : {false, true}) {
    Options options;
    options.inject.poison = true;
    options.inject.issuers = issuers;
    const Ran ran = expect_right_random_plans(options, 20261127, true);
    EXPECT_TRUE(!issuers || ran.most_issuers == static_cast<int>(devices));
    EXPECT_GT(ran.in_turn, devices > 1 ? test::scaled(20) : -1);
  }
}

TEST(Cuda, RandomPlansWithAPartForTheCpuGiveTheRightC) {
  Generator random(20261123);
  Options options;
  options.inject.poison = true;
  test::BesideBackend backend(gpus(options), test::shared_cpu_blas());
  int run = 0;
  for (int trial = 0; trial < test::scaled(400); ++trial) {
    Problem problem = test::random_gemm(random, backend.machine().device_count(), 200);
    for (Operand& operand : problem.operands) operand.home = kPageable;
    if (!may_have_cpu(problem)) continue;
    const Tuning tuning = test::random_tuning(random, backend.machine(), problem, 60);
    const auto plan = test::plan_if_any(problem, backend.machine(), tuning);
    if (!plan || !tuning.has_cpu()) continue;
    ++run;
    const std::string wrong = test::with_type(problem.type, [&]<typename T>() {
      HostTrial<T> trial_of(problem, random(), between(random, 0, 3));
      const Trace trace = trial_of.run(*plan, backend);
      return trace.status == Status::ok ? trial_of.verdict() : trace.message;
    });
    ASSERT_EQ(wrong, "") << to_text(problem) << " rules " << to_string(tuning.rules) << " trial "
                         << trial;
  }
  EXPECT_GT(run, 0);
}

TEST(Cuda, RandomPlansWithTrianglesGiveTheRightC) {
  Generator random(20261122);
  Options options;
  options.inject.poison = true;
  const auto backend = gpus(options);
  const int devices = backend->machine().device_count();
  int run = 0, refused = 0;
  for (int trial = 0; trial < test::scaled(400); ++trial) {
    // Tiles of the large ones are copied in several panels, and multiplied in several leaves.
    const bool large = trial % 16 == 0;
    const Problem problem = test::random_level3(random, devices, large ? 900 : 90);
    if (is_empty(problem)) continue;
    const auto made = random_case(random, backend->machine(), problem, large ? 900 : 30);
    if (!made) {
      ++refused;
      continue;
    }
    ++run;
    const std::string wrong = test::with_blas_type(problem.type, [&]<typename T>() {
      test::Level3Trial<T> trial_of(problem, random(), between(random, 0, 3));
      const Trace trace = trial_of.run(made->plan, *backend);
      return trace.status == Status::ok ? trial_of.verdict() : trace.message;
    });
    ASSERT_EQ(wrong, "") << to_text(problem) << " rules " << to_string(made->plan.tuning.rules)
                         << " trial " << trial;
  }
  EXPECT_GT(run, refused);
}

TEST(Cuda, GraphsGiveWhatStreamsGive) {
  Generator random(7);
  const auto backend = gpus();
  const int devices = backend->machine().device_count();
  for (int trial = 0; trial < test::scaled(80); ++trial) {
    const std::int64_t most = trial % 16 == 1 ? 900 : 200;
    Problem problem = trial % 2 == 0 ? test::random_gemm(random, devices, most)
                                     : test::random_level3(random, devices, most);
    if (trial % 2 != 0 && is_empty(problem)) continue;
    problem.type =
        is_complex(problem.type.storage) && trial % 2 != 0 ? DataType::c64 : DataType::f64;
    problem.batch = 1;
    for (Operand& operand : problem.operands) operand.home = kHost;
    const bool in_place = problem.traits().triangular;
    if (!in_place) problem.operands[kC].access = Access::write;  // each run gives the same
    const auto made = random_case(random, backend->machine(), problem, most > 200 ? most : 70);
    if (!made) continue;
    const auto bytes_at = [&](int x) {
      const Operand& operand = problem.operands[static_cast<std::size_t>(x)];
      return std::max<std::int64_t>(8,
                                    operand.rows * operand.cols * bytes_of(problem.type.storage));
    };
    Arguments arguments{.alpha = 1.5, .beta = 0};
    for (int x = 0; x < 3; ++x) {
      const auto at = static_cast<std::size_t>(x);
      arguments.data[at] = backend->allocate(kHost, bytes_at(x));
      arguments.ld[at] = std::max<std::int64_t>(1, problem.operands[at].rows);
      auto* numbers = static_cast<double*>(arguments.data[at]);
      for (std::int64_t i = 0; i < bytes_at(x) / 8; ++i)
        numbers[i] = static_cast<double>(between(random, -1000, 1000)) / 997;
    }
    const auto* c = static_cast<const double*>(arguments.data[kC]);
    std::vector<double> unset(static_cast<std::size_t>(bytes_at(kC) / 8), 1e300);
    if (in_place) {
      unset.assign(c, c + unset.size());
      // Nothing grows beyond all numbers.
      auto* a = static_cast<double*>(arguments.data[kA]);
      const std::int64_t words = bytes_of(problem.type.storage) / 8,
                         order = problem.operands[kA].rows;
      for (std::int64_t i = 0; i < order * order * words; ++i) a[i] /= static_cast<double>(order);
      for (std::int64_t i = 0; i < order; ++i) a[i * (order + 1) * words] = 2;
    }
    std::vector<double> by_streams;
    for (int round = 0; round < 8; ++round) {  // streams, a capture, replays
      std::copy(unset.begin(), unset.end(), static_cast<double*>(arguments.data[kC]));
      const Trace trace =
          execute(made->plan, arguments, *backend, static_cast<std::uint64_t>(trial) + 1);
      ASSERT_EQ(trace.status, Status::ok) << trace.message << " round " << round;
      const std::vector<double> got(c, c + unset.size());
      if (round == 0) by_streams = got;
      ASSERT_EQ(got, by_streams) << to_text(problem) << " round " << round;
    }
    for (int x = 0; x < 3; ++x)
      backend->release(kHost, arguments.data[static_cast<std::size_t>(x)]);
  }
}

TEST(Cuda, AFaultLeavesEnoughToFinishOnTheCpu) {
  Generator random(3);
  for (int trial = 0; trial < test::scaled(60); ++trial) {
    Options options;
    options.inject.issuers = trial >= test::scaled(30);
    const int kind = trial % 3;
    if (kind == 0) options.inject.copy = between(random, 1, 60);
    if (kind == 1) options.inject.launch = between(random, 1, 30);
    if (kind == 2) options.inject.lost = Inject::Lost{0, between(random, 1, 20)};
    const auto backend = gpus(options);
    Problem problem = test::random_gemm(random, backend->machine().device_count(), 150);
    problem.type = DataType::f64;
    problem.batch = 1;
    // What was on a lost device is lost.
    const bool on_one_device = kind != 2 && trial % 2 == 1;
    for (Operand& operand : problem.operands) operand.home = on_one_device ? kFirstDevice : kHost;
    const auto made = random_case(random, behind_switches(backend->machine()), problem, 40);
    if (!made) continue;
    HostTrial<double> run(problem, random(), 1);
    const Trace trace = run.run(made->plan, *backend, true);
    ASSERT_EQ(run.verdict(), "") << to_text(problem) << " " << trace.message << " trial " << trial;
  }
}

TEST(Cuda, ADeviceSendsInTheOrderOfThePlan) {
  if (test::all_gpus().size() < 2) GTEST_SKIP() << "one GPU has none to send to";
  const auto backend = gpus({});
  const Machine machine = behind_switches(backend->machine());
  const Problem problem = make_problem({.m = 4096, .n = 4096, .k = 64},
                                       {.homes = {kFirstDevice, kFirstDevice, kFirstDevice}});
  const Plan plan = tune(problem, machine, {.tile = 2048}).plan;
  ASSERT_TRUE(sends_in_turn(plan));
  backend->keep_times(true);
  HostTrial<double> run(problem, 1, 1);
  const Trace trace = run.run(plan, *backend);
  ASSERT_EQ(run.verdict(), "");
  const std::vector<DeviceId> sent_by = senders(plan);
  std::vector<double> sent_s(machine.devices.size(), 0);
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    if (sent_by[static_cast<std::size_t>(task.queue)] < 0) continue;
    double& before_s = sent_s[static_cast<std::size_t>(task.from.device)];
    EXPECT_GE(trace.spans[id].start_s, before_s - 1e-6) << "task " << id;
    before_s = trace.spans[id].stop_s;
  }
}

/// A square matrix at some location, with one more row than the square between its columns.
template <typename Part>
class Square {
 public:
  using Element = std::complex<Part>;  // of several words, and aligned to one
  static constexpr int kBytes = sizeof(Element);
  Square(Backend& backend, DeviceId location, std::int64_t edge)
      : backend_(backend), location_(location), edge_(edge) {
    const std::int64_t bytes = (ld() * edge + 1) * std::int64_t{kBytes};
    if (location == kPageable) pageable_.resize(static_cast<std::size_t>(bytes));
    memory_ = location == kPageable ? pageable_.data() : backend.allocate(location, bytes);
  }
  ~Square() {
    if (location_ != kPageable) backend_.release(location_, memory_);
  }
  Square(const Square&) = delete;
  Square& operator=(const Square&) = delete;

  View view(Fill fill) const {
    return {static_cast<char*>(memory_) + sizeof(Part), edge_, edge_, ld(), fill};
  }
  /// All of it, with what is between the columns.
  View whole() const { return {view(Fill::full).data, ld(), edge_, ld()}; }
  void set(std::vector<Element> elements) {
    backend_.transfer(location_, whole(), kPageable, {elements.data(), ld(), edge_, ld()}, kBytes);
  }
  std::vector<Element> get() const {
    std::vector<Element> elements(static_cast<std::size_t>(ld() * edge_));
    backend_.transfer(kPageable, {elements.data(), ld(), edge_, ld()}, location_, whole(), kBytes);
    return elements;
  }
  std::int64_t ld() const { return edge_ + 1; }

 private:
  Backend& backend_;
  DeviceId location_;
  std::int64_t edge_;
  std::vector<char> pageable_;
  void* memory_ = nullptr;
};

template <typename Part>
void transfer_triangles() {
  using Element = Square<Part>::Element;
  const auto backend = gpus();
  std::vector<DeviceId> locations = {kPageable, kHost, kFirstDevice};
  if (backend->machine().device_count() > 1) locations.push_back(kFirstDevice + 1);
  for (const DeviceId from : locations)
    for (const DeviceId to : locations)
      for (const Fill fill : {Fill::lower, Fill::upper})
        for (const std::int64_t edge : {1, 37, 600}) {
          Square<Part> source(*backend, from, edge), target(*backend, to, edge);
          std::vector<Element> sent(static_cast<std::size_t>(source.ld() * edge));
          for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = {static_cast<Part>(i), 1};
          const std::vector<Element> before(sent.size(), {-1, -1});
          source.set(sent);
          target.set(before);

          backend->transfer(to, target.view(fill), from, source.view(fill), Square<Part>::kBytes);

          const std::vector<Element> got = target.get();
          for (std::int64_t col = 0; col < edge; ++col)
            for (std::int64_t row = 0; row < source.ld(); ++row) {
              const auto at = static_cast<std::size_t>(row + col * source.ld());
              const bool moved = row < edge && (fill == Fill::lower ? row >= col : row <= col);
              ASSERT_EQ(got[at], moved ? sent[at] : before[at])
                  << place_word(from) << "->" << place_word(to) << " edge " << edge << " (" << row
                  << ", " << col << ")";
            }
        }
}

TEST(Cuda, TransfersOfTrianglesWriteNothingElse) {
  transfer_triangles<double>();
  transfer_triangles<float>();
}

TEST(Cuda, MemoryIsFoundByItsAddress) {
  const auto backend = gpus();
  const int devices = backend->machine().device_count();
  void* pinned = backend->allocate(kHost, 1 << 20);
  EXPECT_EQ(backend->locate(pinned, 1 << 20), kHost);
  std::vector<char> heap(1 << 20);
  EXPECT_EQ(backend->locate(heap.data(), 1 << 20), kPageable);
  for (DeviceId d = kFirstDevice; d < kFirstDevice + devices; ++d) {
    void* data = backend->allocate(d, 1000);
    EXPECT_EQ(backend->locate(data, 1000), d);
    backend->release(d, data);
  }
  ASSERT_TRUE(backend->pin(heap.data(), 1 << 20));
  EXPECT_EQ(backend->locate(heap.data(), 1 << 20), kHost);
  EXPECT_FALSE(backend->pin(heap.data(), 1 << 20));
  backend->unpin(heap.data());
  EXPECT_EQ(backend->locate(heap.data(), 1 << 20), kPageable);
  backend->release(kHost, pinned);
}

TEST(Cuda, TheQuickProbeFindsAMachineThatMakesSense) {
  const auto backend = gpus();
  const auto start = std::chrono::steady_clock::now();
  const Machine machine = probe(*backend, 1.5);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  RecordProperty("seconds", std::to_string(seconds));
  std::printf("quick probe: %.2f s\n%s\n", seconds, to_json(machine).c_str());
  for (const Link& link : machine.links) {
    EXPECT_GT(link.bytes_per_s, 1e9);
    EXPECT_LT(link.latency_s, 1e-3);
  }
  for (std::size_t d = kFirstDevice; d < machine.devices.size(); ++d)
    EXPECT_GT(machine.best_rate(static_cast<DeviceId>(d), DataType::f32), 1e12);
}

}  // namespace
}  // namespace fleet
