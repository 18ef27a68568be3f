// SPDX-License-Identifier: BSD-3-Clause
// bound.cpp: the lower bound of a problem on a machine. It must not know plans or tunings.
#include "plan/bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/sizes.hpp"
#include "plan/bound_traffic.hpp"
#include "plan/kernel_times.hpp"
#include "program/decompose.hpp"
#include "program/strips.hpp"

namespace fleet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;
constexpr double kPrecision = 1e-6;  // of the bound, always on the low side

/// The largest of several times, the first of equal ones, and what takes it.
struct Worst {
  double seconds = 0;
  const std::string* name = nullptr;
  void take(double candidate_s, const std::string& of) {
    if (name != nullptr && candidate_s <= seconds) return;
    seconds = candidate_s;
    name = &of;
  }
};

/// No sum of rates under the ports of kernels is above this: with all ports but one forgotten, the
/// devices that give most flops for a unit of that port come first. Exact for one shared port, as
/// the cores are.
double rate_together(const Machine& machine, DataType type, const std::vector<DeviceId>& devices,
                     const std::vector<Meter>& ports) {
  double alone = 0;
  for (const DeviceId d : devices) alone += machine.best_rate(d, type);
  double least = alone;
  for (const Meter& port : ports) {
    std::vector<std::pair<double, double>> takers;  // {flops per unit, flops per second}
    double sum = alone;
    for (const DeviceId d : devices) {
      if (port.per_busy_s[index(d)] == 0) continue;
      const double rate = machine.best_rate(d, type);
      takers.emplace_back(rate / port.per_busy_s[index(d)], rate);
      sum -= rate;
    }
    std::ranges::sort(takers, std::greater<>());
    double left = port.capacity;
    for (const auto& [flops_per_unit, rate] : takers) {
      const double taken = std::min(left, rate / flops_per_unit);
      sum += taken * flops_per_unit;
      left -= taken;
    }
    least = std::min(least, sum);
  }
  return least;
}

/// A device that is home of operands and can compute. What it needs for a share of the arithmetic
/// depends on that share alone.
class Home {
 public:
  Home(double all_flops_s, std::vector<Term> terms)
      : all_flops_s_(all_flops_s), terms_(std::move(terms)) {}

  enum class Side { least, most };
  /// The least or the most share between `low` and `high` that it can do itself in `limit_s`, or
  /// nothing. Rounded outwards to kFinest, so what is possible is never called impossible.
  std::optional<double> reach(double limit_s, Side side, double low = 0, double high = 1) const;
  /// The worst of its terms, when it is not its arithmetic.
  void name_worst(Worst& worst, double share) const;

 private:
  static constexpr double kFinest = 1e-5;
  bool excluded(double low, double high, double limit_s) const;

  double all_flops_s_;
  std::vector<Term> terms_;
};

/// Whether no share between `low` and `high` can be done in time.
bool Home::excluded(double low, double high, double limit_s) const {
  if (low * all_flops_s_ > limit_s) return true;
  return std::ranges::any_of(
      terms_, [&](const Term& term) { return term.least_seconds(low, high) > limit_s; });
}

// The times are neither convex nor monotone in the share: what goes out falls and what comes in
// rises with it, both like s^(2/3) at their beginnings. So halves are excluded, not stepped
// through.
std::optional<double> Home::reach(double limit_s, Side side, double low, double high) const {
  if (excluded(low, high, limit_s)) return std::nullopt;
  if (high - low < kFinest) return side == Side::most ? high : low;
  const double middle = (low + high) / 2;
  const bool upper_first = side == Side::most;
  if (const auto found =
          upper_first ? reach(limit_s, side, middle, high) : reach(limit_s, side, low, middle))
    return found;
  return upper_first ? reach(limit_s, side, low, middle) : reach(limit_s, side, middle, high);
}

void Home::name_worst(Worst& worst, double share) const {
  for (const Term& term : terms_) worst.take(term.least_seconds(share, share), term.name);
}

class Bounder {
 public:
  /// `cpu`: the host is a home of operands that computes.
  enum class Cpu { stays_out, computes };
  Bounder(const Problem& problem, const Machine& machine, Cpu cpu);
  Bound run() const;

 private:
  void add_places(const Machine& machine, const std::vector<Meter>& meters,
                  const std::vector<DeviceId>& all);
  bool possible(double limit_s) const;
  double least_possible_s() const;

  const Problem& problem_;
  double flops_ = 0, all_rate_ = 0, other_rate_ = 0;
  std::vector<Term> still_;  ///< of places that compute nothing: their share is 0
  std::vector<Home> homes_;
};

Bounder::Bounder(const Problem& problem, const Machine& machine, Cpu cpu)
    : problem_(problem), flops_(flops(problem)) {
  std::vector<DeviceId> all, others;
  if (cpu == Cpu::computes) all.push_back(kHost);
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d) {
    if (!machine.can_compute(d, problem.type)) continue;
    all.push_back(d);
    if (std::ranges::none_of(problem.operands, [d](const Operand& o) { return o.home == d; }))
      others.push_back(d);
  }
  const std::vector<Meter> ports = port_meters(machine);
  all_rate_ = rate_together(machine, problem.type, all, ports);
  other_rate_ = rate_together(machine, problem.type, others, ports);

  std::vector<Meter> meters = ports;
  if (auto pool = pooled_meter(machine, all)) meters.push_back(std::move(*pool));
  add_places(machine, meters, all);
}

void Bounder::add_places(const Machine& machine, const std::vector<Meter>& meters,
                         const std::vector<DeviceId>& all) {
  const TermMaker maker({&problem_, 1}, machine, all);
  if (std::ranges::count(all, kHost) > 0)
    homes_.emplace_back(flops_ / machine.best_rate(kHost, problem_.type),
                        maker.device_terms(kHost, meters));
  else
    still_ = maker.host_terms(meters, maker.all_moved());
  std::vector<DeviceId> seen;
  for (const Operand& operand : problem_.operands) {
    const DeviceId home = operand.home;
    if (on_host(home) || std::ranges::count(seen, home) > 0) continue;
    seen.push_back(home);
    std::vector<Term> terms = maker.device_terms(home, meters);
    if (std::ranges::count(all, home) > 0)
      homes_.emplace_back(flops_ / machine.best_rate(home, problem_.type), std::move(terms));
    else
      still_.insert(still_.end(), terms.begin(), terms.end());
  }
}

/// Whether homes and others together can do all of the arithmetic in time. Where a home's reach has
/// a gap, it is taken as reached: that can only lower the bound.
bool Bounder::possible(double limit_s) const {
  double most = 0;
  for (const Home& home : homes_) {
    const auto reach = home.reach(limit_s, Home::Side::most);
    if (!reach) return false;
    most += *reach;
  }
  if (most + limit_s * other_rate_ / flops_ < 1 - kRounding) return false;
  double least = 0;
  if (most > 1)
    for (const Home& home : homes_) least += home.reach(limit_s, Home::Side::least).value_or(0);
  return least <= 1;
}

double Bounder::least_possible_s() const {
  double low = all_rate_ > 0 ? flops_ / all_rate_ : kInfinity;
  for (const Term& term : still_) low = std::max(low, term.least_seconds(0, 0));
  if (low == kInfinity || possible(low)) return low;
  double high = 2 * low;
  while (high < kInfinity && !possible(high)) low = high, high *= 2;
  if (high == kInfinity) return high;
  while (high > low * (1 + kPrecision)) {
    const double middle = low + (high - low) / 2;
    (possible(middle) ? high : low) = middle;
  }
  return low;
}

Bound Bounder::run() const {
  const double seconds = least_possible_s();
  if (all_rate_ == 0 || seconds <= flops_ / all_rate_) return {seconds, "flops"};
  // It is not the arithmetic: the port or cut that is busiest when every home does what it can.
  Worst worst;
  for (const Term& term : still_) worst.take(term.least_seconds(0, 0), term.name);
  for (const Home& home : homes_) {
    const auto share = home.reach(seconds * (1 + 2 * kPrecision), Home::Side::most);
    home.name_worst(worst, share.value_or(0));
  }
  return {seconds, worst.name == nullptr ? "flops" : *worst.name};
}

/// With vectors: every element that counts is read or written by some device's kernels. 0 where the
/// rate of one that computes is not known.
double streamed_s(const Problem& problem, const Machine& machine) {
  if (!problem.traits().vectors) return 0;
  double bytes = problem.operands[kC].access == Access::update ? bytes_that_count(problem, kC) : 0;
  for (const int x : {kA, kB, kC}) bytes += bytes_that_count(problem, x);
  double rate = 0;
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d) {
    if (!machine.can_compute(d, problem.type)) continue;
    const double own = machine.devices[index(d)].memory_bytes_per_s;
    if (own <= 0) return 0;
    rate += own;
  }
  return rate > 0 ? bytes / rate : 0;
}

/// Devices that share memory with the host need not have pageable memory copied into pinned memory.
Problem as_shared(Problem problem, const Machine& machine) {
  if (std::ranges::any_of(machine.devices, &Device::shares_host) && !problem.traits().triangular)
    for (Operand& operand : problem.operands)
      if (operand.home == kPageable) operand.home = kHost;
  return problem;
}

/// What has to leave home and to come back in a program: the old contents of a matrix once, if the
/// first call that uses it reads them, and what was made of it once.
std::vector<Moved> moved_once(const TileProgram& program) {
  std::vector<Moved> moved;
  for (MatrixId id = 0; id < std::ssize(program.matrices); ++id) {
    Moved matrix{.home = program.matrices[index(id)].home};
    bool is_used = false;
    for (const ProgramCall& call : program.calls)
      for (const int x : {kA, kB, kC}) {
        if (call.matrices[index(x)] != id || (x == kB && !call.problem.traits().has_b)) continue;
        if (call.problem.k == 0) {  // C is scaled where it lies
          is_used |= x == kC && call.problem.operands[kC].access == Access::write;
          continue;
        }
        const double bytes = bytes_that_count(call.problem, x);
        if (!is_used && (x != kC || call.problem.operands[kC].access == Access::update))
          matrix.out = bytes;
        if (x == kC) matrix.in = bytes;
        is_used = true;
      }
    // What is distributed lies on devices, and stays there.
    if (program.matrices[index(id)].distribution) matrix.out = matrix.in = 0;
    moved.push_back(matrix);
  }
  return moved;
}

/// Seconds of all panels one after another, with the update of the next strip between them.
double chain_of_panels_s(const Strips& strips, const Machine& machine,
                         const std::vector<DeviceId>& workers) {
  const TileProgram program = matrices_of(strips);
  const Tuning tuning;
  KernelTimes times(program, machine, tuning);
  double least_s = kInfinity;
  for (const DeviceId device : workers) {
    double seconds = 0;
    for (int k = 0; k < strips.panels; ++k) {
      const TileOp panel{.inputs = {Factor{.tile = strips.strip(k)}}, .kernel = Kernel::factor};
      seconds += times.seconds(device, panel, strips.panel(k));
      if (k + 1 >= strips.count()) continue;
      const TileOp update{.inputs = {Factor{.tile = strips.panel(k)}}, .kernel = Kernel::update};
      seconds += times.seconds(device, update, strips.strip(k + 1));
    }
    least_s = std::min(least_s, seconds);
  }
  return least_s;
}

}  // namespace

Bound bound(const TileProgram& program, const Machine& machine, double cpu_part) {
  if (program.strips) return bound(program.strips->what, machine);
  const bool is_distributed = std::ranges::any_of(
      program.matrices, [](const Matrix& m) { return m.distribution.has_value(); });
  if (program.calls.size() == 1 && !is_distributed)
    return bound(program.calls.front().problem, machine, cpu_part);
  const std::vector<Meter> ports = port_meters(machine);
  std::vector<Problem> problems;
  Bound least{0, "flops"};
  std::vector<DeviceId> workers;
  for (const ProgramCall& call : program.calls) {
    if (flops(call.problem) == 0) continue;
    problems.push_back(call.problem);
    workers.clear();
    for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d)
      if (machine.can_compute(d, call.problem.type)) workers.push_back(d);
    const double rate = rate_together(machine, call.problem.type, workers, ports);
    least.seconds += rate > 0 ? flops(call.problem) / rate : kInfinity;
  }
  if (problems.empty() || least.seconds == kInfinity) return least;
  std::vector<Meter> meters = ports;
  if (auto pool = pooled_meter(machine, workers)) meters.push_back(std::move(*pool));
  const TermMaker maker(problems, machine, workers);
  for (const Term& term : maker.host_terms(meters, moved_once(program)))
    if (const double seconds = term.least_seconds(0, 0); seconds > least.seconds)
      least = {seconds, term.name};
  return least;
}

/// Panels of a width that is looked at.
constexpr std::int64_t kMostPanels = 512;

std::vector<std::int64_t> strip_widths(const Factorization& what, std::int64_t widest) {
  constexpr std::array<std::int64_t, 12> kWidths{32,  64,  96,   128,  192,  256,
                                                 384, 512, 1024, 2048, 4096, 8192};
  std::vector<std::int64_t> widths;
  for (const std::int64_t width : kWidths)
    if (width <= std::min(what.diagonal(), widest)) widths.push_back(width);
  const bool may_be_whole = what.diagonal() > kWidestPanel && what.diagonal() <= widest;
  if (may_be_whole && widths.back() != what.diagonal()) widths.push_back(what.diagonal());
  return widths;
}

Bound bound(const Factorization& what, const Machine& machine) {
  const double all_flops = flops(what);
  if (all_flops == 0) return {0, "flops"};
  std::vector<DeviceId> workers;
  for (DeviceId d = kFirstDevice; d < std::ssize(machine.devices); ++d)
    if (machine.can_compute(d, what.type())) workers.push_back(d);
  const std::vector<Meter> ports = port_meters(machine);
  const bool in_halves = strips_on(machine, workers, what, what.diagonal()).in_halves;
  const double rate =
      in_halves ? rate_together(machine, DataType::f16, workers, ports) / kProductsOfHalves
                : rate_together(machine, what.type(), workers, ports);
  if (rate == 0) return {kInfinity, "flops"};
  Bound least{all_flops / rate, "flops"};
  if (on_host(what.home)) {
    const std::array<Problem, 1> alike{product_like(what)};
    std::vector<Meter> meters = ports;
    if (auto pool = pooled_meter(machine, workers)) meters.push_back(std::move(*pool));
    const double share = what.routine == Factoring::potrf ? 0.5 : 1;
    const double bytes = share * static_cast<double>(what.m) * static_cast<double>(what.n) *
                         static_cast<double>(bytes_of(what.storage));
    const std::array<Moved, 3> moved{
        Moved{.home = what.home, .out = bytes, .in = what.kept ? 0 : bytes}};
    for (const Term& term : TermMaker(alike, machine, workers).host_terms(meters, moved))
      if (const double seconds = term.least_seconds(0, 0); seconds > least.seconds)
        least = {seconds, term.name};
  }
  double chain_s = kInfinity;
  std::int64_t widest = 1;
  for (const DeviceId d : workers)
    widest = std::max(
        widest, machine.devices[index(d)].panels[static_cast<std::size_t>(what.routine)].widest);
  std::vector<std::int64_t> widths = strip_widths(what, widest);
  widths.push_back(std::min(widest, what.diagonal()));  // for plans whose width is asked for
  for (const std::int64_t width : widths)
    if (what.diagonal() / width <= kMostPanels || width == widths.back())
      chain_s = std::min(
          chain_s, chain_of_panels_s(strips_on(machine, workers, what, width), machine, workers));
  if (chain_s > least.seconds) least = {chain_s, "panels"};
  return least;
}

Bound bound(const Problem& given, const Machine& machine, double cpu_part) {
  // Without products nothing need leave home: a plan may scale C where it lies.
  if (flops(given) == 0) return {0, "flops"};
  const Problem problem = as_shared(given, machine);
  if (cpu_part > 0 && may_have_cpu(problem) && machine.can_compute(kHost, problem.type)) {
    Machine with_cpu = machine;
    Device& host = with_cpu.devices[kHost];
    for (KernelRate& rate : host.kernels) rate.flops_per_s *= cpu_part * host.beside;
    return Bounder(problem, with_cpu, Bounder::Cpu::computes).run();
  }
  Bound bound = Bounder(problem, machine, Bounder::Cpu::stays_out).run();
  if (const double seconds = streamed_s(problem, machine); seconds > bound.seconds)
    bound = {seconds, "memory"};
  return bound;
}

}  // namespace fleet
