// SPDX-License-Identifier: BSD-3-Clause
// machine.cpp: look-ups in a machine, and machines of fewer devices. It must not know JSON.
#include "machine/machine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace fleet {
namespace {

double cube(std::int64_t edge) {
  const auto e = static_cast<double>(edge);
  return e * e * e;
}

/// For each device of the machine its new id (the index in `kept`), or -1 if it is dropped.
std::vector<DeviceId> renumbering(std::size_t devices, const std::vector<DeviceId>& kept) {
  std::vector<DeviceId> now(devices, -1);
  for (std::size_t i = 0; i < kept.size(); ++i)
    now[static_cast<std::size_t>(kept[i])] = static_cast<DeviceId>(i);
  return now;
}

double share_in(const std::vector<ColumnRate>& columns, std::int64_t column_bytes) {
  const auto above = std::ranges::lower_bound(columns, column_bytes, {}, &ColumnRate::bytes);
  if (above == columns.end()) return columns.empty() ? 1 : columns.back().share;
  // The share rises linearly from (0 bytes, 0) to the first known column length.
  const ColumnRate below = above == columns.begin() ? ColumnRate{0, 0} : *std::prev(above);
  return std::lerp(below.share, above->share,
                   static_cast<double>(column_bytes - below.bytes) /
                       static_cast<double>(above->bytes - below.bytes));
}

}  // namespace

double Link::column_share(std::int64_t column_bytes, std::int64_t apart_bytes) const {
  if (near_columns.empty() || apart_bytes >= kFarColumns) return share_in(columns, column_bytes);
  const double near = share_in(near_columns, column_bytes);
  const double distances = static_cast<double>(apart_bytes) / static_cast<double>(kNearColumns);
  return distances < 1 ? std::lerp(1.0, near, distances)
                       : std::lerp(near, share_in(columns, column_bytes), distances - 1);
}

bool Machine::knows_watts() const {
  for (DeviceId d = kFirstDevice; d < std::ssize(devices); ++d)
    if (!devices[static_cast<std::size_t>(d)].watts.known()) return false;
  return true;
}

LinkId Machine::find_link(DeviceId source, DeviceId target) const {
  const auto found = std::ranges::find_if(
      links, [&](const Link& link) { return link.source == source && link.target == target; });
  return found == links.end() ? -1 : static_cast<LinkId>(found - links.begin());
}

std::vector<char> Machine::sends_in_turn() const {
  constexpr double kShare = 2.0 / 3;
  constexpr double kLeastOfBytes = 1e6;  ///< lower capacities are of cores and threads, in seconds
  struct Sender {
    bool is_known = false;
    std::vector<PortId> shared;  ///< ports that each of its links so far takes so much of
  };
  // What runs have taught is no news of how devices are linked.
  const auto measured = [](double rate, double before) { return before > 0 ? before : rate; };
  std::vector<Sender> senders(devices.size());
  for (const Link& link : links) {
    if (on_host(link.source) || on_host(link.target)) continue;
    std::vector<PortId> taken;
    const double bytes_per_s = measured(link.bytes_per_s, link.measured);
    for (const PortShare& share : link.ports) {
      const Port& port = ports[static_cast<std::size_t>(share.port)];
      if (port.capacity >= kLeastOfBytes &&
          bytes_per_s * share.weight >= kShare * measured(port.capacity, port.measured))
        taken.push_back(share.port);
    }
    Sender& sender = senders[static_cast<std::size_t>(link.source)];
    if (!std::exchange(sender.is_known, true))
      sender.shared = std::move(taken);
    else
      std::erase_if(sender.shared,
                    [&](PortId port) { return std::ranges::find(taken, port) == taken.end(); });
  }
  std::vector<char> in_turn;
  for (const Sender& sender : senders) in_turn.push_back(!sender.shared.empty());
  return in_turn;
}

DataType Machine::rated_as(DeviceId device, DataType type) const {
  const bool like_f32 = type == DataType::tf32 || (on_host(device) && is_half(type.storage));
  if (!like_f32) return type;
  const auto& kernels = devices[static_cast<std::size_t>(device)].kernels;
  return std::ranges::count(kernels, type, &KernelRate::type) > 0 ? type : DataType::f32;
}

double Machine::best_rate(DeviceId device, DataType type) const {
  type = rated_as(device, type);
  double best = 0;
  for (const KernelRate& kernel : devices[static_cast<std::size_t>(device)].kernels)
    if (kernel.type == type) best = std::max(best, kernel.flops_per_s);
  return best;
}

double Machine::rate(DeviceId device, DataType type, double m, double n, double k) const {
  // log2 of a volume is 3 log2 of its edge; the factor cancels in the interpolation.
  const double volume = m * n * k;
  type = rated_as(device, type);
  const KernelRate* below = nullptr;
  for (const KernelRate& kernel : devices[static_cast<std::size_t>(device)].kernels) {
    if (kernel.type != type) continue;
    if (volume <= cube(kernel.edge)) {
      if (below == nullptr) return kernel.flops_per_s;
      const double share =
          std::log2(volume / cube(below->edge)) / std::log2(cube(kernel.edge) / cube(below->edge));
      return below->flops_per_s + share * (kernel.flops_per_s - below->flops_per_s);
    }
    below = &kernel;
  }
  return below == nullptr ? 0 : below->flops_per_s;
}

double Machine::multiply_s(DeviceId device, DataType type, std::int64_t m, std::int64_t n,
                           std::int64_t k) const {
  const Device& d = devices[static_cast<std::size_t>(device)];
  const auto [rows, cols, depth] =
      std::array{static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)};
  const double flops = (is_complex(type.storage) ? 8 : 2) * rows * cols * depth;
  if (flops == 0) return d.launch_s;
  const double computing_s = flops / rate(device, type, rows, cols, depth);
  if (!on_host(device) || d.memory_bytes_per_s <= 0) return d.launch_s + computing_s;
  const double of_cube = 4 * std::pow(rows * cols * depth, 2.0 / 3);
  const double elements = (rows + cols) * depth + 2 * rows * cols - of_cube;
  const double moving_s =
      elements * static_cast<double>(bytes_of(type.storage)) / d.memory_bytes_per_s;
  return d.launch_s + std::max(computing_s, moving_s);
}

double Machine::stream_s(DeviceId device, std::int64_t bytes) const {
  const Device& d = devices[static_cast<std::size_t>(device)];
  if (d.memory_bytes_per_s <= 0) return d.launch_s;  // unknown rate: count the launch only
  return d.launch_s + static_cast<double>(bytes) / d.memory_bytes_per_s;
}

LinkTable::LinkTable(const Machine& machine)
    : devices_(machine.devices.size()), ids_(devices_ * devices_, -1) {
  // Backwards, so that the lower id wins if one pair has two links, as in find_link.
  for (std::size_t l = machine.links.size(); l-- > 0;) {
    const Link& link = machine.links[l];
    ids_[static_cast<std::size_t>(link.source) * devices_ + static_cast<std::size_t>(link.target)] =
        static_cast<LinkId>(l);
  }
}

Machine sub_machine(const Machine& machine, const std::vector<int>& user_devices) {
  std::vector<DeviceId> kept{kHost, kPageable};
  for (const int device : user_devices) {
    const std::string name = "device " + std::to_string(device);
    if (device < 0 || device >= machine.device_count())
      throw Error(Status::bad_argument, name + " does not exist: the machine has " +
                                            std::to_string(machine.device_count()) +
                                            " devices, counted from 0");
    if (std::ranges::find(kept, kFirstDevice + device) != kept.end())
      throw Error(Status::bad_argument, name + " is named twice");
    kept.push_back(kFirstDevice + device);
  }

  Machine part = machine;
  part.devices.clear();
  part.links.clear();
  for (const DeviceId device : kept)
    part.devices.push_back(machine.devices[static_cast<std::size_t>(device)]);
  const std::vector<DeviceId> now = renumbering(machine.devices.size(), kept);
  for (Link link : machine.links) {
    link.source = now[static_cast<std::size_t>(link.source)];
    link.target = now[static_cast<std::size_t>(link.target)];
    if (link.source >= 0 && link.target >= 0) part.links.push_back(std::move(link));
  }
  return part;
}

}  // namespace fleet
