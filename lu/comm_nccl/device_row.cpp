// SPDX-License-Identifier: BSD-3-Clause
// device_row.cpp: one stream, since what NCCL does blocks its device's queue until all ranks take
// part; an event tells when a message is done. NCCL never blocks a thread: patience ends all.
#include "comm_nccl/device_row.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/backoff.hpp"
#include "comm_nccl/libraries.hpp"

namespace fleet::lu {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// NCCL takes seconds to start. A rank that cannot is waited for so long, or for half of the
/// patience: then the others still hear from this one.
constexpr double kStartS = 60, kStartShare = 0.5;
/// Ranks have said all when they end.
constexpr double kEndS = 5;

/// Makes a context the current one of this thread, which is the program's and gets its own back.
class ContextScope {
 public:
  ContextScope(const Libraries& calls, CudaContext* context) : calls_(calls) {
    is_known_ = calls.current(&before_) == 0;
    status_ = calls.use(context);
  }
  ~ContextScope() {
    if (is_known_) calls_.use(before_);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  int status() const { return status_; }

 private:
  const Libraries& calls_;
  CudaContext* before_ = nullptr;
  bool is_known_ = false;
  int status_ = 0;
};

/// NCCL on one device of this rank. Whatever goes wrong ends it for good: other ranks may never
/// come.
class Link {
 public:
  Link(const Libraries& calls, CudaContext* context, int device)
      : calls_(calls), context_(context), device_(device) {}
  ~Link() {
    const std::lock_guard lock(mutex_);
    const ContextScope scope(calls_, context_);
    if (comm_ != nullptr && under_way_ == 0 && std::uncaught_exceptions() == 0) finish();
    end();
    if (stream_ != nullptr) calls_.end_stream(stream_);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Returns when all ranks have.
  void begin(const NcclId& id, int rank, int size, double limit_s) {
    const std::lock_guard lock(mutex_);
    const ContextScope scope(calls_, context_);
    require_cuda(scope.status());
    // Before products, which fill the device: they hide what is under way.
    int least = 0, greatest = 0;
    require_cuda(calls_.priorities(&least, &greatest));
    require_cuda(calls_.make_stream(&stream_, Libraries::kNonBlocking, greatest));
    NcclConfig config;
    settle(calls_.begin(&comm_, size, id, rank, &config), limit_s);
    // It asks a runtime of its own which device this thread uses.
    int device = -1;
    require(calls_.device_of(comm_, &device));
    if (device == device_) return;
    end();
    throw Failure("NCCL has taken GPU " + std::to_string(device));
  }

  CudaEvent* broadcast(double* data, std::int64_t count, int root, double limit_s) {
    const std::lock_guard lock(mutex_);
    require_alive();
    const ContextScope scope(calls_, context_);
    require_cuda(scope.status());
    CudaEvent* event = nullptr;
    require_cuda(calls_.make_event(&event, Libraries::kNoTiming));
    try {
      settle(calls_.broadcast(data, data, static_cast<std::size_t>(count), Libraries::kDouble, root,
                              comm_, stream_),
             limit_s);
      require_cuda(calls_.record(event, stream_));
    } catch (...) {
      calls_.end_event(event);
      throw;
    }
    ++under_way_;
    return event;
  }

  bool is_done(CudaEvent* event) {
    const std::lock_guard lock(mutex_);
    require_alive();
    const ContextScope scope(calls_, context_);  // any thread may ask
    require_cuda(scope.status());
    const int state = calls_.query(event);
    if (state == 0) {
      --under_way_;
      return true;
    }
    if (state != Libraries::kNotReady) require_cuda(state);
    int error = 0;
    require(calls_.async_error(comm_, &error));
    if (error != Libraries::kInProgress) require(error);
    return false;
  }

  /// Nothing is read or written any more.
  void give_up() {
    const std::lock_guard lock(mutex_);
    const ContextScope scope(calls_, context_);
    end();
  }
  void give_up_what_is_under_way() {
    const std::lock_guard lock(mutex_);
    const ContextScope scope(calls_, context_);
    if (under_way_ > 0) end();
  }
  void free(CudaEvent* event) {
    const std::lock_guard lock(mutex_);
    const ContextScope scope(calls_, context_);
    calls_.end_event(event);
  }
  std::string name() const { return "NCCL " + calls_.version_text(); }

 private:
  /// Of a call of NCCL: until it is no longer under way.
  void settle(int status, double limit_s) {
    const auto limit = after(limit_s);
    for (Backoff backoff; status == Libraries::kInProgress; backoff.pause()) {
      int now = 0;
      require(calls_.async_error(comm_, &now));
      status = now;
      if (status != Libraries::kInProgress || Clock::now() < limit) continue;
      end();
      throw no_answer(limit_s);
    }
    require(status);
  }
  /// With all ranks, which have buffers that others read.
  void finish() {
    try {
      settle(calls_.finish(comm_), kEndS);
      calls_.end(std::exchange(comm_, nullptr));
    } catch (const Failure&) {  // it has ended all the same
    }
  }
  void end() {
    if (comm_ != nullptr) calls_.abort(std::exchange(comm_, nullptr));
  }
  void require_alive() const {
    if (comm_ == nullptr) throw Failure("NCCL has ended after a failure");
  }
  void require(int status) {
    if (status == 0) return;
    const std::string text = calls_.text(status);
    end();
    throw Failure("NCCL: " + text);
  }
  void require_cuda(int status) {
    if (status == 0) return;
    end();
    throw Failure("NCCL's device: CUDA error " + std::to_string(status));
  }

  const Libraries& calls_;
  CudaContext* const context_;  ///< the device's primary one, which is never let go
  const int device_;            ///< as CUDA numbers it
  std::mutex mutex_;
  NcclComm* comm_ = nullptr;  // these are guarded by mutex_
  CudaStream* stream_ = nullptr;
  int under_way_ = 0;
};

class Broadcast final : public Request {
 public:
  Broadcast(std::shared_ptr<Link> link, CudaEvent* event, double patience_s)
      : link_(std::move(link)), event_(event), patience_s_(patience_s), limit_(after(patience_s)) {}
  ~Broadcast() override { link_->free(event_); }

  bool test() override {
    if (is_done_ || link_->is_done(event_)) return is_done_ = true;
    if (Clock::now() < limit_) return false;
    link_->give_up();
    throw no_answer(patience_s_);
  }
  void wait() override {
    Backoff backoff;
    while (!test()) backoff.pause();
  }

 private:
  const std::shared_ptr<Link> link_;
  CudaEvent* const event_;
  const double patience_s_;
  const Clock::time_point limit_;
  bool is_done_ = false;
};

class NcclRow final : public DeviceRow {
 public:
  NcclRow(std::shared_ptr<Link> link, double patience_s)
      : link_(std::move(link)), patience_s_(patience_s) {}
  /// Requests may live longer, with the link.
  ~NcclRow() override { link_->give_up_what_is_under_way(); }
  NcclRow(const NcclRow&) = delete;
  NcclRow& operator=(const NcclRow&) = delete;

  std::unique_ptr<Request> broadcast(double* data, std::int64_t count, int root) override {
    return std::make_unique<Broadcast>(link_, link_->broadcast(data, count, root, patience_s_),
                                       patience_s_);
  }
  std::string name() const override { return link_->name(); }

 private:
  const std::shared_ptr<Link> link_;
  const double patience_s_;
};

/// What a rank says of itself. As numbers, which every Comm carries unchanged.
struct Word {
  double device = 0;  ///< a number that only this device has; 0: there is none
  double version = 0;
};

/// Of the device with the memory, whose context is found; 0: the library's device is none of
/// CUDA's.
double number_of(const Libraries& calls, const DeviceRow::Place& place, CudaContext** context) {
  int handle = 0, device = -1;
  DeviceName name{};
  if (place.device < 0 || calls.device(&handle, place.device) != 0 ||
      calls.context(context, handle) != 0)
    return 0;
  const ContextScope scope(calls, *context);
  if (scope.status() != 0 ||
      calls.pointer(&device, Libraries::kDeviceOfMemory,
                    reinterpret_cast<std::uintptr_t>(place.data)) != 0 ||
      device != place.device || calls.name(&name, handle) != 0)
    return 0;
  constexpr std::uint64_t kExact = (std::uint64_t{1} << 53) - 1;  // of a double
  const std::uint64_t hash = std::hash<std::string_view>()({name.bytes.data(), name.bytes.size()});
  return static_cast<double>(std::max<std::uint64_t>(1, hash & kExact));
}

/// Why these cannot be a row: it is the same on all ranks.
std::string objection(std::vector<Word> words) {
  if (std::ranges::find(words, 0.0, &Word::device) != words.end())
    return "a rank finds no NCCL, or has no GPU";
  std::ranges::sort(words, {}, &Word::device);
  if (std::ranges::adjacent_find(words, {}, &Word::device) != words.end())
    return "two ranks share a GPU";
  if (std::ranges::adjacent_find(words, std::ranges::not_equal_to(), &Word::version) != words.end())
    return "ranks have different versions of NCCL";
  return {};
}

std::vector<Word> words_of_all(Comm& ranks, const Word& mine) {
  const std::array<double, 2> said{mine.device, mine.version};
  const std::vector<double> all = ranks.gathered(said);
  std::vector<Word> words;
  for (std::size_t at = 0; at < all.size(); at += said.size())
    words.push_back({all[at], all[at + 1]});
  return words;
}

/// The first rank's way to be found; its status where NCCL makes none.
int share_id(Comm& ranks, const Libraries& calls, NcclId& id) {
  std::array<double, 1 + sizeof(NcclId) / sizeof(double)> mine{};
  if (ranks.rank() == 0) {
    mine[0] = calls.make_id(&id);
    std::memcpy(mine.data() + 1, &id, sizeof id);
  }
  const std::vector<double> all = ranks.gathered(mine);
  std::memcpy(&id, all.data() + 1, sizeof id);
  return static_cast<int>(all[0]);
}

}  // namespace

std::unique_ptr<DeviceRow> DeviceRow::make(Comm& ranks, const Place& place, double patience_s,
                                           std::string& why) {
  std::string own_reason;
  const Libraries* const calls = libraries(own_reason);
  CudaContext* context = nullptr;
  Word mine;
  int version = 0;
  if (calls != nullptr && calls->version(&version) == 0)
    mine = {.device = number_of(*calls, place, &context), .version = static_cast<double>(version)};
  why = objection(words_of_all(ranks, mine));
  if (!why.empty()) {
    if (!own_reason.empty()) why += " (" + own_reason + ")";
    return nullptr;
  }
  NcclId id{};
  if (const int status = share_id(ranks, *calls, id); status != 0) {
    why = "NCCL: " + std::string(calls->text(status));
    return nullptr;
  }
  const double limit_s = std::min(kStartS, kStartShare * patience_s);
  auto link = std::make_shared<Link>(*calls, context, place.device);
  const std::string elsewhere = "NCCL does not start on another rank";
  why = ranks.try_on_all([&] { link->begin(id, ranks.rank(), ranks.size(), limit_s); }, elsewhere);
  if (why.empty())
    why = ranks.try_on_all(
        [&] {
          for (int root = 0; root < ranks.size(); ++root)
            Broadcast(link, link->broadcast(place.data, place.count, root, limit_s), limit_s)
                .wait();
        },
        elsewhere);
  if (why.empty()) return std::make_unique<NcclRow>(std::move(link), patience_s);
  link->give_up();
  return nullptr;
}

}  // namespace fleet::lu
