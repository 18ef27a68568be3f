// SPDX-License-Identifier: BSD-3-Clause
// random_plans.hpp: random machines, problems and tunings for property tests, all from one seed,
// and the regular ones that they vary.
#pragma once
#include <algorithm>
#include <optional>
#include <random>
#include <string>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "program/decompose.hpp"

namespace fleet::test {

using Generator = std::mt19937_64;

inline std::int64_t between(Generator& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}
inline bool chance(Generator& random, int percent) { return between(random, 1, 100) <= percent; }

inline constexpr DataType kNodeTypes[] = {DataType::f32, DataType::f64, DataType::c32,
                                          DataType::c64, DataType::f16, DataType::bf16,
                                          DataType::tf32};

/// A node of `devices` GPUs: every pair is linked, with ports per GPU and for host memory.
inline Machine node(int devices, double host_rate = 50e9, double peer_rate = 300e9) {
  Machine m;
  m.name = "node";
  m.source = "made up for a test";
  m.issue_s = 1e-6;
  m.devices = {{.name = "host", .memory_bytes = 1LL << 40, .lanes = 1},
               {.name = "pageable", .memory_bytes = 1LL << 40, .lanes = 1}};
  for (const DataType type : kNodeTypes) m.devices[kHost].kernels.push_back({type, 1024, 2e12});
  m.ports = {{"host out", 3 * host_rate}, {"host in", 2 * host_rate}};
  for (int d = 0; d < devices; ++d) {
    Device gpu{.name = std::to_string(d),
               .memory_bytes = 1LL << 36,
               .lanes = 4,
               .launch_s = 3e-6,
               .memory_bytes_per_s = 2e12};
    for (const DataType type : kNodeTypes) gpu.kernels.push_back({type, 1024, 20e12});
    m.devices.push_back(gpu);
    m.ports.push_back({"out of " + std::to_string(d), peer_rate});
    m.ports.push_back({"into " + std::to_string(d), peer_rate});
  }
  const auto port = [](int d, bool in) { return 2 + 2 * d + (in ? 1 : 0); };
  m.links.push_back({kPageable, kHost, 5e-6, 10e9, {}});
  m.links.push_back({kHost, kPageable, 5e-6, 10e9, {}});
  for (int a = 0; a < devices; ++a) {
    m.links.push_back({kHost, kFirstDevice + a, 1e-5, host_rate, {{0, 1.0}}});
    m.links.push_back({kFirstDevice + a, kHost, 1e-5, host_rate, {{1, 1.0}}});
    for (int b = 0; b < devices; ++b)
      if (a != b)
        m.links.push_back({kFirstDevice + a,
                           kFirstDevice + b,
                           8e-6,
                           peer_rate,
                           {{port(a, false), 1.0}, {port(b, true), 1.0}}});
  }
  return m;
}

/// A node with some device-to-device links missing and uneven rates.
inline Machine uneven_node(Generator& random, int devices) {
  Machine m = node(devices);
  std::vector<Link> kept;
  for (Link link : m.links) {
    const bool peer = link.source >= kFirstDevice && link.target >= kFirstDevice;
    if (peer && chance(random, 30)) continue;
    link.bytes_per_s *= static_cast<double>(between(random, 1, 4)) / 2;
    kept.push_back(link);
  }
  m.links = kept;
  for (int d = 0; d < devices; ++d)
    m.devices[static_cast<std::size_t>(kFirstDevice + d)].shares_host = chance(random, 50);
  return m;
}

/// Operands in host memory are used in place by some of the workers that share it.
inline void share_some(Generator& random, const Machine& machine, Tuning& t) {
  for (const DeviceId worker : t.workers)
    if (machine.devices[static_cast<std::size_t>(worker)].shares_host && chance(random, 70))
      t.sharing.push_back(worker);
}

inline DeviceId random_home(Generator& random, int devices) {
  return static_cast<DeviceId>(between(random, 0, devices + 1));
}

inline std::int64_t random_size(Generator& random, std::int64_t most) {
  constexpr std::int64_t kOdd[] = {0, 1, 2, 3, 5, 7, 13, 17, 31, 37, 61, 64};
  if (chance(random, 30)) return std::min(most, kOdd[between(random, 0, 11)]);
  return between(random, 1, most);
}

inline Problem random_gemm(Generator& random, int devices, std::int64_t most) {
  CallShape shape;
  Conditions conditions;
  shape.type = kDataTypes[static_cast<std::size_t>(between(random, 0, std::ssize(kDataTypes) - 1))];
  shape.op_a = static_cast<Op>(between(random, 0, 2));
  shape.op_b = static_cast<Op>(between(random, 0, 2));
  shape.m = random_size(random, most);
  shape.n = random_size(random, most);
  shape.k = random_size(random, most);
  const DeviceId same = random_home(random, devices);
  for (DeviceId& home : conditions.homes)
    home = chance(random, 50) ? same : random_home(random, devices);
  conditions.beta_is_zero = chance(random, 30);
  shape.batch = chance(random, 15) ? between(random, 1, 5) : 1;
  Problem problem = make_problem(shape, conditions);
  if (shape.batch > 1)
    for (int x : {kA, kB})
      problem.operands[static_cast<std::size_t>(x)].shared = chance(random, 30);
  return problem;
}

/// A random problem of any routine but gemm.
inline Problem random_level3(Generator& random, int devices, std::int64_t most) {
  CallShape shape;
  Conditions conditions;
  shape.routine = static_cast<Routine>(between(random, 1, kLevel3Routines - 1));
  const RoutineTraits& traits = traits_of(shape.routine);
  constexpr DataType kTypes[] = {DataType::f32, DataType::f64, DataType::c32, DataType::c64};
  shape.type = kTypes[between(random, traits.hermitian ? 2 : 0, 3)];
  shape.side = chance(random, 50) ? Side::left : Side::right;
  shape.uplo = chance(random, 50) ? Uplo::lower : Uplo::upper;
  shape.diag = chance(random, 50) ? Diag::non_unit : Diag::unit;
  const Op turned = traits.hermitian ? Op::conjugate : Op::transpose;
  if (traits.by_itself)
    shape.op_a = chance(random, 50) ? Op::none : turned;
  else if (!traits.symmetric)
    shape.op_a = static_cast<Op>(between(random, 0, 2)),
    shape.op_b = static_cast<Op>(between(random, 0, 2));
  shape.m = random_size(random, most);
  shape.n = random_size(random, most);
  shape.k = random_size(random, most);
  const DeviceId same = random_home(random, devices);
  for (DeviceId& home : conditions.homes)
    home = chance(random, 50) ? same : random_home(random, devices);
  conditions.beta_is_zero = chance(random, 30);
  return make_problem(shape, conditions);
}

/// What only presets decide: owners of single tiles, stealing, other libraries' routes.
inline void use_others_policy(Generator& random, const Problem& problem, Tuning& t) {
  t.routing = static_cast<Routing>(between(random, 0, 3));
  t.steals = chance(random, 50);
  if (problem.batch > 1 || t.split_k || !t.row_shares.empty() || !t.col_shares.empty()) return;
  t.owners = static_cast<Owners>(between(random, 0, 4));
  if (t.owners == Owners::blocks || chance(random, 50)) return;
  for (std::size_t w = 0; w < t.workers.size(); ++w)
    t.worker_shares.push_back(static_cast<double>(between(random, 1, 20)));
}

/// The tuning with the CPU beside its devices.
inline Tuning with_cpu(Tuning tuning, double share) {
  tuning.workers.push_back(kHost);
  tuning.cpu_share = share;
  tuning.cpu_part = 1;
  return tuning;
}

inline Tuning random_tuning(Generator& random, const Machine& machine, const Problem& problem,
                            std::int64_t most_tile) {
  Tuning t;
  const int devices = machine.device_count();
  const int count = static_cast<int>(between(random, 1, devices));
  std::vector<DeviceId> all;
  for (int d = 0; d < devices; ++d) all.push_back(kFirstDevice + d);
  std::shuffle(all.begin(), all.end(), random);
  t.workers.assign(all.begin(), all.begin() + count);
  const auto grids = grids_of(count);
  t.grid = grids[static_cast<std::size_t>(between(random, 0, std::ssize(grids) - 1))];
  // At most 8 tiles per dimension: thousands of small plans find more faults than a few large ones.
  const std::int64_t least = (std::max({problem.m, problem.n, problem.k}) + 7) / 8;
  t.tile = between(random, std::max<std::int64_t>(1, least), std::max(least, most_tile));
  t.chunks = static_cast<int>(between(random, 1, 8));
  for (const Device& d : machine.devices) t.memory_cap.push_back(d.memory_bytes);
  if (chance(random, 60))
    for (int r = 0; r < kRules; ++r)
      if (chance(random, 30)) t.rules = t.rules.without(static_cast<Rule>(r));
  if (chance(random, 20)) t.group = between(random, t.tile, 3 * t.tile);
  if (chance(random, 40)) {
    t.out_of_core = chance(random, 60) ? OutOfCore::stationary : OutOfCore::cube;
    t.group = between(random, std::max<std::int64_t>(1, t.tile), 3 * t.tile + 4);
    const std::int64_t tile_bytes =
        (t.tile * t.tile * bytes_of(problem.type.storage) + 255) / 256 * 256;
    for (std::int64_t& cap : t.memory_cap) cap = tile_bytes * between(random, 4, 60);
    t.memory_cap[kHost] = 1LL << 40;
  }
  t.own_copies = chance(random, 15);
  t.inputs_first = chance(random, 40);
  t.both_sides = problem.traits().by_itself && chance(random, 40);
  const bool triangular = problem.traits().triangular;
  if (problem.batch == 1 && !problem.traits().triangle && chance(random, 25)) {
    const auto shares = [&](int parts) {
      std::vector<double> some;
      for (int part = 0; part < parts; ++part)
        some.push_back(static_cast<double>(between(random, 1, 20)));
      return some;
    };
    const bool left = problem.side == Side::left;
    if (chance(random, 70) && !(triangular && left && t.grid.rows > 1))
      t.row_shares = shares(t.grid.rows);
    if (chance(random, 70) && !(triangular && !left && t.grid.cols > 1))
      t.col_shares = shares(t.grid.cols);
    const auto edges = [&](int lines) {
      std::vector<std::int64_t> some;
      for (int line = 0; line < lines; ++line) some.push_back(between(random, 1, 2 * t.tile));
      return some;
    };
    if (chance(random, 40) && !triangular) t.row_tiles = edges(t.grid.rows);
    if (chance(random, 40) && !triangular) t.col_tiles = edges(t.grid.cols);
  }
  if (t.out_of_core == OutOfCore::none && chance(random, 30)) {
    if (chance(random, 70)) t.tile_m = between(random, t.tile, 4 * t.tile);
    if (chance(random, 50)) t.tile_k = between(random, t.tile, 4 * t.tile);
  }
  if (chance(random, 30)) t.ramp = static_cast<int>(between(random, 1, 4));
  if (t.out_of_core == OutOfCore::none && t.group > 0 && chance(random, 30))
    t.group_m = between(random, t.tile, 4 * t.tile);
  t.max_hops = static_cast<int>(between(random, 0, 2));
  if (t.out_of_core == OutOfCore::none && may_split_k(problem)) t.split_k = chance(random, 30);
  if (chance(random, 20)) use_others_policy(random, problem, t);
  if (may_have_cpu(problem) && !t.split_k && !t.own_copies && t.owners == Owners::blocks &&
      chance(random, 50))
    t = with_cpu(std::move(t), static_cast<double>(between(random, 1, 99)) / 100);
  if (!t.own_copies && !problem.traits().triangular && t.out_of_core == OutOfCore::none)
    share_some(random, machine, t);
  return t;
}

/// A tuning with one worker per place of the grid, and all of their memory.
inline Tuning simple(const Machine& machine, Grid grid, std::int64_t tile) {
  Tuning t{.grid = grid, .tile = tile};
  for (int w = 0; w < grid.rows * grid.cols; ++w) t.workers.push_back(kFirstDevice + w);
  for (const Device& d : machine.devices) t.memory_cap.push_back(d.memory_bytes);
  return t;
}

/// The plan, or nullopt if the devices have too little memory or lack a route. Throws any other
/// error, which is a fault of the planner.
inline std::optional<Plan> plan_if_any(const Problem& problem, const Machine& machine,
                                       const Tuning& tuning) {
  try {
    return make_plan(problem, machine, tuning);
  } catch (const Error& error) {
    if (error.status() != Status::no_memory && error.status() != Status::unreachable) throw;
    return std::nullopt;
  }
}

/// Removes one entry of some task's `after`. False if the plan has none.
inline bool drop_one_dependency(Plan& plan, Generator& random) {
  std::vector<Task*> with;
  for (Task& task : plan.tasks)
    if (task.after_count > 0) with.push_back(&task);
  if (with.empty()) return false;
  Task& victim = *with[static_cast<std::size_t>(between(random, 0, std::ssize(with) - 1))];
  // Its entries are consecutive: the removed one moves to the front, and the range begins behind
  // it.
  const auto first = plan.after_pool.begin() + victim.after_begin;
  std::iter_swap(first, first + between(random, 0, victim.after_count - 1));
  ++victim.after_begin;
  --victim.after_count;
  return true;
}

/// Plans `trials` random problems make(random, devices). Returns the first fault: a plan that fails
/// its check, a refusal for any reason but missing memory or a missing route, or too many refusals
/// (one for every four plans).
template <typename Make>
std::string fault_of_random_plans(std::uint64_t seed, std::int64_t trials, Make make) {
  Generator random(seed);
  int planned = 0, refused = 0;
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    const int devices = static_cast<int>(between(random, 1, 6));
    const Machine machine = chance(random, 50) ? node(devices) : uneven_node(random, devices);
    const Problem problem = make(random, devices);
    const Tuning tuning = random_tuning(random, machine, problem, 24);
    std::string fault;
    try {
      const auto plan = plan_if_any(problem, machine, tuning);
      ++(plan ? planned : refused);
      if (plan) fault = check(*plan);
    } catch (const Error& e) {
      fault = e.what();
    }
    if (!fault.empty())
      return std::to_string(trial) + ": " + to_text(problem) + " grid " +
             std::to_string(tuning.grid.rows) + "x" + std::to_string(tuning.grid.cols) + " tile " +
             std::to_string(tuning.tile) + " rules " + to_string(tuning.rules) + " " +
             to_string(tuning.out_of_core) + ": " + fault;
  }
  return planned > 4 * refused ? "" : "too many were refused: " + std::to_string(refused);
}

}  // namespace fleet::test
