// SPDX-License-Identifier: BSD-3-Clause
// mail.cpp: a message says where a panel is, or is the panel.
#include "on_device/mail.hpp"

#include <bit>
#include <functional>

namespace fleet::lu {
namespace {

/// A message, and what is done as soon as it is there, by whoever looks.
class AndThen final : public Request {
 public:
  AndThen(std::unique_ptr<Request> message, std::function<void()> then)
      : message_(std::move(message)), then_(std::move(then)) {}

  bool test() override {
    if (!is_done_ && message_->test()) finish();
    return is_done_;
  }
  void wait() override {
    if (is_done_) return;
    message_->wait();
    finish();
  }

 private:
  void finish() {
    then_();
    is_done_ = true;
  }

  const std::unique_ptr<Request> message_;
  const std::function<void()> then_;
  bool is_done_ = false;
};

Device::Memory or_fail(std::optional<Device::Memory> memory, const char* what) {
  if (!memory) throw Failure(what);
  return std::move(*memory);
}

}  // namespace

Mail::Mail(const Grid& grid, const Device& device, Engine& engine, std::int64_t size)
    : row_(*grid.row_ranks),
      device_(device),
      engine_(engine),
      receipts_(row_.split(0, row_.rank())),
      counts_(static_cast<std::size_t>(row_.size()), 1) {
  for (Slot& slot : slots_) {
    slot.said.resize(counts_.size());
    slot.panel = or_fail(device.take(size), "a device has no memory for panels");
    if (row_.size() > 1 && !row_.shares_memory())
      slot.way = or_fail(device.take_on_host(size), "the host has no memory for panels");
  }
}

double* Mail::place(std::int64_t k) {
  Slot& slot = this->slot(k);
  if (slot.all_have_it != nullptr) slot.all_have_it->wait();
  return slot.panel.data();
}

void Mail::send(std::int64_t k, std::int64_t count, int root) {
  place(k);
  auto message =
      row_.size() > 1 && !row_.shares_memory() ? by_host(k, count, root) : offer(k, count, root);
  slot(k).sent = engine_.drive(std::move(message), {What::panel_way, k});
}

std::unique_ptr<Request> Mail::offer(std::int64_t k, std::int64_t count, int root) {
  double& address = slot(k).address;
  double* const to = slot(k).panel.data();
  const bool has_it = row_.rank() == root;
  if (has_it) address = std::bit_cast<double>(reinterpret_cast<std::uintptr_t>(to));
  return std::make_unique<AndThen>(row_.broadcast({&address, 1}, root), [=, this, &address] {
    if (has_it) return;
    const auto* from = reinterpret_cast<const double*>(std::bit_cast<std::uintptr_t>(address));
    device_.fetch(to, from, count);
  });
}

std::unique_ptr<Request> Mail::by_host(std::int64_t k, std::int64_t count, int root) {
  Slot& slot = this->slot(k);
  const std::span<double> way(slot.way.data(), static_cast<std::size_t>(count));
  const bool has_it = row_.rank() == root;
  if (has_it) device_.copy(way.data(), slot.panel.data(), count);
  return std::make_unique<AndThen>(row_.broadcast(way, root), [=, this, &slot] {
    if (!has_it) device_.copy(slot.panel.data(), way.data(), count);
  });
}

void Mail::settle() {
  for (const Slot& slot : slots_)
    if (slot.all_have_it != nullptr) slot.all_have_it->wait();
}

void Mail::arrive(std::int64_t k) {
  Slot& slot = this->slot(k);
  slot.sent->wait();
  // Whoever has sent a panel from its place needs to know when that is free.
  if (row_.size() == 1 || !row_.shares_memory()) return;
  static const double kHasIt[1] = {1};
  slot.all_have_it =
      engine_.drive(receipts_->gather(kHasIt, counts_, slot.said), {What::panel_way, k});
}

}  // namespace fleet::lu
