// SPDX-License-Identifier: BSD-3-Clause
// mail.cpp: a message is the panel or, within a process, says which offer it is.
#include "on_device/mail.hpp"

#include <map>
#include <mutex>
#include <shared_mutex>

namespace fleet::lu {

/// A panel that other threads may read from as long as its rank goes on.
class Mail::Offer {
 public:
  /// Known by a number to the whole process.
  static std::shared_ptr<Offer> make(const double* panel) {
    const auto offer = std::make_shared<Offer>();
    offer->panel_ = panel;
    const std::lock_guard lock(all().mutex);
    offer->number_ = ++all().made;
    all().offers[offer->number_] = offer;
    return offer;
  }
  static std::shared_ptr<Offer> of(std::int64_t number) {
    const std::lock_guard lock(all().mutex);
    const auto found = all().offers.find(number);
    auto offer = found == all().offers.end() ? nullptr : found->second.lock();
    if (offer == nullptr) throw gone();
    return offer;
  }
  ~Offer() {
    const std::lock_guard lock(all().mutex);
    all().offers.erase(number_);
  }

  std::int64_t number() const { return number_; }
  template <typename Take>
  void take(Take&& take_from) {
    const std::shared_lock lock(mutex_);
    if (panel_ == nullptr) throw gone();
    take_from(panel_);
  }
  /// Waits for those who are taking it.
  void end() {
    const std::lock_guard lock(mutex_);
    panel_ = nullptr;
  }

 private:
  static Failure gone() { return Failure("the rank that had a panel has failed"); }
  struct All {
    std::mutex mutex;
    std::int64_t made = 0;                                // guarded by mutex
    std::map<std::int64_t, std::weak_ptr<Offer>> offers;  // guarded by mutex
  };
  static All& all() {
    static All all;
    return all;
  }

  std::shared_mutex mutex_;
  const double* panel_ = nullptr;  // guarded by mutex_
  std::int64_t number_ = 0;
};

std::optional<Mail::Places> Mail::places(const Device& device, std::int64_t size) {
  Places places;
  for (Device::Memory& panel : places.panels) {
    auto memory = device.take(size);
    if (!memory) return {};
    panel = std::move(*memory);
  }
  return places;
}

void Mail::take_ways(const Device& device, std::int64_t size, Places& places) {
  for (Device::Memory& way : places.ways) {
    auto memory = device.take_on_host(size);
    if (!memory) throw Failure("the host has no memory for panels on their way to a device");
    way = std::move(*memory);
  }
}

Mail::Mail(const Grid& grid, const Device& device, Engine& engine, Places places,
           std::unique_ptr<DeviceRow> between)
    : row_(*grid.row_ranks),
      device_(device),
      engine_(engine),
      fetches_(row_.size() > 1 && row_.shares_memory()),
      receipts_(row_.split(0, row_.rank())),
      counts_(static_cast<std::size_t>(row_.size()), 1),
      between_(std::move(between)) {
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    Slot& slot = slots_[s];
    slot.said.resize(counts_.size());
    slot.panel = std::move(places.panels[s]);
    slot.way = std::move(places.ways[s]);
    if (fetches_) slot.offer = Offer::make(slot.panel.data());
  }
}

void Mail::withdraw() {
  for (const Slot& slot : slots_)
    if (slot.offer != nullptr) slot.offer->end();
  between_.reset();
}

double* Mail::place(std::int64_t k) {
  Slot& slot = this->slot(k);
  if (slot.all_have_it != nullptr) slot.all_have_it->wait();
  return slot.panel.data();
}

void Mail::send(std::int64_t k, std::int64_t count, int root) {
  place(k);
  Slot& slot = this->slot(k);
  slot.count = count;
  slot.comes = row_.rank() != root;
  if (between_ != nullptr) {
    slot.sent =
        engine_.drive(between_->broadcast(slot.panel.data(), count, root), {What::panel_way, k});
    return;
  }
  std::span<double> message(slot.way.data(), static_cast<std::size_t>(count));
  if (fetches_ || row_.size() == 1) message = {&slot.offered, 1};
  if (!slot.comes && fetches_) slot.offered = static_cast<double>(slot.offer->number());
  if (!slot.comes && !fetches_ && row_.size() > 1)
    device_.copy_panel(slot.way.data(), slot.panel.data(), count);
  slot.sent = engine_.drive(row_.broadcast(message, root), {What::panel_way, k});
}

void Mail::arrive(std::int64_t k) {
  Slot& slot = this->slot(k);
  slot.sent->wait();
  if (between_ != nullptr) return;
  if (slot.comes && fetches_)
    Offer::of(static_cast<std::int64_t>(slot.offered))->take([&](const double* from) {
      device_.fetch(slot.panel.data(), from, slot.count);
    });
  else if (slot.comes)
    device_.copy_panel(slot.panel.data(), slot.way.data(), slot.count);
  if (!fetches_) return;
  // Whoever has sent a panel from its place needs to know when that is free.
  static const double kHasIt[1] = {1};
  slot.all_have_it =
      engine_.drive(receipts_->gather(kHasIt, counts_, slot.said), {What::panel_way, k});
}

void Mail::settle() {
  for (const Slot& slot : slots_)
    if (slot.all_have_it != nullptr) slot.all_have_it->wait();
}

}  // namespace fleet::lu
