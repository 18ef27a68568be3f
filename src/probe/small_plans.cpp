// SPDX-License-Identifier: BSD-3-Clause
// small_plans.cpp: builds and runs the small plans of a probe. It must not know what is measured.
#include "probe/small_plans.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "plan/pools.hpp"
#include "run/execute.hpp"

namespace fleet {
namespace {

/// Slots of a device that all its queues read and none writes meanwhile.
constexpr int kReadSlots = 4, kLargeReadSlots = 2;
/// Slots that a queue writes in turn, so that no slot is written twice in a row.
constexpr int kOwnSlots = 3, kLargeOwnSlots = 1;

/// A tile with a larger edge does not fit into the caches.
constexpr std::int64_t kSmallEdge = 512;

/// Sixteen tiles of a larger edge would take more pinned memory than a probe should.
constexpr std::int64_t kLargeEdge = 2048;

/// From this size on no cache holds a tile, so fewer slots do, and more might not fit.
constexpr std::int64_t kLargeBytes = std::int64_t{16} << 20;
/// More than the caches of any CPU hold.
constexpr std::int64_t kBeyondCachesBytes = std::int64_t{512} << 20;
/// Larger tiles are not primed: the operands would take more memory than a probe should.
constexpr std::int64_t kPrimedBytes = std::int64_t{1} << 30;

}  // namespace

/// Random bits that are numbers of a type: of either sign, with magnitudes from 1/2 to 1.
struct ProbeMemory::RandomBits {
  std::uint64_t kept, set;
};

ProbePlan::ProbePlan(const Machine& machine, DataType type, std::int64_t edge, Footprint footprint,
                     int reads)
    : machine_(&machine),
      turns_(edge <= kSmallEdge || (footprint == Footprint::large && edge <= kLargeEdge) ? 4 : 1),
      reads_(std::max(turns_ * turns_, reads)) {
  size_up(type, edge, edge, 1);
}

ProbePlan::ProbePlan(const Machine& machine, DataType type, const Columns& columns)
    : machine_(&machine),
      turns_(columns.many ? 2 : 1),
      reads_(turns_ * turns_),
      home_(columns.home) {
  const std::int64_t down = std::max<std::int64_t>(2, columns.rows_apart / columns.rows);
  size_up(type, columns.rows, columns.columns, columns.rows_apart > 0 ? static_cast<int>(down) : 1);
}

/// A is `tiles_down` tiles high and B one tile wide; along k both have as many tiles as are read.
/// With one tile down, the columns of a tile of A are contiguous.
void ProbePlan::size_up(DataType type, std::int64_t rows, std::int64_t columns, int tiles_down) {
  type_ = type;
  for (int cut = 0; cut <= tiles_down; ++cut) cuts_.m.push_back(cut * rows);
  cuts_.n = {0, columns};
  for (int cut = 0; cut <= reads_; ++cut) cuts_.k.push_back(cut * columns);
  plan_.tuning.tile = columns;
  slot_bytes_ = std::max(rows, columns) * columns * bytes_of(type.storage);
  plan_.slots.resize(machine_->devices.size());
  read_slots_.resize(machine_->devices.size());
  plan_.arena_bytes.assign(machine_->devices.size(), 0);
}

int ProbePlan::copies_beyond_caches() const {
  return static_cast<int>(ceil_div(kBeyondCachesBytes, tile_bytes()));
}

const Plan& ProbePlan::plan() const {
  if (plan_.program->calls.empty() || plan_.cuts() != cuts_) {
    const Problem problem =
        make_problem({.type = type_, .m = cuts_.m.back(), .n = cuts_.n.back(), .k = cuts_.k.back()},
                     {.homes = {home_, kHost, kHost}});
    plan_.program = std::make_shared<const TileProgram>(expand(problem, cuts_));
  }
  return plan_;
}

std::int64_t ProbePlan::tile_bytes() const {
  return cuts_.m[1] * cuts_.n.back() * bytes_of(type_.storage);
}

int ProbePlan::read_slots() const {
  return tile_bytes() > kLargeBytes ? kLargeReadSlots : kReadSlots;
}

int ProbePlan::own_slots() const { return tile_bytes() > kLargeBytes ? kLargeOwnSlots : kOwnSlots; }

std::int64_t ProbePlan::operand_bytes() const {
  return std::max(cuts_.m.back(), cuts_.n.back()) * cuts_.k.back() * bytes_of(type_.storage);
}

TileId ProbePlan::operand_tile(DeviceId location, int along_k) const {
  if (location == kPageable) return {kB, along_k, 0};
  return {kA, 0, along_k};
}

/// The tiles of A and B along k that only this queue writes; they come after those that are read.
int ProbePlan::own_tiles(QueueId queue) {
  int& known = own_tiles_[static_cast<std::size_t>(queue)];
  if (known == 0) {
    known = tile_count(cuts_.k);
    for (int turn = 0; turn < turns_; ++turn) cuts_.k.push_back(cuts_.k.back() + plan_.tuning.tile);
  }
  return known;
}

Where ProbePlan::add_slot(DeviceId device) {
  auto& slots = plan_.slots[static_cast<std::size_t>(device)];
  slots.push_back({std::ssize(slots) * slot_bytes_, slot_bytes_});
  plan_.arena_bytes[static_cast<std::size_t>(device)] = std::ssize(slots) * slot_bytes_;
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
  return queue({.kind = Queue::Kind::link,
                .device = taken.target,
                .source = taken.source,
                .in_turn = in_turn_ && !on_host(taken.source) && !on_host(taken.target)});
}

bool ProbePlan::in_place(LinkId link, DeviceId end) const {
  const Link& taken = machine_->links[static_cast<std::size_t>(link)];
  const bool pageable = taken.source == kPageable || taken.target == kPageable;
  return end == kPageable || (end == home_ && !pageable);
}

TaskId ProbePlan::copy(LinkId link, const std::vector<TaskId>& after) {
  return copy_as(queue_of(link), link, after);
}

TaskId ProbePlan::copy_in_turn(LinkId link) {
  const DeviceId target = machine_->links[static_cast<std::size_t>(link)].target;
  const QueueId writer = writers_in_turn_.emplace(target, queue_of(link)).first->second;
  last_in_turn_ = {copy_as(writer, link, last_in_turn_)};
  return last_in_turn_.front();
}

TaskId ProbePlan::copy_through(LinkId first, LinkId second, const std::vector<TaskId>& after) {
  const Link &in = machine_->links[static_cast<std::size_t>(first)],
             &out = machine_->links[static_cast<std::size_t>(second)];
  if (std::ssize(through_) < kLeastRingSlots) through_.emplace_back(add_slot(in.target), kNoTask);
  auto& [slot, reader] = through_[static_cast<std::size_t>(throughs_++ % kLeastRingSlots)];
  std::vector<TaskId> before = after;
  if (reader != kNoTask) before.push_back(reader);
  const int turn = in_place(first, in.source) ? through_reads_++ : next_;
  const TaskId there = copy(first, slot, queue_of(first), before, turn);

  const QueueId writer = queue_of(second);
  const bool in_pageable = out.target == kPageable;
  const Where to = in_pageable ? Where{kPageable, -1} : own_slot(out.target, writer, next_);
  TileId tile{kA, 0, 0};
  if (in_pageable) tile = operand_tile(kPageable, own_tiles(writer) + next_ % turns_);
  reader = add({.kind = on_host(out.target) ? TaskKind::writeback : TaskKind::fetch,
                .queue = writer,
                .link = second,
                .tile = tile,
                .from = slot,
                .to = to},
               {there});
  return reader;
}

/// Adds a copy over `link` into a tile or slot that belongs to `writer`.
TaskId ProbePlan::copy_as(QueueId writer, LinkId link, const std::vector<TaskId>& after) {
  const DeviceId target = machine_->links[static_cast<std::size_t>(link)].target;
  if (!in_place(link, target))
    return copy(link, own_slot(target, writer, next_), writer, after, next_);
  return copy(link, {target, -1}, writer, after, next_);
}

TaskId ProbePlan::copy(LinkId link, Where to, QueueId writer, const std::vector<TaskId>& after,
                       int turn) {
  const DeviceId source = machine_->links[static_cast<std::size_t>(link)].source;
  Task task{.kind = on_host(to.device) ? TaskKind::writeback : TaskKind::fetch,
            .queue = queue_of(link),
            .link = link,
            .tile = {kA, 0, 0},
            .from = in_place(link, source) ? Where{source, -1} : read_slot(source, turn),
            .to = to};
  if (task.from.in_place()) task.tile = operand_tile(source, turn % reads_);
  if (to.in_place()) task.tile = operand_tile(to.device, own_tiles(writer) + next_ % turns_);
  return add(task, after);
}

std::vector<TaskId> ProbePlan::prime(DeviceId device) {
  const LinkId link = machine_->find_link(kHost, device);
  if (link < 0 || home_ != kHost || tile_bytes() > kPrimedBytes) return {};
  const QueueId lane = queue({Queue::Kind::lane, device, kHost, 0});
  std::vector<TaskId> last;
  for (int turn = 0; turn < read_slots(); ++turn)
    last = {copy(link, read_slot(device, turn), lane, last, next_)};
  for (int turn = 0; turn < own_slots(); ++turn)
    last = {copy(link, own_slot(device, lane, turn), lane, last, next_)};
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
            .inputs = {read_slot(device, next_), read_slot(device, next_ + 1)},
            .op = 0};
  return add(task, after);
}

ProbeMemory::RandomBits ProbeMemory::random_bits(Storage storage) {
  switch (storage) {
    case Storage::f64:
    case Storage::c64:
      return {0x800fffffffffffff, 0x3fe0000000000000};
    case Storage::f16:
      return {0x83ff83ff83ff83ff, 0x3800380038003800};
    case Storage::bf16:
      return {0x807f807f807f807f, 0x3f003f003f003f00};
    default:
      return {0x807fffff807fffff, 0x3f0000003f000000};
  }
}

ProbeMemory::~ProbeMemory() {
  backend_.keep_times(false);
  for (DeviceId location = 0; location < static_cast<DeviceId>(blocks_.size()); ++location)
    let_go(location);
}

void ProbeMemory::let_go(DeviceId location) {
  Block& block = blocks_[static_cast<std::size_t>(location)];
  if (block.data != nullptr) backend_.release(location, std::exchange(block, {}).data);
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
  const Problem& problem = plan.problem();
  Arguments arguments{.ld = {problem.m, problem.k, problem.m}};
  const auto touches = [&](DeviceId location) {
    const Where in_place{location, -1};
    return std::ranges::any_of(plan.tasks, [&](const Task& task) {
      return task.kind != TaskKind::compute && (task.from == in_place || task.to == in_place);
    });
  };
  const Storage storage = problem.type.storage;
  if (touches(probe.home()))
    arguments.data[kA] = at_least(probe.home(), probe.operand_bytes(), storage);
  if (touches(kPageable)) arguments.data[kB] = at_least(kPageable, probe.operand_bytes(), storage);
  return arguments;
}

/// Memory with at least `bytes` of random numbers of this type.
void* ProbeMemory::at_least(DeviceId location, std::int64_t bytes, Storage storage) {
  Block& block = blocks_[static_cast<std::size_t>(location)];
  if (block.bytes < bytes) {
    let_go(location);
    block = {.data = backend_.allocate(location, bytes), .bytes = bytes};
  }
  const RandomBits wanted = random_bits(storage);
  if (block.filled < bytes || block.pattern != wanted.set) {
    fill(location, block.data, bytes, wanted);
    block.filled = bytes;
    block.pattern = wanted.set;
  }
  return block.data;
}

/// Fills memory with numbers whose bits are all random: on equal numbers, or on few different bits,
/// GPUs draw less power and so compute faster than on real data.
void ProbeMemory::fill(DeviceId location, void* data, std::int64_t bytes, const RandomBits& bits) {
  std::vector<std::uint64_t> words(1 << 17);
  std::mt19937_64 generator(20251121);
  for (std::uint64_t& word : words) word = (generator() & bits.kept) | bits.set;
  const auto piece_bytes = static_cast<std::int64_t>(words.size() * sizeof(words.front()));
  for (std::int64_t done = 0; done < bytes; done += piece_bytes) {
    const std::int64_t count = std::min(piece_bytes, bytes - done);
    const View from{.data = words.data(), .rows = count, .cols = 1, .ld = count};
    View to = from;
    to.data = static_cast<char*>(data) + done;
    backend_.transfer(location, to, kPageable, from, 1);
  }
}

}  // namespace fleet
