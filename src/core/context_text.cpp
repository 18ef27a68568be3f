// SPDX-License-Identifier: BSD-3-Clause
// context_text.cpp: a context's texts about itself, its machine and its plans. It runs
// nothing but the planner.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/gate.hpp"
#include "base/json_text.hpp"
#include "core/context.hpp"
#include "core/corrections_text.hpp"
#include "core/plan_text.hpp"
#include "core/version.hpp"
#include "machine/corrections.hpp"
#include "program/distribution.hpp"
#include "sim/simulate.hpp"
#include "tune/tune_factorization.hpp"

namespace fleet {
namespace {

const char* word_of(BackendKind backend) {
  switch (backend) {
    case BackendKind::automatic:
      return "auto";
    case BackendKind::cuda:
      return "cuda";
    case BackendKind::host:
      return "host";
    case BackendKind::sim:
      return "sim";
  }
  return "unknown";
}

/// The CPU alone is its own bound.
Bound bound_of_cpu(const Problem& problem, const Machine& machine) {
  return {.seconds = host_s(problem, machine), .limited_by = "flops"};
}

}  // namespace

std::unique_lock<std::mutex> Context::take_turn() {
  if (!gate::only_cpu_left()) return turn_.take();
  require_engine();
  return {};
}

/// The same while calls may be on devices: for the state and for plans.
DeviceUse Context::take_lock() {
  if (!gate::only_cpu_left()) return DeviceUse(turn_);
  require_engine();
  return DeviceUse();
}

void Context::require_engine() const {
  if (offloader_.engine_if_started() == nullptr)
    throw Error(Status::unsupported,
                "no devices are started or measured in a forked child or at exit");
}

/// Problems name devices as users do; plans index the machine.
Problem Context::parse(std::string_view text) {
  Problem problem = parse_problem(text);
  to_machine(problem);
  return problem;
}

void Context::to_machine(Problem& problem) {
  for (Operand& operand : problem.operands)
    if (!on_host(operand.home)) operand.home = offloader_.device_of(operand.home - kFirstDevice);
}

Offloader::ProgramPtr Context::parse_program(std::string_view text) {
  return expand_in_turn(parse_composition(text));
}

Offloader::ProgramPtr Context::expand_in_turn(Composition composition) {
  for (Composition::Call& call : composition.calls) to_machine(call.problem);
  const Storage storage = composition.calls.front().problem.type.storage;
  const RegularTiles tiles = offloader_.regular_tiles(storage);
  if (offloader_.users().empty())
    throw Error(Status::unsupported, "no device to plan for: name a machine, or backend=host");
  for (const Composition::Call& call : composition.calls)
    require_few_products(call.problem, tiles.least);
  return std::make_shared<const TileProgram>(expand(composition, tiles));
}

std::shared_ptr<const Planned> Context::plan_for_text(const Problem& problem) {
  const std::int64_t most = offloader_.items_per_plan(problem);
  if (problem.batch > most)
    throw Error(Status::unsupported,
                "batch: one plan takes at most " + std::to_string(most) + " items of this size");
  // Another thread may have left the cache half changed.
  if (gate::only_cpu_left())
    return std::make_shared<const Planned>(offloader_.plan_afresh(problem));
  return offloader_.plan(problem, Offloader::Pace::well);
}

/// A block-cyclic place stands for strips that are dealt to its devices.
Factorization Context::parse_factors(std::string_view text) {
  constexpr std::string_view kPlace = " a@";
  const std::size_t at = std::min(text.find(kPlace), text.size());
  const std::string_view word = text.substr(std::min(at + kPlace.size(), text.size()));
  if (is_cyclic(word)) {
    const std::string_view place = word.substr(0, word.find(' '));
    Factorization what = parse_factorization(std::string(text.substr(0, at)) +
                                             std::string(word.substr(place.size())));
    what.dealt =
        distribution_of(parse_cyclic(place), what.m, what.n, offloader_.regular_tiles(what.storage))
            .devices;
    what.home = what.dealt.front();
    if (what.dealt.size() == 1) what.dealt.clear();
    return make_factorization(what);
  }
  Factorization what = parse_factorization(text);
  for (DeviceId& device : what.dealt) device = offloader_.device_of(device - kFirstDevice);
  if (!on_host(what.home)) what.home = offloader_.device_of(what.home - kFirstDevice);
  return what;
}

std::string Context::factor_plan_json(std::string_view text) {
  FactorReport report;
  const auto turn = take_turn();
  const Factorization what = parse_factors(text);
  report.what = what;
  const auto to_caller = [&](DeviceId device) { return parse_place(offloader_.place_of(device)); };
  if (!on_host(what.home)) report.what.home = to_caller(what.home);
  for (DeviceId& device : report.what.dealt) device = to_caller(device);
  const auto machine = offloader_.model();
  if (offloader_.users().empty())
    throw Error(Status::unsupported, "no device to plan for: name a machine, or backend=host");
  const auto planned = offloader_.plan(what);
  report.machine = machine.get();
  report.planned = planned.get();
  report.users = offloader_.users();
  report.bound = offloader_.bound(what);
  report.goal = offloader_.goal();
  const bool is_forced = forces_devices();
  const bool is_refused = options_.offload == Offload::never || !reaches_min_flops(flops(what));
  report.offloaded = !is_refused && (is_forced || planned->cost.seconds < planned->host_s);
  const std::string by_cpu =
      std::isfinite(planned->host_s) ? duration(planned->host_s) : "an unknown time";
  report.reason = options_.offload == Offload::always  ? "offload=always"
                  : options_.offload == Offload::never ? "offload=never"
                  : is_refused                         ? "below min_flops"
                  : is_forced                          ? "min_flops"
                              : "the model: " + duration(planned->cost.seconds) + " on devices, " +
                                    by_cpu + " on the CPU";
  return to_json(report);
}

std::string Context::plan_json(std::string_view text) {
  const User inside(users_);
  if (names_factorization(text)) return factor_plan_json(text);
  const Problem asked = parse_problem(text);
  const DeviceUse turn = take_lock();
  const Problem problem = parse(text);
  const auto machine = offloader_.model();
  PlanReport report;
  report.problem = asked;
  report.machine = machine.get();
  report.rules = options_.rules;
  report.preset = options_.preset;
  report.host_s = host_s(problem, *machine);
  report.goal = offloader_.goal();
  if (offloader_.users().empty()) {
    report.bound = bound_of_cpu(problem, at_best(*machine));
    report.reason = "no usable device";
    return to_json(report);
  }
  const auto planned = plan_for_text(problem);
  report.planned = planned.get();
  report.host_s = planned->host_s;
  const Plan& plan = planned->tuned.plan;
  report.bound = bound(problem, at_best(*machine), plan.tuning.cpu_part);
  report.bound_value = offloader_.value_bound(problem, plan);
  report.users = offloader_.users();
  report.rules = to_string(planned->tuned.plan.tuning.rules);
  report.offloaded =
      options_.offload == Offload::always ||
      (options_.offload == Offload::automatic && planned->tuned.cost.seconds < planned->host_s);
  report.reason =
      options_.offload == Offload::automatic
          ? "the model: " + duration(planned->tuned.cost.seconds) + " on devices, " +
                (std::isfinite(planned->host_s) ? duration(planned->host_s) : "an unknown time") +
                " on the CPU"
      : options_.offload == Offload::always ? "offload=always"
                                            : "offload=never";
  return to_json(report);
}

std::string Context::simulate_json(std::string_view text) {
  const User inside(users_);
  if (names_factorization(text)) {
    const auto turn = take_turn();
    const Factorization what = parse_factors(text);
    const auto machine = offloader_.model();
    const Plan& first = offloader_.plan(what)->stages.front()->tuned.plan;
    return chrome_trace_json(first, *machine, simulate(first, *machine));
  }
  const DeviceUse turn = take_lock();
  const Problem problem = parse(text);
  const auto machine = offloader_.model();
  if (offloader_.users().empty())
    throw Error(Status::unsupported, "no device to simulate: name a machine, or backend=host");
  const auto planned = plan_for_text(problem);
  return chrome_trace_json(planned->tuned.plan, *machine, simulate(planned->tuned.plan, *machine));
}

/// Predicted seconds of a call of a program, with the same operands, by itself.
double Context::alone_s(const Composition& calls, const Problem& problem,
                        const Composition::Call& call) {
  const bool is_cyclic = std::ranges::any_of(call.matrices, [&](int matrix) {
    return matrix >= 0 && calls.cyclic[static_cast<std::size_t>(matrix)];
  });
  if (!is_cyclic) return plan_for_text(problem)->tuned.cost.seconds;
  const auto program =
      expand_in_turn({.calls = {call}, .names = calls.names, .cyclic = calls.cyclic});
  return offloader_.plan_afresh(program, at_owners(*program)).tuned.cost.seconds;
}

std::string Context::plan_program_json(std::string_view text) {
  const User inside(users_);
  const Composition asked = parse_composition(text);
  ProgramReport report{.calls = &asked};
  const DeviceUse turn = take_lock();
  const auto machine = offloader_.model();
  const auto program = parse_program(text);
  const Planned planned = offloader_.plan_afresh(program, at_owners(*program));
  for (std::size_t c = 0; c < asked.calls.size(); ++c)
    report.alone_s.push_back(alone_s(asked, program->calls[c].problem, asked.calls[c]));
  report.machine = machine.get();
  report.planned = &planned;
  report.users = offloader_.users();
  report.bound = bound(*planned.tuned.plan.program, at_best(*machine));
  report.goal = offloader_.goal();
  return to_json(report);
}

std::string Context::simulate_program_json(std::string_view text) {
  const User inside(users_);
  const DeviceUse turn = take_lock();
  const auto machine = offloader_.model();
  const auto program = parse_program(text);
  const Planned planned = offloader_.plan_afresh(program, at_owners(*program));
  return chrome_trace_json(planned.tuned.plan, *machine, simulate(planned.tuned.plan, *machine));
}

std::string Context::bound_json(std::string_view text) {
  const User inside(users_);
  const DeviceUse turn = take_lock();
  if (names_factorization(text)) {
    const Factorization what = parse_factors(text);
    const auto machine = offloader_.model();
    const Bound least = offloader_.users().empty()
                            ? Bound{.seconds = host_s(what, *machine), .limited_by = "flops"}
                            : offloader_.bound(what);
    JsonText json;
    json.open('{').member("bound_s", least.seconds).member("limited_by", least.limited_by);
    return json.close('}').text();
  }
  const Problem problem = parse(text);
  const auto machine = offloader_.model();
  const Bound least = offloader_.users().empty() ? bound_of_cpu(problem, at_best(*machine))
                                                 : offloader_.bound(problem);
  JsonText json;
  json.open('{').member("bound_s", least.seconds).member("limited_by", least.limited_by);
  return json.close('}').text();
}

std::string Context::trace_json() {
  const User inside(users_);
  const RunRecord run = journal_->last_run();
  if (run.planned == nullptr)
    throw Error(Status::unsupported, "no call of this context has run a plan");
  return chrome_trace_json(run.planned->tuned.plan, *run.machine, *run.trace);
}

std::string Context::machine_json() {
  const User inside(users_);
  const DeviceUse turn = take_lock();
  return to_json(*offloader_.model());
}

std::string Context::config_json() {
  const User inside(users_);
  JsonText json;
  json.open('{')
      .member("version", kVersion)
      .member("backend", word_of(options_.backend))
      .member("runs_on", offloader_.has_backend() ? "devices" : "cpu")
      .key("devices")
      .open('[');
  for (const int device : offloader_.users()) json.value(device);
  json.close(']').member("cores", cores_).member("cpu_blas", blas_->name()).key("machine");
  if (const auto machine = offloader_.model_if_started()) {
    json.open('{').member("name", machine->name).member("source", machine->source);
    write_corrections(json, named_corrections(*machine));
    json.close('}');
  } else {
    json.null();
  }
  json.member("machines", shipped_folder()).key("options").raw(to_json(options_));
  return json.close('}').text();
}

}  // namespace fleet
