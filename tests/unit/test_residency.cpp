// SPDX-License-Identifier: BSD-3-Clause
// test_residency.cpp: programs that follow each other on the same matrices, whose tiles stay on
// devices in between: the plans pass their check, results are right in random legal orders, and
// after a fault they are complete at home or the status says that they are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <map>
#include <set>
#include <vector>

#include "backend/host/backend.hpp"
#include "sim/simulate.hpp"
#include "support/composed.hpp"
#include "support/scale.hpp"

namespace fleet {
namespace {

using test::between;
using test::chance;
using test::Composed;
using test::Generator;

constexpr int kMostDevices = 4;

/// What the slots of each device have in all, in the arena and outside.
std::vector<std::int64_t> bytes_of_slots(const Plan& plan) {
  std::vector<std::int64_t> bytes = plan.arena_bytes;
  for (std::size_t d = 0; d < plan.slots.size(); ++d)
    for (const Slot& slot : plan.slots[d])
      if (slot.outlives_plan()) bytes[d] += slot.bytes;
  return bytes;
}

/// Matrices on a backend, and memory on its devices that outlives plans.
template <typename T>
class World : public test::ComposedTrial<T> {
  using Base = test::ComposedTrial<T>;

 public:
  World(const Composed& composed, Generator& random, const Machine& machine, Backend& backend)
      : Base(composed, random()), random_(random), machine_(machine), backend_(backend) {
    this->expected_ = this->before_;
    this->bring_to_homes(backend_);
  }

  /// Plans and runs the calls [first, last). Returns what is wrong with the plan.
  std::string run(int first, int last) {
    auto program = part(first, last);
    for (Matrix& matrix : program->matrices) {
      matrix.stays = chance(random_, 80);
      matrix.returns = !matrix.stays || chance(random_, 20);
    }
    forget_some_copies();
    const Plan plan = plan_of(program);
    if (std::string wrong = check(plan); !wrong.empty()) return wrong;
    if (simulate(plan, machine_).status != Status::ok) return "the plan cannot be simulated";
    execute(plan, std::span(this->calls_).subspan(index(first), index(last - first)));
    interpret_part(*program, first);
    return {};
  }

  /// Brings home a random part of what is away, or all.
  std::string bring_home(bool all) {
    std::vector<TileId> tiles;
    for (const TileId& tile : now_.away)
      if (all || chance(random_, 50)) tiles.push_back(tile);
    auto program = part(0, 0);
    std::vector<std::int64_t> caps;
    for (const Device& device : machine_.devices) caps.push_back(device.memory_bytes);
    const Plan plan = plan_return(program, now_, tiles, machine_, caps);
    if (std::string wrong = check(plan); !wrong.empty()) return wrong;
    execute(plan, {});
    return {};
  }

  /// Copies a random part of all tiles to random devices.
  std::string spread() {
    auto program = part(0, 0);
    std::vector<Residency::Copy> wanted;
    for (MatrixId id = 0; id < std::ssize(program->matrices); ++id) {
      Matrix& matrix = program->matrices[index(id)];
      matrix.stays = true;
      matrix.returns = false;
      for (int row = 0; row < matrix.tile_rows(); ++row)
        for (int col = 0; col < matrix.tile_cols(); ++col)
          if (matrix.has_tile(row, col) && chance(random_, 30))
            wanted.push_back({{id, row, col}, random_device()});
    }
    std::vector<std::int64_t> caps;
    for (const Device& device : machine_.devices) caps.push_back(device.memory_bytes);
    const Plan plan = plan_spread(program, now_, wanted, machine_, caps);
    if (std::string wrong = check(plan); !wrong.empty()) return wrong;
    const Residency after = residency_after(plan);
    for (const Residency::Copy& copy : wanted)
      if (!std::ranges::binary_search(after.copies, copy) &&
          program->matrix_of(copy.tile).home != copy.device)
        return "a tile is not where it was wanted";
    if (after.away != now_.away) return "homes of tiles are older than before";
    execute(plan, {});
    return {};
  }

  /// After all is home.
  std::string verdict() {
    this->bring_from_homes(backend_);
    return Base::verdict();
  }

  bool has_failed() const { return failed_; }
  /// Plans with less memory than all tiles and copies need.
  std::int64_t short_of_memory() const { return short_of_memory_; }
  const Residency& now() const { return now_; }

  /// After a fault: what the CPU did not complete is brought home from devices that are left.
  /// False where some tile is nowhere.
  bool rescue() {
    for (const TileId& tile : now_.away) {
      const auto at = std::ranges::find_if(memory_, [&](const auto& entry) {
        return entry.first.first == tile && entry.first.second != lost_;
      });
      if (at == memory_.end()) return false;
      const auto program = part(0, 0);
      Plan plan;
      plan.program = program;
      const DeviceId home = program->matrix_of(tile).home;
      View from = view_of(plan, binding(), tile, {home, -1}, nullptr);
      const View to = from;
      from.data = at->second;
      from.ld = from.rows;
      backend_.transfer(home, to, at->first.second, from, sizeof(T));
    }
    now_ = {};
    return true;
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  DeviceId random_device() {
    return kFirstDevice + static_cast<DeviceId>(between(random_, 0, machine_.device_count() - 1));
  }

  /// The calls [first, last) on all matrices.
  std::shared_ptr<TileProgram> part(int first, int last) const {
    auto program = std::make_shared<TileProgram>();
    program->matrices = this->program_.matrices;
    for (Matrix& matrix : program->matrices) matrix.is_read = matrix.is_written = false;
    for (int c = first; c < last; ++c) {
      const ProgramCall& call = this->program_.calls[index(c)];
      append(*program, call.problem, call.cuts, call.matrices);
    }
    return program;
  }

  Plan plan_of(const std::shared_ptr<TileProgram>& program) {
    Tuning tuning;  // where nothing is kept, nothing stays
    do tuning = test::random_tuning_of_deals(random_, machine_);
    while (!tuning.rules.has(Rule::caching));
    std::vector<Dealing> deals;
    for (const ProgramCall& call : program->calls)
      deals.push_back(test::random_dealing(random_, call, tuning.grid));
    Plan plan = schedule(program, deals, machine_, tuning, now_);
    return chance(random_, 50) ? plan : with_less_memory(std::move(plan), deals);
  }

  /// The same with a part of the memory, where that is enough. Copies leave before the end then.
  Plan with_less_memory(Plan plan, std::span<const Dealing> deals) {
    Tuning tuning = plan.tuning;
    const std::vector<std::int64_t> bytes = bytes_of_slots(plan);
    for (std::size_t d = kFirstDevice; d < bytes.size(); ++d)
      tuning.memory_cap[d] = bytes[d] * between(random_, 40, 99) / 100;
    try {
      plan = schedule(plan.program, deals, machine_, tuning, now_);
      ++short_of_memory_;
    } catch (const Error& error) {
      if (error.status() != Status::no_memory) throw;
    }
    return plan;
  }

  /// Copies of what is at home, or elsewhere.
  void forget_some_copies() {
    for (std::size_t i = now_.copies.size(); i-- > 0;) {
      const Residency::Copy copy = now_.copies[i];
      const auto others = std::ranges::count(now_.copies, copy.tile, &Residency::Copy::tile);
      const bool is_needed = others == 1 && std::ranges::binary_search(now_.away, copy.tile);
      if (is_needed || !chance(random_, 20)) continue;
      backend_.release(copy.device, memory_.at({copy.tile, copy.device}));
      memory_.erase({copy.tile, copy.device});
      now_.copies.erase(now_.copies.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  Binding binding() const {
    Binding binding{.matrices = {}, .scalars = {1.0, -1.0}};
    for (std::size_t id = 0; id < this->data_.size(); ++id)
      binding.matrices.push_back({this->data_[id], this->host_[id].ld(), 0});
    return binding;
  }

  void execute(const Plan& plan, std::span<const Arguments> calls) {
    Binding bound = binding();
    for (const std::complex<double> scalar : fleet::bind(*plan.program, calls).scalars)
      bound.scalars.push_back(scalar);
    bound.scalars.erase(bound.scalars.begin(), bound.scalars.begin() + 2);
    std::set<void*> all;
    bound.slots.resize(plan.slots.size());
    for (const auto& [tile, where] : plan.found)
      slot(bound, plan, where) = memory_.at({tile, where.device});
    for (std::size_t d = 0; d < plan.slots.size(); ++d)
      for (std::size_t s = 0; s < plan.slots[d].size(); ++s) {
        const auto device = static_cast<DeviceId>(d);
        if (!plan.slots[d][s].outlives_plan()) continue;
        void*& address = slot(bound, plan, {device, static_cast<int>(s)});
        if (address == nullptr) address = backend_.allocate(device, plan.slots[d][s].bytes);
        owners_[address] = device;
        all.insert(address);
      }
    const auto run = backend_.begin(plan, bound, 0);
    Trace trace = complete(plan, bound, *run);
    memory_.clear();
    if (trace.status == Status::ok) {
      now_ = residency_after(plan);
      for (const auto& [tile, where] : plan.kept) keep(tile, slot(bound, plan, where), where, all);
    } else {
      failed_ = true;
      lost_ = trace.lost;
      if (trace.lost < 0) Base::half_write(plan, bound, *run, trace);
      recover({plan, bound, trace, *run}, {}, backend_, *test::shared_cpu_blas());
      std::erase_if(now_.away,
                    [&](const TileId& tile) { return plan.program->matrix_of(tile).is_written; });
      for (const auto& [tile, where] : plan.found)
        if (!plan.program->matrix_of(tile).is_written)
          keep(tile, slot(bound, plan, where), where, all);
    }
    for (void* address : all) backend_.release(owners_.at(address), address);
  }

  static void*& slot(Binding& bound, const Plan& plan, const Where& where) {
    auto& slots = bound.slots[static_cast<std::size_t>(where.device)];
    slots.resize(plan.slots[static_cast<std::size_t>(where.device)].size());
    return slots[static_cast<std::size_t>(where.slot)];
  }
  void keep(const TileId& tile, void* address, const Where& where, std::set<void*>& all) {
    memory_[{tile, where.device}] = address;
    all.erase(address);
  }

  void interpret_part(const TileProgram& program, int first) {
    std::vector<test::Stored<T>> stored;
    for (auto& matrix : this->expected_) stored.push_back({matrix.data(), matrix.ld()});
    std::vector<std::pair<std::complex<double>, std::complex<double>>> scalars;
    for (std::size_t c = 0; c < program.calls.size(); ++c)
      scalars.emplace_back(this->calls_[index(first) + c].alpha,
                           this->calls_[index(first) + c].beta);
    test::interpret<T>(program, stored, test::scalars_of(scalars));
  }

  Generator& random_;
  const Machine& machine_;
  Backend& backend_;
  Residency now_;
  std::map<std::pair<TileId, DeviceId>, void*> memory_;
  std::map<void*, DeviceId> owners_;
  std::int64_t short_of_memory_ = 0;
  bool failed_ = false;
  DeviceId lost_ = -1;
};

Cuts random_cuts(Generator& random) {
  Cuts cuts{0};
  const auto tiles = between(random, 1, 4);
  for (int i = 0; i < tiles; ++i) cuts.push_back(cuts.back() + between(random, 1, 9));
  return cuts;
}

Machine random_machine(Generator& random, int devices) {
  Machine machine = test::node(devices);
  if (chance(random, 30))
    for (Device& device : machine.devices) device.inverse_order = 3;
  return machine;
}

template <typename Run>
std::string with_type(const Composed& composed, Run run) {
  return composed.program.matrices.front().storage == Storage::f64
             ? run.template operator()<double>()
             : run.template operator()<std::complex<double>>();
}

std::string text_of(const TileProgram& program) {
  std::string text;
  for (const ProgramCall& call : program.calls) {
    text += to_text(call.problem) + " on";
    for (const MatrixId id : call.matrices) text += " " + std::to_string(id);
    text += "; ";
  }
  return text;
}

/// Runs the calls in random programs, with random tiles brought home or to devices in between,
/// until a fault.
template <typename T>
std::string run_all(World<T>& world, const Composed& composed, Generator& random) {
  const int calls = static_cast<int>(std::ssize(composed.program.calls));
  for (int first = 0; first < calls && !world.has_failed();) {
    const int last = static_cast<int>(between(random, first + 1, calls));
    if (std::string wrong = world.run(first, last); !wrong.empty()) return wrong;
    first = last;
    if (chance(random, 20) && !world.has_failed())
      if (std::string wrong = world.bring_home(false); !wrong.empty()) return wrong;
    if (chance(random, 20) && !world.has_failed())
      if (std::string wrong = world.spread(); !wrong.empty()) return wrong;
  }
  return {};
}

TEST(Residency, ProgramsThatFollowEachOtherAreRight) {
  Generator random(83);
  Options options;
  options.inject.poison = true;
  std::size_t away = 0;
  std::int64_t short_of_memory = 0;
  for (std::int64_t trial = 0; trial < test::scaled(2500); ++trial) {
    const int devices = static_cast<int>(between(random, 1, kMostDevices));
    const Machine machine = random_machine(random, devices);
    const Composed composed = test::random_composition(
        random, static_cast<int>(between(random, 1, 7)), random_cuts(random), devices);
    options.inject.order = random();
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    ASSERT_EQ(with_type(composed,
                        [&]<typename T>() -> std::string {
                          World<T> world(composed, random, machine, *backend);
                          if (std::string wrong = run_all(world, composed, random); !wrong.empty())
                            return wrong;
                          if (world.has_failed()) return "a run failed";
                          away += world.now().away.size();
                          short_of_memory += world.short_of_memory();
                          if (std::string wrong = world.bring_home(true); !wrong.empty())
                            return wrong;
                          return world.verdict();
                        }),
              "")
        << trial << ": " << text_of(composed.program);
  }
  EXPECT_GT(away, static_cast<std::size_t>(test::scaled(2500)));
  EXPECT_GT(short_of_memory, test::scaled(2500) / 5);
}

enum class Fault { copy, launch, lost };

Inject random_fault(Generator& random, Fault fault, int devices) {
  Inject inject;
  inject.poison = true;
  if (chance(random, 70)) inject.order = random();
  const std::int64_t at = between(random, 1, 60);
  if (fault == Fault::copy) inject.copy = at;
  if (fault == Fault::launch) inject.launch = at;
  if (fault == Fault::lost)
    inject.lost = Inject::Lost{static_cast<int>(between(random, 0, devices - 1)), at - 1};
  return inject;
}

// Either all matrices are right, or an error says that one is undefined, or a tile was on the lost
// device alone: never a wrong result.
TEST(Residency, AFaultLeavesNoWrongResult) {
  Generator random(84);
  int failed = 0, finished = 0, gone = 0;
  for (std::int64_t trial = 0; trial < test::scaled(2500); ++trial) {
    const int devices = static_cast<int>(between(random, 1, kMostDevices));
    const Machine machine = random_machine(random, devices);
    const auto fault = static_cast<Fault>(between(random, 0, 2));
    const Composed composed =
        test::random_composition(random, static_cast<int>(between(random, 2, 7)),
                                 random_cuts(random), fault == Fault::lost ? 0 : devices);
    Options options;
    options.inject = random_fault(random, fault, devices);
    const auto backend = make_host_backend(machine, test::shared_cpu_blas(), options);
    const std::string wrong = with_type(composed, [&]<typename T>() -> std::string {
      World<T> world(composed, random, machine, *backend);
      try {
        if (std::string plan = run_all(world, composed, random); !plan.empty()) return plan;
        if (!world.has_failed())
          if (std::string plan = world.bring_home(true); !plan.empty()) return plan;
      } catch (const Error& error) {
        ++failed;
        return error.status() == Status::device_failed ? "" : error.what();
      }
      failed += world.has_failed();
      if (world.has_failed() && !world.rescue()) {
        ++gone;
        return fault == Fault::lost ? "" : "a tile is gone";
      }
      finished += world.has_failed();
      return world.verdict();
    });
    ASSERT_EQ(wrong, "") << trial << ": " << text_of(composed.program);
  }
  EXPECT_GT(failed, test::scaled(2500) / 2);
  EXPECT_GT(finished, failed / 2);
  EXPECT_GT(gone, 0);
}

/// One product after another of the same three matrices at `home`, each a program of its own.
std::vector<Plan> products(const Machine& machine, int count, DeviceId home) {
  const Cuts cuts{0, 2048, 4096, 6144, 8192};
  auto program = std::make_shared<TileProgram>();
  Problem problem = make_problem({.m = 8192, .n = 8192, .k = 8192});
  for (Operand& operand : problem.operands) operand.home = home;
  append(*program, problem, {cuts, cuts, cuts}, {kNoMatrix, kNoMatrix, kNoMatrix});
  for (Matrix& matrix : program->matrices) matrix.stays = true, matrix.returns = false;
  Tuning tuning{.workers = {}, .grid = {2, 2}, .tile = 2048};
  for (int d = 0; d < 4; ++d) tuning.workers.push_back(kFirstDevice + d);
  const Dealing deal = deal_tiles(program->calls.front().problem, {cuts, cuts, cuts}, tuning);
  std::vector<Plan> plans;
  Residency now;
  for (int i = 0; i < count; ++i) {
    plans.push_back(schedule(program, {&deal, 1}, machine, tuning, now));
    EXPECT_EQ(check(plans.back()), "");
    now = residency_after(plans.back());
  }
  return plans;
}

std::int64_t copies_of(const Plan& plan) {
  return std::ranges::count_if(plan.tasks,
                               [](const Task& task) { return task.kind != TaskKind::compute; });
}

TEST(Residency, TheSameProductAgainMovesNothing) {
  for (const DeviceId home : {kHost, kPageable, kFirstDevice}) {
    const std::vector<Plan> plans = products(test::node(4), 3, home);
    EXPECT_GT(copies_of(plans[0]), 0);
    EXPECT_EQ(copies_of(plans[1]), 0);
    EXPECT_EQ(plans[1], plans[2]);
    EXPECT_EQ(plans[2].away_after.empty(), false);
  }
}

TEST(Residency, IsRefusedWhereTheCapDoesNotHoldIt) {
  const Machine machine = test::node(1);
  const Plan full = products(test::node(4), 1, kHost).front();
  auto program = std::make_shared<TileProgram>(*full.program);
  Tuning tuning{.workers = {kFirstDevice}, .grid = {1, 1}, .tile = 2048};
  // C alone has as much.
  tuning.memory_cap = {std::int64_t{1} << 40, std::int64_t{1} << 40, std::int64_t{1} << 29};
  const CallCuts& cuts = program->calls.front().cuts;
  const Dealing deal = deal_tiles(program->calls.front().problem, cuts, tuning);
  try {
    static_cast<void>(schedule(program, {&deal, 1}, machine, tuning));
    FAIL() << "C and tiles of A and B fit into the memory of C";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::no_memory);
  }
}

// Each lie about what a plan finds, keeps or brings home is noticed.
TEST(Residency, CheckRefusesAPlanThatSaysTooMuch) {
  const std::vector<Plan> plans = products(test::node(4), 2, kHost);
  const Plan& first = plans[0];
  const Plan& again = plans[1];
  Plan plan = first;
  plan.away_after.clear();
  EXPECT_NE(check(plan).find("is not complete at home"), std::string::npos) << check(plan);
  plan = first;
  plan.kept.clear();
  EXPECT_NE(check(plan), "");
  plan = first;
  std::swap(plan.kept.front().tile, plan.kept.back().tile);
  EXPECT_NE(check(plan), "");
  plan = again;
  plan.found.erase(plan.found.begin());
  EXPECT_NE(check(plan), "");
  plan = again;
  plan.found.front().where = {plan.found.front().where.device, -1};
  EXPECT_NE(check(plan), "");
  plan = again;
  auto returning = std::make_shared<TileProgram>(*again.program);
  for (Matrix& matrix : returning->matrices) matrix.returns = true;
  plan.program = returning;
  EXPECT_NE(check(plan).find("is not complete at home"), std::string::npos) << check(plan);
  plan = again;
  for (auto& slots : plan.slots)
    for (Slot& slot : slots)
      if (slot.outlives_plan()) slot.offset_bytes = 0;
  EXPECT_NE(check(plan), "");
}

}  // namespace
}  // namespace fleet
