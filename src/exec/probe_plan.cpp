// SPDX-License-Identifier: BSD-3-Clause
// probe_plan.cpp: builds and runs the small plans of a probe. It must not know what is measured.
#include "exec/probe_plan.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "exec/execute.hpp"

namespace fleet {
namespace {

/// Slots of a device that all its queues read, and that nobody writes beside them.
constexpr int kReadSlots = 4, kLargeReadSlots = 2;
/// Slots that a queue writes in turn, so that what is written last is not what is written next.
constexpr int kOwnSlots = 3, kLargeOwnSlots = 1;

/// A tile with a larger edge does not fit into the caches as it is.
constexpr std::int64_t kSmallEdge = 512;

/// Sixteen larger tiles would take more pinned memory than a probe should.
constexpr std::int64_t kLargeEdge = 2048;

/// Tiles that no cache holds: fewer slots do, and memory for more may be short.
constexpr std::int64_t kLargeBytes = std::int64_t{16} << 20;
/// Above what any CPU has.
constexpr std::int64_t kBeyondCachesBytes = std::int64_t{512} << 20;
/// Larger tiles are not primed: the operands would take more memory than a probe should.
constexpr std::int64_t kPrimedBytes = std::int64_t{1} << 30;

}  // namespace

ProbePlan::ProbePlan(const Machine& machine, DataType type, std::int64_t edge, Footprint footprint)
    : machine_(&machine),
      turns_(edge <= kSmallEdge || (footprint == Footprint::large && edge <= kLargeEdge) ? 4 : 1) {
  const std::int64_t size = turns_ * edge;
  plan_.problem = make_gemm({.type = type, .m = size, .n = size, .k = size});
  for (int cut = 0; cut <= turns_; ++cut) plan_.m_cuts.push_back(cut * edge);
  plan_.n_cuts = plan_.k_cuts = plan_.m_cuts;
  plan_.tuning.tile = edge;
  plan_.slots.resize(machine.devices.size());
  read_slots_.resize(machine.devices.size());
  plan_.arena_bytes.assign(machine.devices.size(), 0);
}

int ProbePlan::copies_beyond_caches() const {
  return static_cast<int>((kBeyondCachesBytes + tile_bytes() - 1) / tile_bytes());
}

std::int64_t ProbePlan::tile_bytes() const { return plan_.bytes_of({kA, 0, 0}); }

int ProbePlan::read_slots() const {
  return tile_bytes() > kLargeBytes ? kLargeReadSlots : kReadSlots;
}

int ProbePlan::own_slots() const { return tile_bytes() > kLargeBytes ? kLargeOwnSlots : kOwnSlots; }

std::int64_t ProbePlan::operand_bytes() const {
  return tile_bytes() * turns_ * tile_count(plan_.k_cuts);
}

/// A and B are `turns_` tiles in one direction. In the other one, k, the first `turns_` are read,
/// and one more is there for each queue that writes to the operand.
TileId ProbePlan::operand_tile(DeviceId location, int across, int turn) const {
  if (location == kPageable) return {kB, across, turn % turns_};
  return {kA, turn % turns_, across};
}

int ProbePlan::own_tiles(QueueId queue) {
  int& known = own_tiles_[static_cast<std::size_t>(queue)];
  if (known == 0) {
    known = tile_count(plan_.k_cuts);
    plan_.problem.k = plan_.k_cuts.back() + plan_.tuning.tile;
    plan_.k_cuts.push_back(plan_.problem.k);
  }
  return known;
}

Where ProbePlan::add_slot(DeviceId device) {
  auto& slots = plan_.slots[static_cast<std::size_t>(device)];
  slots.push_back({std::ssize(slots) * tile_bytes(), tile_bytes()});
  plan_.arena_bytes[static_cast<std::size_t>(device)] = std::ssize(slots) * tile_bytes();
  return {device, static_cast<std::int32_t>(std::ssize(slots) - 1)};
}

Where ProbePlan::read_slot(DeviceId device, int turn) {
  auto& known = read_slots_[static_cast<std::size_t>(device)];
  while (std::ssize(known) < read_slots()) known.push_back(add_slot(device));
  return known[static_cast<std::size_t>(turn % read_slots())];
}

Where ProbePlan::own_slot(DeviceId device, QueueId queue, int turn) {
  auto& known = own_slots_[static_cast<std::size_t>(queue)];
  while (std::ssize(known) < own_slots()) known.push_back(add_slot(device));
  return known[static_cast<std::size_t>(turn % own_slots())];
}

QueueId ProbePlan::queue(const Queue& wanted) {
  const auto known = std::ranges::find(plan_.queues, wanted);
  if (known != plan_.queues.end()) return static_cast<QueueId>(known - plan_.queues.begin());
  plan_.queues.push_back(wanted);
  own_slots_.emplace_back();
  own_tiles_.push_back(0);
  return static_cast<QueueId>(plan_.queues.size() - 1);
}

TaskId ProbePlan::add(Task task, const std::vector<TaskId>& after) {
  task.after_begin = static_cast<std::int32_t>(plan_.after_pool.size());
  task.after_count = static_cast<std::int32_t>(after.size());
  plan_.after_pool.insert(plan_.after_pool.end(), after.begin(), after.end());
  plan_.tasks.push_back(task);
  ++next_;
  return static_cast<TaskId>(plan_.tasks.size() - 1);
}

QueueId ProbePlan::queue_of(LinkId link) {
  const Link& taken = machine_->links[static_cast<std::size_t>(link)];
  return queue({Queue::Kind::link, taken.target, taken.source, 0});
}

bool ProbePlan::in_place(LinkId link, DeviceId end) const {
  const Link& taken = machine_->links[static_cast<std::size_t>(link)];
  const bool pageable = taken.source == kPageable || taken.target == kPageable;
  return end == kPageable || (end == kHost && !pageable);
}

TaskId ProbePlan::copy(LinkId link, const std::vector<TaskId>& after) {
  const DeviceId target = machine_->links[static_cast<std::size_t>(link)].target;
  if (!in_place(link, target)) return copy(link, own_slot(target, queue_of(link), next_), after);
  return copy(link, {target, -1}, after);
}

TaskId ProbePlan::copy(LinkId link, Where to, const std::vector<TaskId>& after) {
  const DeviceId source = machine_->links[static_cast<std::size_t>(link)].source;
  Task task{.kind = on_host(to.device) ? TaskKind::writeback : TaskKind::fetch,
            .queue = queue_of(link),
            .link = link,
            .tile = {kA, 0, 0},
            .from = in_place(link, source) ? Where{source, -1} : read_slot(source, next_),
            .to = to};
  if (task.from.in_place()) task.tile = operand_tile(source, next_ / turns_ % turns_, next_);
  if (to.in_place()) task.tile = operand_tile(to.device, own_tiles(task.queue), next_);
  return add(task, after);
}

std::vector<TaskId> ProbePlan::prime(DeviceId device) {
  const LinkId link = machine_->find_link(kHost, device);
  if (link < 0 || tile_bytes() > kPrimedBytes) return {};
  const QueueId lane = queue({Queue::Kind::lane, device, kHost, 0});
  std::vector<TaskId> last;
  for (int turn = 0; turn < read_slots(); ++turn)
    last = {copy(link, read_slot(device, turn), last)};
  for (int turn = 0; turn < own_slots(); ++turn)
    last = {copy(link, own_slot(device, lane, turn), last)};
  return last;
}

TaskId ProbePlan::kernel(DeviceId device, int lane, Kernel kernel,
                         const std::vector<TaskId>& after) {
  const QueueId queue_of_lane = queue({Queue::Kind::lane, device, kHost, lane});
  Task task{.kind = TaskKind::compute,
            .kernel = kernel,
            .queue = queue_of_lane,
            .tile = {kC, 0, 0},
            .from = {},
            .to = own_slot(device, queue_of_lane, next_),
            .input_tiles = {TileId{kernel == Kernel::add ? kC : kA, 0, 0}, TileId{kB, 0, 0}},
            .inputs = {read_slot(device, next_), read_slot(device, next_ + 1)}};
  return add(task, after);
}

ProbeMemory::~ProbeMemory() {
  backend_.keep_times(false);
  for (const DeviceId location : {kHost, kPageable})
    if (blocks_[location].data != nullptr) backend_.release(location, blocks_[location].data);
}

std::optional<Trace> ProbeMemory::run(const ProbePlan& probe) {
  try {
    const Trace trace = execute(probe.plan(), bind(probe), backend_);
    if (trace.status == Status::ok) return trace;
    throw Error(trace.status, "probe: " + trace.message);
  } catch (const Error& error) {
    if (error.status() == Status::no_memory) return std::nullopt;
    throw;
  }
}

Arguments ProbeMemory::bind(const ProbePlan& probe) {
  const Plan& plan = probe.plan();
  Arguments arguments{.ld = {plan.problem.m, plan.problem.k, plan.problem.m}};
  const auto touches = [&](DeviceId location) {
    const Where in_place{location, -1};
    return std::ranges::any_of(plan.tasks, [&](const Task& task) {
      return task.kind != TaskKind::compute && (task.from == in_place || task.to == in_place);
    });
  };
  if (touches(kHost)) arguments.data[kA] = at_least(kHost, probe.operand_bytes());
  if (touches(kPageable)) arguments.data[kB] = at_least(kPageable, probe.operand_bytes());
  return arguments;
}

void* ProbeMemory::at_least(DeviceId location, std::int64_t bytes) {
  Block& block = blocks_[location];
  if (block.bytes >= bytes) return block.data;
  if (block.data != nullptr) backend_.release(location, std::exchange(block, {}).data);
  block = {backend_.allocate(location, bytes), bytes};
  fill(location, block.data, bytes);
  return block.data;
}

/// With random numbers: on equal ones, GPUs use less power and so compute faster than they do on
/// anybody's data. Below 2, and never a NaN, in every type that the bits are taken for.
void ProbeMemory::fill(DeviceId location, void* data, std::int64_t bytes) {
  std::vector<std::uint32_t> words(1 << 18);
  std::uint32_t state = 20251121;
  for (std::uint32_t& word : words) {
    state = state * 1664525U + 1013904223U;  // Numerical Recipes' generator: its high bits are good
    word = ((state >> 8) & 0x80ff0000U) | 0x3f000000U | (((state * 2654435761U) >> 16) & 0xbbffU);
  }
  const auto piece_bytes = static_cast<std::int64_t>(words.size() * sizeof(std::uint32_t));
  for (std::int64_t done = 0; done < bytes; done += piece_bytes) {
    const std::int64_t count = std::min(piece_bytes, bytes - done);
    const View from{.data = words.data(), .rows = count, .cols = 1, .ld = count};
    View to = from;
    to.data = static_cast<char*>(data) + done;
    backend_.transfer(location, to, kPageable, from, 1);
  }
}

}  // namespace fleet
