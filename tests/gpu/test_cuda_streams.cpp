// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_streams.cpp: queued calls after the program's streams, and its streams after queued
// calls, on the GPUs of this machine. It knows the public header and the driver.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fleetblas/fleetblas.hpp"

namespace fleet {
namespace {

using fleetblas::Context;
using fleetblas::Event;

constexpr unsigned kNonBlocking = 1;
constexpr const char* kOptions = "backend=cuda;offload=always";
constexpr auto kPatience = std::chrono::seconds(60);

/// Streams of the first GPU, as a program without this library has them.
class Stream {
 public:
  explicit Stream(unsigned flags = kNonBlocking) {
    void* context = nullptr;
    call<unsigned>("cuInit", 0U);
    call<void**, int>("cuDevicePrimaryCtxRetain", &context, 0);
    call<void*>("cuCtxSetCurrent", context);
    call<void**, unsigned>("cuStreamCreate", &stream_, flags);
  }
  ~Stream() { call<void*>("cuStreamDestroy_v2", stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void* handle() const { return stream_; }
  bool is_empty() const { return function<int (*)(void*)>("cuStreamQuery")(stream_) == 0; }
  bool is_empty_soon() const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!is_empty() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return is_empty();
  }
  /// From the GPU.
  void copy(void* to, const void* from, std::size_t bytes) const {
    call<void*, std::uint64_t, std::size_t, void*>(
        "cuMemcpyDtoHAsync_v2", to, reinterpret_cast<std::uint64_t>(from), bytes, stream_);
  }

 private:
  template <typename Function>
  static Function function(const char* name) {
    static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
    return reinterpret_cast<Function>(dlsym(driver, name));
  }
  template <typename... Arguments>
  static void call(const char* name, Arguments... arguments) {
    ASSERT_EQ(function<int (*)(Arguments...)>(name)(arguments...), 0) << name;
  }

  void* stream_ = nullptr;
};

/// A matrix of ones, or undefined, at a place.
fleetblas::Matrix<double> ones(const Context& context, std::int64_t edge, const char* place) {
  fleetblas::Matrix<double> matrix(context, edge, edge, place);
  const std::vector<double> data(static_cast<std::size_t>(edge * edge), 1.0);
  context.copy(matrix.data(), data.data(), data.size() * sizeof(double));
  return matrix;
}

/// The event says that the product is computed, and at home.
Event multiply(const Context& context, const fleetblas::Matrix<double>& a,
               const fleetblas::Matrix<double>& c) {
  fleetblas::check(fleet_dgemm_async(context.handle(), FLEET_NO_TRANS, FLEET_NO_TRANS, 1.0,
                                     a.handle(), a.handle(), 0.0, c.handle(), nullptr));
  return c.read_async();
}

/// Waits, but not for ever.
bool done_soon(const Event& event) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!event.done() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return event.done();
}

constexpr auto kMoment = std::chrono::milliseconds(50);

TEST(CudaStreams, GoOnAfterAnEventAndEventsComeAfterThem) {
  const Context context(kOptions);
  const Stream stream;
  const Event go = Event::create();
  context.stream_after(0, stream.handle(), go);
  const Event passed = Event::record(context, 0, stream.handle());
  std::this_thread::sleep_for(kMoment);
  EXPECT_FALSE(stream.is_empty());
  EXPECT_FALSE(passed.done());

  go.set();

  EXPECT_TRUE(done_soon(passed));
  EXPECT_NO_THROW(passed.wait());
  EXPECT_TRUE(stream.is_empty_soon());
}

TEST(CudaStreams, GoOnAfterEventsThatAreDoneOrFail) {
  const Context context(kOptions);
  const Stream stream;
  const Event done = Event::create(), fails = Event::create();
  done.set();
  context.stream_after(0, stream.handle(), done);
  EXPECT_TRUE(stream.is_empty_soon());
  context.stream_after(0, stream.handle(), fails);
  EXPECT_FALSE(stream.is_empty());

  fails.set(FLEET_DEVICE_FAILED);

  EXPECT_TRUE(stream.is_empty_soon());
}

TEST(CudaStreams, SeeTheResultOfACall) {
  constexpr std::int64_t kEdge = 2000;
  const Context context(kOptions);
  const Stream stream;
  const auto a = ones(context, kEdge, "h"), c = ones(context, kEdge, "0");
  const fleetblas::Matrix<double> copy(context, kEdge, kEdge, "h");
  for (int round = 0; round < 5; ++round) {
    const Event event = multiply(context, a, c);
    context.stream_after(0, stream.handle(), event);
    std::fill_n(copy.data(), kEdge * kEdge, 0.0);
    stream.copy(copy.data(), c.data(), kEdge * kEdge * sizeof(double));

    ASSERT_TRUE(done_soon(Event::record(context, 0, stream.handle())));

    EXPECT_EQ(std::count(copy.data(), copy.data() + kEdge * kEdge, double{kEdge}), kEdge * kEdge);
  }
}

TEST(CudaStreams, HoldCallsOnAMatrix) {
  constexpr std::int64_t kEdge = 500;
  const Context context(kOptions);
  const Stream stream;
  const auto a = ones(context, kEdge, "0"), c = ones(context, kEdge, "0"),
             d = ones(context, kEdge, "h");
  const Event go = Event::create();
  context.stream_after(0, stream.handle(), go);
  c.after(Event::record(context, 0, stream.handle()));

  const Event held = multiply(context, a, c), other = multiply(context, a, d);

  EXPECT_TRUE(done_soon(other));
  EXPECT_FALSE(held.done());
  go.set();
  EXPECT_TRUE(done_soon(held));
  EXPECT_NO_THROW(held.wait());
}

/// Arenas grow, pageable memory is copied: nothing of it may wait for the device.
TEST(CudaStreams, MayAllBeHeldWhileTheCallIsComputed) {
  for (const unsigned flags : {kNonBlocking, 0U}) {
    const Context context(kOptions), fresh(kOptions);
    const Stream stream(flags);
    const Event go = Event::create();
    const auto small = ones(context, 300, "h"), small_result = ones(context, 300, "h");
    multiply(context, small, small_result).wait();
    const auto first = ones(fresh, 300, "h"), first_result = ones(fresh, 300, "h");
    multiply(fresh, first, first_result).wait();  // it starts its devices
    std::vector<double> pageable(3000 * 3000, 1.0), result(3000 * 3000);
    const fleetblas::Matrix<double> a(context, 3000, 3000, pageable.data(), 3000),
        c(context, 3000, 3000, result.data(), 3000), a_fresh(fresh, 300, 300, pageable.data(), 300),
        c_fresh(fresh, 300, 300, result.data(), 300);
    a.after(go);
    const Event event = multiply(context, a, c);
    context.stream_after(0, stream.handle(), event);
    context.stream_after(0, nullptr, event);  // the default stream
    c_fresh.after(event);
    const Event second = multiply(fresh, a_fresh, c_fresh);
    fresh.stream_after(0, stream.handle(), second);
    EXPECT_FALSE(stream.is_empty());

    go.set();

    ASSERT_TRUE(done_soon(event)) << flags;
    EXPECT_NO_THROW(event.wait());
    EXPECT_EQ(result[3000 * 3000 - 1], 3000);
    ASSERT_TRUE(done_soon(second)) << flags;
    EXPECT_EQ(result[0], 300);
    EXPECT_TRUE(stream.is_empty_soon());
  }
}

// Where memory is short from the start (alloc:2), no probe has made cuBLAS load its kernels.
TEST(CudaStreams, MayBeHeldWhileACallIsFinishedElsewhere) {
  constexpr std::int64_t kEdge = 2000;
  for (const char* fault : {"copy:5", "launch:2", "alloc:2"}) {
    const Context context(std::string(kOptions) + ";tile=512;inject=" + fault);
    const Stream stream;
    std::vector<double> data(kEdge * kEdge, 1.0), result(kEdge * kEdge);
    const fleetblas::Matrix<double> a(context, kEdge, kEdge, data.data(), kEdge),
        c(context, kEdge, kEdge, result.data(), kEdge);
    const Event go = Event::create();
    a.after(go);
    const Event event = multiply(context, a, c);
    context.stream_after(0, stream.handle(), event);
    context.stream_after(0, nullptr, event);

    go.set();

    ASSERT_TRUE(done_soon(event)) << fault;
    EXPECT_NO_THROW(event.wait()) << fault;
    EXPECT_EQ(std::count(result.begin(), result.end(), double{kEdge}), kEdge * kEdge) << fault;
    EXPECT_TRUE(stream.is_empty_soon());
  }
}

TEST(CudaStreams, MayBeHeldAnyNumberOfTimes) {
  const Context context(kOptions);
  const Stream stream;
  for (int round = 0; round < 3; ++round) {
    std::vector<Event> events;
    for (int i = 0; i < 3000; ++i) {
      events.push_back(Event::create());
      context.stream_after(0, stream.handle(), events.back());
      if (i % 100 == 99)  // a stream takes a limited number of entries before it makes callers wait
        for (const Event& event : std::exchange(events, {})) event.set();
    }
    ASSERT_TRUE(stream.is_empty_soon());
  }
}

/// Of a call whose kernels nobody has loaded.
template <typename T, typename Queue>
bool ends_while_streams_wait(const Queue& queue) {
  constexpr std::int64_t kEdge = 700;
  const Context context(kOptions);
  const Stream stream;
  const Event go = Event::create();
  std::vector<T> data(kEdge * kEdge), result(kEdge * kEdge);
  const fleetblas::Matrix<T> a(context, kEdge, kEdge, data.data(), kEdge),
      c(context, kEdge, kEdge, result.data(), kEdge);
  a.after(go);
  fleetblas::check(queue(context.handle(), a.handle(), c.handle()));
  const Event event = c.read_async();
  context.stream_after(0, stream.handle(), event);
  context.stream_after(0, nullptr, event);
  go.set();
  return done_soon(event) && stream.is_empty_soon();
}

/// With the number of the first that does not end.
[[noreturn]] void leave_after_first_calls() {
  using Z = std::complex<double>;
  const bool ends[] = {
      ends_while_streams_wait<Z>([](auto* context, auto* a, auto* c) {
        static const Z one{1}, zero{0};
        return fleet_zgemm_async(context, FLEET_NO_TRANS, FLEET_NO_TRANS, &one, a, a, &zero, c,
                                 nullptr);
      }),
      ends_while_streams_wait<double>([](auto* context, auto* a, auto* c) {
        return fleet_dtrsm_async(context, FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS, FLEET_UNIT, 1.0,
                                 a, c, nullptr);
      }),
      ends_while_streams_wait<double>([](auto* context, auto* a, auto* c) {
        return fleet_dtrmm_async(context, FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS, FLEET_UNIT, 1.0,
                                 a, c, nullptr);
      }),
      ends_while_streams_wait<double>([](auto* context, auto* a, auto* c) {
        return fleet_dsyrk_async(context, FLEET_LOWER, FLEET_NO_TRANS, 1.0, a, 0.0, c, nullptr);
      }),
  };
  std::_Exit(static_cast<int>(std::ranges::find(ends, false) - std::begin(ends)));
}

TEST(CudaStreams, MayBeHeldByTheFirstCallsOfTheirKind) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(leave_after_first_calls(), testing::ExitedWithCode(4), "");
}

// The driver would wait for the stream, and the calls of all others for the driver.
TEST(CudaStreams, AreWaitedForWhereMemoryIsUnpinnedAndCallsGoOn) {
  for (const unsigned flags : {kNonBlocking, 0U}) {
    const Context context(kOptions);
    const Stream stream(flags);
    const Event go = Event::create();
    const auto a = ones(context, 500, "h"), c = ones(context, 500, "h");
    multiply(context, a, c).wait();
    std::vector<double> data(std::size_t{1} << 22);
    fleetblas::check(fleet_host_register(context.handle(), data.data(), data.size() * 8));
    context.stream_after(0, stream.handle(), go);

    std::future<void> done = std::async(std::launch::async, [&] {
      fleetblas::check(fleet_host_unregister(context.handle(), data.data()));
      fleetblas::check(fleet_host_register(context.handle(), data.data(), data.size() * 8));
      fleetblas::check(fleet_host_unregister(context.handle(), data.data()));
    });
    std::this_thread::sleep_for(kMoment);

    EXPECT_TRUE(done_soon(multiply(context, a, c))) << flags;
    EXPECT_EQ(done.wait_for(kMoment), std::future_status::timeout) << flags;
    go.set();
    EXPECT_NO_THROW(done.get());
    EXPECT_TRUE(stream.is_empty_soon());
  }
}

TEST(CudaStreams, AreNotLetGoByAForkedChildThatEnds) {
  const Context context(kOptions);
  const Stream stream;
  const Event go = Event::create();
  context.stream_after(0, stream.handle(), go);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) std::exit(0);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);

  EXPECT_EQ(status, 0);
  std::this_thread::sleep_for(kMoment);
  EXPECT_FALSE(stream.is_empty());
  go.set();
  EXPECT_TRUE(stream.is_empty_soon());
}

TEST(CudaStreams, OutliveTheirContext) {
  const Stream stream;
  const Event go = Event::create();
  std::thread sets;
  {
    const Context context(kOptions);
    const auto a = ones(context, 300, "0"), c = ones(context, 300, "h");
    multiply(context, a, c).wait();
    context.stream_after(0, stream.handle(), go);
    sets = std::thread([&] {
      std::this_thread::sleep_for(kMoment);
      go.set();
    });
  }
  EXPECT_TRUE(stream.is_empty_soon());
  sets.join();
}

}  // namespace
}  // namespace fleet
