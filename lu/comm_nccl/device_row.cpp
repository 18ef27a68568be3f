// SPDX-License-Identifier: BSD-3-Clause
// device_row.cpp: one stream, since what NCCL does blocks its device's queue until all ranks take
// part; an event tells when a message is done.
#include "comm_nccl/device_row.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/backoff.hpp"
#include "comm_nccl/libraries.hpp"

namespace fleet::lu {
namespace {

/// NCCL on one device of this rank. Whatever goes wrong ends it for good: other ranks may never
/// come.
class Link {
 public:
  Link(const Libraries& calls, CudaContext* context) : calls_(calls), context_(context) {}
  ~Link() {
    const std::lock_guard lock(mutex_);
    calls_.use(context_);
    if (comm_ != nullptr) under_way_ == 0 ? calls_.end(comm_) : calls_.abort(comm_);
    if (stream_ != nullptr) calls_.end_stream(stream_);
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void begin(const NcclId& id, int rank, int size) {
    const std::lock_guard lock(mutex_);
    require_cuda(calls_.use(context_));
    // Before products, which fill the device: they hide what is under way.
    int least = 0, greatest = 0;
    require_cuda(calls_.priorities(&least, &greatest));
    require_cuda(calls_.make_stream(&stream_, Libraries::kNonBlocking, greatest));
    require(calls_.begin(&comm_, size, id, rank));
  }

  CudaEvent* broadcast(double* data, std::int64_t count, int root) {
    const std::lock_guard lock(mutex_);
    require_alive();
    require_cuda(calls_.use(context_));
    CudaEvent* event = nullptr;
    require_cuda(calls_.make_event(&event, Libraries::kNoTiming));
    try {
      require(calls_.broadcast(data, data, static_cast<std::size_t>(count), Libraries::kDouble,
                               root, comm_, stream_));
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
    require_cuda(calls_.use(context_));  // any thread may ask
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
    if (under_way_ > 0) end();
  }
  void free(CudaEvent* event) {
    const std::lock_guard lock(mutex_);
    calls_.use(context_);
    calls_.end_event(event);
  }
  std::string name() const { return "NCCL " + calls_.version_text(); }

 private:
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
  std::mutex mutex_;
  NcclComm* comm_ = nullptr;  // these are guarded by mutex_
  CudaStream* stream_ = nullptr;
  int under_way_ = 0;
};

class Broadcast final : public Request {
 public:
  Broadcast(std::shared_ptr<Link> link, CudaEvent* event, double patience_s)
      : link_(std::move(link)),
        event_(event),
        patience_s_(patience_s),
        limit_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(patience_s))) {}
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
  using Clock = std::chrono::steady_clock;
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
  ~NcclRow() override { link_->give_up(); }
  NcclRow(const NcclRow&) = delete;
  NcclRow& operator=(const NcclRow&) = delete;

  std::unique_ptr<Request> broadcast(double* data, std::int64_t count, int root) override {
    return std::make_unique<Broadcast>(link_, link_->broadcast(data, count, root), patience_s_);
  }
  std::string name() const override { return link_->name(); }

 private:
  const std::shared_ptr<Link> link_;
  const double patience_s_;
};

/// A number that only this device of this node has, or 0: there is none.
double number_of(const Libraries& calls, int device, CudaContext** context) {
  int handle = 0;
  char bus[64] = "", node[256] = "";
  if (device < 0 || calls.device(&handle, device) != 0 || calls.bus(bus, sizeof bus, handle) != 0 ||
      calls.context(context, handle) != 0 || gethostname(node, sizeof node - 1) != 0)
    return 0;
  constexpr std::uint64_t kExact = (std::uint64_t{1} << 53) - 1;  // of a double
  const std::uint64_t hash = std::hash<std::string>()(std::string(node) + " " + bus);
  return static_cast<double>(std::max<std::uint64_t>(1, hash & kExact));
}

/// Why these cannot be a row: it is the same on all ranks.
std::string objection(std::vector<double> numbers) {
  if (std::ranges::find(numbers, 0.0) != numbers.end())
    return "a rank finds no NCCL, or has no GPU";
  std::ranges::sort(numbers);
  if (std::ranges::adjacent_find(numbers) != numbers.end()) return "two ranks share a GPU";
  return {};
}

}  // namespace

std::unique_ptr<DeviceRow> DeviceRow::make(Comm& ranks, int device, double patience_s,
                                           std::string& why) {
  std::string own_reason;
  const Libraries* const calls = libraries(own_reason);
  CudaContext* context = nullptr;
  const double mine[1] = {calls != nullptr ? number_of(*calls, device, &context) : 0};
  const auto size = static_cast<std::size_t>(ranks.size());
  std::vector<double> numbers(size);
  ranks.gather(mine, std::vector<std::int64_t>(size, 1), numbers)->wait();
  why = objection(numbers);
  if (!why.empty()) {
    if (!own_reason.empty()) why += " (" + own_reason + ")";
    return nullptr;
  }
  // The first rank's way to be found, as numbers, with its status.
  NcclId id{};
  std::array<double, 1 + sizeof(NcclId) / sizeof(double)> message{};
  if (ranks.rank() == 0) {
    message[0] = calls->make_id(&id);
    std::memcpy(message.data() + 1, &id, sizeof id);
  }
  ranks.broadcast(message, 0)->wait();
  if (message[0] != 0)
    throw Failure("NCCL: " + std::string(calls->text(static_cast<int>(message[0]))));
  std::memcpy(&id, message.data() + 1, sizeof id);
  auto link = std::make_shared<Link>(*calls, context);
  link->begin(id, ranks.rank(), ranks.size());
  return std::make_unique<NcclRow>(std::move(link), patience_s);
}

}  // namespace fleet::lu
