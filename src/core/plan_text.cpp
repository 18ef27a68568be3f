// SPDX-License-Identifier: BSD-3-Clause
// plan_text.cpp: the keys of `fleetblas plan --json`. It knows no context.
#include "core/plan_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/json_text.hpp"
#include "core/corrections_text.hpp"

namespace fleet {
namespace {

constexpr std::size_t kMostReasons = 32;                           // candidates in `why`
constexpr double kNone = std::numeric_limits<double>::infinity();  // written as null

double known(double joules) { return joules > 0 ? joules : kNone; }

void write_links(JsonText& json, const Plan& plan, const Machine& machine) {
  const std::vector<std::int64_t> bytes = bytes_by_link(plan, machine.links.size());
  json.key("bytes_by_link").open('{');
  for (std::size_t link = 0; link < bytes.size(); ++link)
    if (bytes[link] > 0) json.member(link_name(machine, static_cast<LinkId>(link)), bytes[link]);
  json.close('}');
}

void write_kinds(JsonText& json, const Plan& plan) {
  std::int64_t fetches = 0, writebacks = 0;
  std::array<std::int64_t, kKernels> kernels{};  ///< in the order of Kernel
  for (const Task& task : plan.tasks) {
    if (task.kind == TaskKind::fetch) ++fetches;
    if (task.kind == TaskKind::writeback) ++writebacks;
    if (task.kind == TaskKind::compute) ++kernels[static_cast<std::size_t>(task.kernel)];
  }
  const std::int64_t products = kernels[static_cast<std::size_t>(Kernel::multiply)] +
                                kernels[static_cast<std::size_t>(Kernel::gemv)] +
                                kernels[static_cast<std::size_t>(Kernel::axpy)] +
                                kernels[static_cast<std::size_t>(Kernel::dot)];
  if (plan.program->strips) {
    json.key("tasks_by_kind").open('{').member("fetch", fetches);
    for (std::size_t k = 0; k < kernels.size(); ++k)
      if (factors(static_cast<Kernel>(k)))
        json.member(to_string(static_cast<Kernel>(k)), kernels[k]);
    json.member("writeback", writebacks).close('}');
    return;
  }
  json.key("tasks_by_kind")
      .open('{')
      .member("fetch", fetches)
      .member("multiply", products)
      .member("add", kernels[static_cast<std::size_t>(Kernel::add)])
      .member("scale", kernels[static_cast<std::size_t>(Kernel::scale)])
      .member("prepare", kernels[static_cast<std::size_t>(Kernel::prepare)])
      .member("solve", kernels[static_cast<std::size_t>(Kernel::solve)])
      .member("writeback", writebacks)
      .close('}');
}

/// The operands in host memory that devices use in place, as a list of their letters.
void write_shared(JsonText& json, const Tuning& tuning, const Problem& problem) {
  json.key("in_place").open('[');
  for (std::size_t x = 0; x < problem.operands.size() && !tuning.sharing.empty(); ++x)
    if (on_host(problem.operands[x].home) && (x != kB || problem.traits().has_b))
      json.value(std::string(1, "abc"[x]));
  json.close(']');
}

void write_cuts(JsonText& json, const char* dimension, const Cuts& cuts) {
  std::int64_t least = 0, most = 0;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    const std::int64_t edge = cuts[i + 1] - cuts[i];
    least = i == 0 ? edge : std::min(least, edge);
    most = std::max(most, edge);
  }
  json.key(dimension)
      .open('{')
      .member("tiles", tile_count(cuts))
      .member("least", least)
      .member("most", most)
      .close('}');
}

/// Each device's share of the arithmetic, if there is a plan of tiles.
void write_shares(JsonText& json, const Plan& plan) {
  std::vector<double> products(plan.tuning.workers.size(), 0.0);  // the CPU's, if any, last
  for (const Task& task : plan.tasks) {
    if (task.kind != TaskKind::compute || task.kernel == Kernel::add ||
        task.kernel == Kernel::prepare)
      continue;
    const auto worker = std::ranges::find(plan.tuning.workers, task.device());
    products[static_cast<std::size_t>(worker - plan.tuning.workers.begin())] +=
        plan.program->multiply_adds_of(plan.program->op(task.op), task.tile);
  }
  const double whole = std::accumulate(products.begin(), products.end(), 0.0);
  json.key("shares").open('[');
  for (int device = 0; device < plan.tuning.places(); ++device)
    json.value(whole > 0 ? products[static_cast<std::size_t>(device)] / whole : 0.0);
  json.close(']');
}

void write_memory(JsonText& json, const Plan& plan, const Machine& machine) {
  json.key("memory").open('[');
  for (std::size_t d = 0; d < machine.devices.size(); ++d) {
    const std::int64_t used = d < plan.arena_bytes.size() ? plan.arena_bytes[d] : 0;
    if (used == 0 && d < kFirstDevice) continue;
    const auto& caps = plan.tuning.memory_cap;
    json.open('{')
        .member("device", machine.devices[d].name)
        .member("slots", d < plan.slots.size() ? plan.slots[d].size() : 0)
        .member("bytes", used)
        .member("cap_bytes", d < caps.size() ? caps[d] : machine.devices[d].memory_bytes)
        .close('}');
  }
  json.close(']');
}

/// Which devices compute, and how they divide C.
void write_grid(JsonText& json, const Tuning& tuning, const std::vector<int>& users) {
  json.key("workers").open('[');
  for (const DeviceId worker : tuning.workers)
    if (!on_host(worker)) json.value(users.at(static_cast<std::size_t>(worker - kFirstDevice)));
  json.close(']').key("grid").open('[').value(tuning.grid.rows).value(tuning.grid.cols);
  json.close(']');
}

/// The devices that do not compute, and why.
void write_left_out(JsonText& json, const Planned& planned) {
  json.key("left_out").open('[');
  if (planned.left_out != nullptr)
    for (const LeftOut& left : *planned.left_out)
      json.open('{').member("device", left.device).member("why", left.why).close('}');
  json.close(']');
}

template <typename Number>
void write_list(JsonText& json, const char* name, const std::vector<Number>& numbers) {
  json.key(name).open('[');
  for (const Number number : numbers) json.value(number);
  json.close(']');
}

void write_considered(JsonText& json, const Considered& considered, const std::string& reason,
                      const Problem& problem, const std::vector<int>& users) {
  const Tuning& tuning = considered.tuning;
  json.open('{').member("verdict", to_string(considered.verdict)).member("reason", reason);
  json.member("estimate_s", considered.estimate_s > 0 ? considered.estimate_s : kNone)
      .member("predicted_s", considered.is_planned() ? considered.seconds : kNone)
      .member("joules", known(considered.joules))
      .member("value", considered.is_planned() ? considered.value : kNone)
      .member("worst_s", considered.worst_s > 0 ? considered.worst_s : kNone)
      .member("tasks", considered.tasks);
  write_grid(json, tuning, users);
  json.member("cpu_share", tuning.has_cpu() ? tuning.cpu_share : 0.0);
  write_list(json, "row_shares", tuning.row_shares);
  write_list(json, "col_shares", tuning.col_shares);
  write_list(json, "row_tiles", tuning.row_tiles);
  write_list(json, "col_tiles", tuning.col_tiles);
  json.member("tile", tuning.tile)
      .member("tile_m", tuning.edge_m())
      .member("tile_k", tuning.edge_k())
      .member("split_k", tuning.split_k);
  write_shared(json, tuning, problem);
  json.member("ramp", tuning.ramp)
      .member("both_sides", tuning.both_sides)
      .member("inputs_first", tuning.inputs_first)
      .member("out_of_core", to_string(tuning.out_of_core))
      .member("group", tuning.group)
      .member("group_m", tuning.group_rows())
      .close('}');
}

/// The candidates of the tuner, best first, and the number of those left out.
void write_why(JsonText& json, const Search& search, const Problem& problem,
               const std::vector<int>& users) {
  const std::vector<const Considered*> sorted = search.best_first();
  const std::size_t shown = std::min(sorted.size(), kMostReasons);
  json.key("why").open('[');
  for (std::size_t i = 0; i < shown; ++i)
    write_considered(json, *sorted[i], search.reason(*sorted[i]), problem, users);
  json.close(']').member("why_left_out",
                         static_cast<std::int64_t>(sorted.size() - shown) + search.not_kept);
}

void write_all_cuts(JsonText& json, const CallCuts& cuts) {
  json.key("cuts").open('{');
  write_cuts(json, "m", cuts.m);
  write_cuts(json, "n", cuts.n);
  write_cuts(json, "k", cuts.k);
  json.close('}');
}

void write_energy(JsonText& json, const Goal& goal, const Cost& cost, double value) {
  json.member("objective", to_string(goal.objective))
      .member("predicted_value", value)
      .member("joules", known(cost.joules))
      .member("joules_node", known(cost.joules_node));
}

void write_shape(JsonText& json, const PlanReport& report) {
  const Plan& plan = report.planned->tuned.plan;
  write_grid(json, plan.tuning, report.users);
  write_left_out(json, *report.planned);
  write_shares(json, plan);
  json.member("cpu_share", report.planned->cpu_share)
      .member("cpu_left_out", report.planned->tuned.search.cpu_left_out());
  json.member("tile", plan.tuning.tile);
  write_list(json, "row_tiles", plan.tuning.row_tiles);
  write_list(json, "col_tiles", plan.tuning.col_tiles);
  json.member("tasks", plan.tasks.size());
  write_kinds(json, plan);
  write_all_cuts(json, plan.cuts());
  json.member("chunks", plan.tuning.chunks).member("split_k", plan.tuning.split_k);
  write_shared(json, plan.tuning, plan.problem());
  json.member("max_hops", plan.tuning.max_hops)
      .member("owners", to_string(plan.tuning.owners))
      .member("steals", plan.tuning.steals)
      .member("out_of_core", to_string(plan.tuning.out_of_core))
      .member("group", plan.tuning.group);
  write_memory(json, plan, *report.machine);
  write_links(json, plan, *report.machine);
  json.member("candidates", report.planned->tuned.planned);
  write_why(json, report.planned->tuned.search, plan.problem(), report.users);
}

/// The CPU does it in place: no tiles, no traffic.
void write_no_shape(JsonText& json) {
  json.key("workers").open('[').close(']').key("grid").open('[').value(0).value(0).close(']');
  json.key("left_out").open('[').close(']').key("shares").open('[').close(']');
  json.member("cpu_share", 0.0).member("cpu_left_out", "");
  json.member("tile", 0).member("tasks", 0).key("tasks_by_kind").open('{').close('}');
  json.key("bytes_by_link").open('{').close('}');
  json.key("why").open('[').close(']').member("why_left_out", 0);
}

}  // namespace

std::string to_json(const PlanReport& report) {
  const Planned* planned = report.planned;
  const Cost cost = planned != nullptr ? planned->tuned.cost : Cost{.seconds = report.host_s};
  const double predicted_s = cost.seconds;
  // The CPU alone has no cost but its time.
  const double value =
      planned != nullptr || report.goal.is_time() ? report.goal.value(cost) : kNone;
  JsonText json;
  json.open('{')
      .member("problem", to_text(report.problem))
      .member("machine", report.machine->name)
      .member("machine_source", report.machine->source);
  write_corrections(json, named_corrections(*report.machine));
  if (planned != nullptr)
    write_shape(json, report);
  else
    write_no_shape(json);
  json.member("plan_s", planned != nullptr ? planned->plan_s : 0.0)
      .member("predicted_s", predicted_s);
  write_energy(json, report.goal, cost, value);
  json.member("bound_value", report.bound_value.value_or(kNone))
      .member("bound_s", report.bound.seconds)
      .member("bound_fraction", report.bound.seconds / predicted_s)
      .member("limited_by", report.bound.limited_by)
      .member("host_s", report.host_s)
      .key("offload")
      .open('{')
      .member("where", report.offloaded ? "devices" : "cpu")
      .member("reason", report.reason)
      .close('}')
      .member("rules", report.rules)
      .member("preset", report.preset);
  return json.close('}').text();
}

namespace {

std::string reason_of(const TriedStrips& tried, const TriedStrips& best, const Goal& goal) {
  if (!tried.refusal.empty()) return tried.refusal;
  if (&tried == &best) return "chosen";
  if (tried.value <= best.value) return "alike";
  const double percent = 100 * (tried.value / best.value - 1);
  std::array<char, 32> text{};
  const auto end =
      percent < 10 ? std::to_chars(text.begin(), text.end(), percent, std::chars_format::general, 2)
                   : std::to_chars(text.begin(), text.end(), percent, std::chars_format::fixed, 0);
  return (goal.is_time() ? "slower by " : "worse by ") + std::string(text.begin(), end.ptr) + " %";
}

/// The widths and devices that were tried, best first; those without a plan at the end.
void write_tried(JsonText& json, const FactorReport& report) {
  std::vector<const TriedStrips*> sorted;
  for (const TriedStrips& tried : report.planned->tried) sorted.push_back(&tried);
  std::ranges::stable_sort(sorted, {}, [](const TriedStrips* tried) {
    return std::pair(!tried->refusal.empty(), tried->value);
  });
  json.key("why").open('[');
  for (const TriedStrips* tried : sorted) {
    json.open('{').member("reason", reason_of(*tried, *sorted.front(), report.goal));
    json.member("tile", tried->width).key("workers").open('[');
    for (const DeviceId worker : tried->workers)
      json.value(report.users.at(static_cast<std::size_t>(worker - kFirstDevice)));
    const bool is_planned = tried->refusal.empty();
    json.close(']')
        .member("stages", tried->stages)
        .member("tasks", tried->tasks)
        .member("predicted_s", is_planned ? tried->cost.seconds : kNone)
        .member("joules", known(tried->cost.joules))
        .member("value", is_planned ? tried->value : kNone)
        .close('}');
  }
  json.close(']').member("why_left_out", 0);
}

}  // namespace

std::string to_json(const FactorReport& report) {
  JsonText json;
  json.open('{')
      .member("problem", to_text(report.what))
      .member("machine", report.machine->name)
      .member("machine_source", report.machine->source);
  write_corrections(json, named_corrections(*report.machine));
  const auto& stages = report.planned->stages;
  const Plan& plan = stages.front()->tuned.plan;
  const Strips& strips = *plan.program->strips;
  write_grid(json, plan.tuning, report.users);
  write_shares(json, plan);
  std::size_t tasks = 0;
  for (const auto& stage : stages) tasks += stage->tuned.plan.tasks.size();
  json.member("tile", plan.tuning.tile)
      .member("strips", strips.count())
      .member("panels", strips.panels)
      .member("in_halves", strips.in_halves)
      .member("stages", stages.size())
      .member("tasks", tasks);
  write_kinds(json, plan);
  write_memory(json, plan, *report.machine);
  json.key("bytes_by_link").open('{');
  const auto& bytes = report.planned->cost.bytes_by_link;
  for (std::size_t link = 0; link < bytes.size(); ++link)
    if (bytes[link] > 0)
      json.member(link_name(*report.machine, static_cast<LinkId>(link)), bytes[link]);
  json.close('}');
  write_tried(json, report);
  json.member("candidates", stages.front()->tuned.planned)
      .member("plan_s", report.planned->plan_s)
      .member("predicted_s", report.planned->cost.seconds);
  write_energy(json, report.goal, report.planned->cost, report.goal.value(report.planned->cost));
  json.member("bound_s", report.bound.seconds)
      .member("bound_fraction", report.bound.seconds / report.planned->cost.seconds)
      .member("limited_by", report.bound.limited_by)
      .member("host_s", report.planned->host_s)
      .key("offload")
      .open('{')
      .member("where", report.offloaded ? "devices" : "cpu")
      .member("reason", report.reason)
      .close('}')
      .member("rules", to_string(plan.tuning.rules));
  return json.close('}').text();
}

std::string to_json(const ProgramReport& report) {
  const Planned& planned = *report.planned;
  const Plan& plan = planned.tuned.plan;
  const Cost& cost = planned.tuned.cost;
  JsonText json;
  json.open('{').member("machine", report.machine->name);
  json.member("machine_source", report.machine->source);
  write_corrections(json, named_corrections(*report.machine));
  json.key("calls").open('[');
  double alone_s = 0;
  for (std::size_t c = 0; c < report.calls->calls.size(); ++c) {
    const Composition::Call& call = report.calls->calls[c];
    json.open('{').member("call", call.text).member("problem", to_text(call.problem));
    write_all_cuts(json, plan.program->calls[c].cuts);
    json.member("alone_s", report.alone_s[c]).close('}');
    alone_s += report.alone_s[c];
  }
  json.close(']');
  write_grid(json, plan.tuning, report.users);
  write_left_out(json, planned);
  write_shares(json, plan);
  json.member("tasks", plan.tasks.size());
  write_kinds(json, plan);
  json.member("out_of_core", to_string(plan.tuning.out_of_core)).member("group", plan.tuning.group);
  write_memory(json, plan, *report.machine);
  write_links(json, plan, *report.machine);
  json.member("candidates", planned.tuned.planned);
  write_why(json, planned.tuned.search, plan.problem(), report.users);
  json.member("plan_s", planned.plan_s)
      .member("predicted_s", cost.seconds)
      .member("alone_s", alone_s);
  write_energy(json, report.goal, cost, report.goal.value(cost));
  json.member("bound_s", report.bound.seconds)
      .member("bound_fraction", report.bound.seconds / cost.seconds)
      .member("limited_by", report.bound.limited_by)
      .member("rules", to_string(plan.tuning.rules));
  return json.close('}').text();
}

}  // namespace fleet
