// SPDX-License-Identifier: BSD-3-Clause
// registry.cpp: an ordered map of ranges by address. It knows no backend.
#include "core/registry.hpp"

#include "base/error.hpp"

namespace fleet {
namespace {

std::uintptr_t address_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

std::uintptr_t end_of(const Range& range) {
  return address_of(range.data) + static_cast<std::uintptr_t>(range.bytes);
}

}  // namespace

const Range* Registry::find(std::uintptr_t address) const {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return nullptr;
  const Range& range = std::prev(after)->second;
  return address < end_of(range) ? &range : nullptr;
}

void Registry::add(const Range& range) {
  const auto next = ranges_.lower_bound(address_of(range.data));
  const bool overlaps = find(address_of(range.data)) != nullptr ||
                        (next != ranges_.end() && next->first < end_of(range));
  if (overlaps)
    throw Error(Status::bad_argument, "the memory overlaps a piece that is already registered");
  ranges_.emplace(address_of(range.data), range);
  known_ = ranges_.size();
}

bool Registry::has(const void* data, Kind kind) const {
  const auto found = ranges_.find(address_of(data));
  if (found == ranges_.end()) return false;
  const bool registered = found->second.origin == Range::Origin::registered;
  return registered == (kind == Kind::registered);
}

std::optional<Range> Registry::remove(const void* data, Kind kind) {
  if (!has(data, kind)) return std::nullopt;
  const auto found = ranges_.find(address_of(data));
  const Range range = found->second;
  ranges_.erase(found);
  known_ = ranges_.size();
  return range;
}

std::vector<Range> Registry::remove_all() {
  std::vector<Range> all;
  for (const auto& [address, range] : ranges_) all.push_back(range);
  ranges_.clear();
  known_ = 0;
  return all;
}

DeviceId Registry::locate(const void* data, std::int64_t bytes) const {
  const Range* range = find(address_of(data));
  if (range == nullptr) return kPageable;
  if (address_of(data) + static_cast<std::uintptr_t>(bytes) <= end_of(*range))
    return range->location;
  if (on_host(range->location)) return kPageable;
  throw Error(Status::bad_argument, "a matrix reaches beyond its memory on a device");
}

std::int64_t Registry::bytes_at(const void* data) const {
  const auto range = ranges_.find(reinterpret_cast<std::uintptr_t>(data));
  return range == ranges_.end() ? 0 : range->second.bytes;
}

}  // namespace fleet
