// SPDX-License-Identifier: BSD-3-Clause
// preload.cpp: loads the core on the first call worth it, and stays out of the way in forked
// children, after failures and while the process exits. It must not need the C++ library, nor know
// symbol names.
//
// This is the one place outside base/options that reads the environment: whether to load the core
// at all has to be known before the core, which owns the settings, is there.
#include "preload/preload.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <initializer_list>
#include <limits>

#include "preload/front.hpp"
#include "preload/objects.hpp"

namespace fleet::preload {

constinit std::atomic<double> min_flops{0};
constinit std::atomic<double> lapack_min_flops{0};
constinit thread_local bool inside [[gnu::tls_model("initial-exec")]] = false;

namespace {

// Until the core is there: 256^3 takes one core about a millisecond, less than any device needs to
// be worth starting, and programs that never go beyond it never pay for loading the core.
constexpr double kFlopsWorthLoading = 2.0 * 256 * 256 * 256;
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kEveryCall = 0;
constexpr int kWarningLevel = 2;
// Exit waits this long for calls under way, and late callers for the end of the process. Not for
// ever, since exit handlers of the program may wait for those very threads.
constexpr double kLongestWait_s = 2;
constexpr long kPollEvery_ns = 500'000;

enum class Phase : int { unread, unloaded, loading, ready, exiting, off };
constinit std::atomic<Phase> phase{Phase::unread};
constinit std::atomic<const fleet_dropin_core*> core{nullptr};
constinit std::atomic<int> offers_under_way{0};
constinit std::atomic<pthread_t> exiting_thread{};
constinit std::atomic<double> waiting_ends_s{0};
constinit std::atomic<bool> lapack_is_off{false};

double now_s() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void wait_a_moment() {
  const timespec moment{.tv_sec = 0, .tv_nsec = kPollEvery_ns};
  nanosleep(&moment, nullptr);
}

void set_min_flops(double blas, double lapack) {
  min_flops.store(blas, std::memory_order_relaxed);
  lapack_min_flops.store(lapack_is_off.load() ? kNever : lapack, std::memory_order_relaxed);
}

void switch_off() {
  set_min_flops(kNever, kNever);
  core.store(nullptr, std::memory_order_relaxed);
  phase.store(Phase::off, std::memory_order_release);
}

// Devices, threads and locks of the core do not survive a fork: the child computes on the CPU.
void forget_parent() {
  offers_under_way.store(0, std::memory_order_relaxed);
  switch_off();
}
__attribute__((constructor)) void watch_forks() { pthread_atfork(nullptr, nullptr, forget_parent); }

// Runs before the exit handlers of the core and of a BLAS, which take down what calls work with
// (OpenBLAS hangs in its own when a thread computes): no call begins any more, and those under way
// get the time to end.
void begin_exit() {
  Phase expected = Phase::ready;
  exiting_thread.store(pthread_self());
  waiting_ends_s.store(now_s() + kLongestWait_s);
  if (!phase.compare_exchange_strong(expected, Phase::exiting)) return;
  set_min_flops(kEveryCall, kEveryCall);
  const int our_own = inside ? 1 : 0;  // exit called from within a call, as by a signal handler
  while (offers_under_way.load() > our_own && now_s() < waiting_ends_s.load()) wait_a_moment();
}

void hold_back_late_caller() {
  if (pthread_equal(exiting_thread.load(), pthread_self())) return;
  offers_under_way.fetch_sub(1);
  while (now_s() < waiting_ends_s.load()) wait_a_moment();
  offers_under_way.fetch_add(1);
}

bool is_off(const char* name) {
  char full_name[64];
  snprintf(full_name, sizeof full_name, "FLEETBLAS_%s", name);
  const char* value = secure_getenv(full_name);
  for (const char* word : {"0", "off", "false", "no"})
    if (value && strcmp(value, word) == 0) return true;
  return false;
}

bool any_set(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (setting(name)) return true;
  return false;
}

// Leaves it to the core to judge the settings: here only whether it has to see calls that are too
// small by our own constant.
void read_settings() {
  const char* offload = setting("OFFLOAD");
  const auto offload_is = [&](const char* word) { return offload && strcmp(offload, word) == 0; };
  const bool reported = any_set({"VERBOSE", "SUMMARY", "TRACE"});
  if ((offload_is("never") && !reported) || stands_behind_another()) return switch_off();
  const bool at_once = reported || offload_is("always") || any_set({"MIN_FLOPS", "CONFIG"});
  Phase expected = Phase::unread;
  if (!phase.compare_exchange_strong(expected, Phase::unloaded)) return;
  if (is_off("LINALG")) lapack_is_off.store(true);
  const double least = at_once ? kEveryCall : kFlopsWorthLoading;
  set_min_flops(least, least);
}

void warn_not_loaded(const char* path) {
  const char* level = setting("LOG_LEVEL");
  const char* reason = dlerror();
  if (!level || atoi(level) < kWarningLevel) return;
  fprintf(stderr, "fleetblas: %s cannot be used (%s): products stay on the CPU BLAS\n", path,
          reason ? reason : "another version");
}

const fleet_dropin_core* open_core() {
  char path[kPathBytes];
  if (!file_beside_us(kCoreFile, path)) return nullptr;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  using Start = const fleet_dropin_core*();
  Start* start = library ? reinterpret_cast<Start*>(dlsym(library, "fleet_dropin")) : nullptr;
  const fleet_dropin_core* started = start ? start() : nullptr;
  if (!started || started->version != FLEET_DROPIN_VERSION) {
    warn_not_loaded(path);
    return nullptr;
  }
  return started;
}

// The core, loaded by the first thread that gets here. The others do not wait: loading may run
// products itself, on threads of its own, and those must come through.
[[gnu::noinline]] const fleet_dropin_core* load_core(double flops) {
  if (phase.load(std::memory_order_acquire) == Phase::unread) read_settings();
  Phase expected = Phase::unloaded;
  if (flops < min_flops.load(std::memory_order_relaxed) ||
      !phase.compare_exchange_strong(expected, Phase::loading))
    return nullptr;

  const fleet_dropin_core* started = open_core();
  if (!started) {
    switch_off();
    return nullptr;
  }
  core.store(started);
  phase.store(Phase::ready, std::memory_order_release);
  refresh_min_flops();
  atexit(begin_exit);
  return started;
}

const fleet_dropin_core* core_for(double flops) {
  return phase.load(std::memory_order_acquire) == Phase::ready ? core.load() : load_core(flops);
}

}  // namespace

const char* setting(const char* name) {
  char full_name[64];
  snprintf(full_name, sizeof full_name, "FLEETBLAS_%s", name);
  const char* value = secure_getenv(full_name);
  return value && *value && strcmp(value, "0") != 0 ? value : nullptr;
}

void refresh_min_flops() {
  const fleet_dropin_core* loaded = core.load();
  if (!loaded || phase.load() != Phase::ready) return;
  if (!loaded->serves_lapack) lapack_is_off.store(true);
  set_min_flops(loaded->wants_all ? kEveryCall : loaded->min_flops,
                loaded->wants_all ? kEveryCall : loaded->lapack_min_flops);
}

bool serves_lapack(double flops) {
  const Inside guard;
  if (phase.load() != Phase::exiting) core_for(flops);
  return !lapack_is_off.load();
}

bool compute_in_core(const fleet_dropin_call& call) {
  const Inside guard;
  const fleet_dropin_core* loaded = core_for(kNever);
  return loaded && loaded->compute(&call);
}

bool compute_in_core(const fleet_dropin_lapack_call& call, std::int64_t& info) {
  const Inside guard;
  const fleet_dropin_core* loaded = core_for(kNever);
  return loaded && loaded->serves_lapack && loaded->compute_lapack(&call, &info);
}

std::int64_t block_size_in_core(char type, std::int64_t m, std::int64_t n, std::int64_t above,
                                std::int64_t most) {
  const Inside guard;
  if (phase.load(std::memory_order_acquire) != Phase::ready || lapack_is_off.load()) return 0;
  const fleet_dropin_core* loaded = core.load();
  return loaded ? loaded->block_size(type, m, n, above, most) : 0;
}

// Counts this thread as under way; nullptr where nobody may be asked.
const fleet_dropin_core* Offer::core_for_call(double flops) {
  offers_under_way.fetch_add(1);
  if (phase.load() != Phase::exiting) return core_for(flops);
  hold_back_late_caller();
  return nullptr;
}

void Offer::note_later(bool worth_a_look) {
  noted_ = worth_a_look || core_->wants_all;
  if (noted_) start_s_ = now_s();
}

Offer::Offer(const fleet_dropin_call& call, double flops) : call_(&call) {
  core_ = core_for_call(flops);
  if (!core_) return;
  const bool worth_a_look = flops >= core_->min_flops;
  taken_ = worth_a_look && core_->offer(&call);
  if (!taken_) note_later(worth_a_look);
}

Offer::Offer(const fleet_dropin_lapack_call& call, std::int64_t& info) : lapack_call_(&call) {
  core_ = core_for_call(call.flops);
  if (!core_) return;
  const bool worth_a_look = call.flops >= core_->lapack_min_flops;
  taken_ = worth_a_look && core_->offer_lapack(&call, &info);
  if (!taken_) note_later(worth_a_look);
}

Offer::~Offer() {
  if (noted_ && call_) core_->note_host(call_, now_s() - start_s_);
  if (noted_ && lapack_call_) core_->note_host_lapack(lapack_call_, now_s() - start_s_);
  offers_under_way.fetch_sub(1);
}

}  // namespace fleet::preload
