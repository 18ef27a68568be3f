// SPDX-License-Identifier: BSD-3-Clause
// offloader.cpp: the devices that there are, and plans of single calls for them. It runs nothing.
#include "core/offloader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <stdexcept>

#include "backend/device_library.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "machine/corrections.hpp"
#include "plan/bound.hpp"
#include "program/decompose.hpp"
#include "sim/simulate.hpp"
#include "tune/cpu_share.hpp"
#include "tune/goal_bound.hpp"
#include "tune/limits.hpp"
#include "tune/preset.hpp"

namespace fleet {
namespace {

/// After this many calls with less memory, all of it is tried again: other users may be gone.
constexpr int kCallsWithLess = 32;
/// A device with less than this part of the richest one's memory is not worth planning for.
constexpr std::int64_t kPoorest = 16;
/// Planning more tasks at once costs more than a second plan.
constexpr std::int64_t kMostTasks = 50'000;
/// Takes a few seconds to plan.
constexpr double kMostProducts = 1e6;

Planned known_impossible() {
  Planned none;
  none.tuned.cost.seconds = std::numeric_limits<double>::infinity();
  return none;
}

}  // namespace

void require_few_products(const Problem& problem, std::int64_t tile) {
  if (tile <= 0) return;
  const auto pieces = [](std::int64_t size, std::int64_t edge) {
    return std::ceil(static_cast<double>(size) / static_cast<double>(edge));
  };
  const double products = pieces(problem.m, tile) * pieces(problem.n, tile) *
                          pieces(problem.k, longest_step(problem.type.storage, tile)) *
                          static_cast<double>(problem.batch);
  if (products > kMostProducts)
    throw Error(Status::unsupported, "tile=" + std::to_string(tile) + " cuts the problem into " +
                                         number(products) + " products, the most is " +
                                         number(kMostProducts));
}

void verify([[maybe_unused]] const Plan& plan) {
#if !defined(NDEBUG) || defined(FLEETBLAS_CHECK_PLANS)
  const std::string wrong = check(plan);
  if (!wrong.empty()) throw Error(Status::internal, "a wrong plan: " + wrong);
#endif
}

Offloader::Offloader(const Options& options, std::shared_ptr<CpuBlas> blas)
    : options_(options),
      rules_(parse_rules(options.rules)),
      preset_(parse_preset(options.preset)),
      goal_{.objective = options.objective},
      named_(named_machine(options)),
      named_users_(user_devices(options, named_)),
      gpus_possible_(may_have_gpus(options)),
      // Runs whose tasks are always measured are slower than others.
      learns_(options.online && !options.deterministic && !options.timeline &&
              options.trace.empty()),
      blas_(std::move(blas)),
      cores_(options.cpu_threads > 0 ? options.cpu_threads : core_count()) {
  if (options.backend == BackendKind::cuda && !gpus_possible_)
    throw Error(Status::unsupported,
                "backend=cuda: no GPU can be used: there is no driver, or no CUDA backend beside "
                "the library");
  if (options.backend == BackendKind::sim && !named_)
    throw Error(Status::bad_option, "backend=sim: expected machine=FILE or NAME with it");
}

bool Offloader::has_backend() const {
  if (options_.backend == BackendKind::host) return true;
  if (options_.backend == BackendKind::sim) return false;
  const Started* started = published_.load(std::memory_order_acquire);
  return started != nullptr ? started->engine.backend != nullptr : gpus_possible_;
}

std::string Offloader::why_not_started() const {
  const Started* started = published_.load(std::memory_order_acquire);
  if (started == nullptr) return {};
  return started->failure ? started->failure->what() : started->engine.complaint;
}

const Engine* Offloader::engine_if_started() const {
  const Started* started = published_.load(std::memory_order_acquire);
  return started != nullptr && !started->failure ? &started->engine : nullptr;
}

Backend* Offloader::backend_if_started() const {
  const Engine* engine = engine_if_started();
  return engine != nullptr ? engine->backend.get() : nullptr;
}

void Offloader::publish(Started started) {
  started_ = std::make_unique<Started>(std::move(started));
  published_.store(started_.get(), std::memory_order_release);
}

const Engine& Offloader::engine() {
  if (started_ == nullptr) {
    try {
      Options options = options_;
      options.objective = goal_.objective;  // says whether watts are needed
      Started fresh{.engine = start_engine(options, named_, blas_)};
      lost_.reserve(fresh.engine.users.size());
      caps_ = memory_caps(options_, fresh.engine);
      online_.start(fresh.engine.machine, fresh.engine.keep);
      publish(std::move(fresh));
    } catch (const Error& error) {
      publish({.failure = error});
    }
  }
  if (started_->failure) throw *started_->failure;
  return started_->engine;
}

const std::vector<int>& Offloader::users() const {
  const Engine* engine = engine_if_started();
  return engine != nullptr ? engine->users : named_users_;
}

DeviceId Offloader::device_of(int user_device) {
  if (users().empty() && (has_backend() || !why_not_started().empty())) engine();
  const std::vector<int>& known = users();
  const auto found = std::ranges::find(known, user_device);
  if (found == known.end()) {
    const std::string why = why_not_started();
    throw Error(Status::bad_argument, "there is no device " + std::to_string(user_device) +
                                          " (this context has " + std::to_string(known.size()) +
                                          ")" + (why.empty() ? "" : ": " + why));
  }
  return kFirstDevice + static_cast<DeviceId>(found - known.begin());
}

std::string Offloader::place_of(DeviceId device) const {
  if (on_host(device)) return place_word(device);
  return std::to_string(users().at(static_cast<std::size_t>(device - kFirstDevice)));
}

std::vector<DeviceId> Offloader::workers(DataType type) {
  const auto machine = model();
  std::int64_t most_bytes = 0;
  for (std::size_t d = kFirstDevice; d < caps_.size(); ++d)
    most_bytes = std::max(most_bytes, caps_[d]);
  std::vector<DeviceId> usable;
  for (DeviceId d = kFirstDevice; d < static_cast<DeviceId>(machine->devices.size()); ++d) {
    // All workers plan with the least memory of any: one without memory would stop the others.
    const std::int64_t bytes = caps_[static_cast<std::size_t>(d)];
    const bool poor = bytes <= 0 || bytes < most_bytes / kPoorest;
    if (!poor && !is_lost(d) && machine->can_compute(d, type)) usable.push_back(d);
  }
  const auto most = static_cast<std::size_t>(most_workers_);
  if (most > 0 && usable.size() > most) usable.resize(most);
  return usable;
}

bool Offloader::is_lost(DeviceId device) const { return std::ranges::count(lost_, device) > 0; }

/// What the CPU has for a part of a plan. The simulator has all cores, but knows none of those that
/// copy pageable memory.
CpuBeside Offloader::cpu_beside(const Problem& problem) {
  if (has_no_lane_) return {};
  const Engine& now = engine();
  if (now.backend != nullptr) return now.backend->cpu_beside(problem);
  const auto is_pageable = [](const Operand& operand) { return operand.home == kPageable; };
  return {.cores = std::ranges::any_of(problem.operands, is_pageable) ? 0 : cores_};
}

TuneRequest Offloader::wishes(const Problem& problem) {
  const CpuBeside cpu = cpu_beside(problem);
  TuneRequest wished{
      .workers = workers(problem.type),
      .selects = options_.selects_devices,
      .memory_cap = caps_,
      .tile = options_.tile,
      .grid = {options_.grid_rows, options_.grid_cols},
      .rules = rules_,
      .preset = preset_,
      .max_hops = options_.max_hops,
      .own_copies = options_.deterministic,
      .cpu_part = std::min(1.0, static_cast<double>(cpu.cores) / cores_),
      .cpu_share = options_.cpu_share,
      .cpu_margin = cpu.margin,
      .cpu_least_s = cpu.least_s,
      .helpers = std::min(cores_, limits::kMostPlanning) - 1,
      // A kernel that cannot reach it would end the process, whatever the file says.
      .shares_pageable = engine().backend == nullptr || engine().backend->reaches_pageable(),
      .goal = goal_};
  if (engine().backend == nullptr)
    wished.why_no_part = "no backend says which cores copies of pageable memory leave it";
  return wished;
}

TuneRequest Offloader::request(const Problem& problem) {
  TuneRequest request = wishes(problem);
  if (request.workers.empty())
    throw Error(Status::unsupported, "no device is left that computes this type");
  return request;
}

/// By the CPU BLAS, with copies of operands on devices there and back.
double Offloader::host_seconds(const Problem& problem) {
  const auto machine = model();
  double seconds = host_s(problem, *machine);
  for (const Operand& operand : problem.operands) {
    if (on_host(operand.home)) continue;
    const std::int64_t items = operand.shared ? 1 : problem.batch;
    const std::int64_t bytes = operand.rows * operand.cols * items * bytes_of(problem.type.storage);
    const LinkId out = machine->find_link(operand.home, kHost);
    const LinkId in = machine->find_link(kHost, operand.home);
    if (out >= 0 && operand.access != Access::write) seconds += machine->copy_s(out, bytes);
    if (in >= 0 && operand.access != Access::read) seconds += machine->copy_s(in, bytes);
  }
  return seconds;
}

Planned Offloader::plan_afresh(const Problem& problem) {
  return planned(problem, request(problem));
}

Planned Offloader::plan_now(const Problem& problem, Pace pace) {
  TuneRequest wanted = request(problem);
  wanted.quick = pace == Pace::soon && may_plan_again(problem);
  Planned made = planned(problem, wanted);
  made.may_improve = wanted.quick;
  return made;
}

Planned Offloader::planned(const Problem& problem, const TuneRequest& wanted) {
  require_few_products(problem, wanted.tile);
  const double start_s = now_s();
  Tuned tuned = tune(problem, *model(), wanted);
  return planned(problem, std::move(tuned), now_s() - start_s, online_.version());
}

Planned Offloader::planned(const Problem& problem, Tuned tuned, double plan_s,
                           std::uint64_t made_for) {
  Planned planned{.tuned = std::move(tuned), .plan_s = plan_s};
  planned.made_for = planned.priced_for = made_for;
  planned.host_s = host_seconds(problem);
  planned.cpu_share = cpu_share(planned.tuned.plan);
  note_left_out(planned);
  verify(planned.tuned.plan);
  return planned;
}

// Whoever asks for a plan files what was found, for whichever problem: the next search would take
// its place.
void Offloader::file_better_plan() {
  auto outcome = again_.take();
  if (!outcome) return;
  const Problem& problem = outcome->problem;
  const auto known = cache_.find(problem);
  // While the search went on the machine may have been corrected, and this plan made for it.
  if (known == nullptr || !known->may_improve || outcome->made_for < known->made_for) return;
  try {
    if (outcome->tuned && outcome->tuned->plan != known->tuned.plan) {
      keep_found(problem,
                 planned(problem, *std::move(outcome->tuned), outcome->plan_s, outcome->made_for));
      return;
    }
    Planned best = *known;  // with its serial, so that a backend keeps what it has for it
    best.may_improve = false;
    best.made_for = outcome->made_for;
    cache_.insert(problem, std::make_shared<const Planned>(std::move(best)));
  } catch (const std::bad_alloc&) {
    // The call has a plan.
  }
}

/// Without memory or a thread for it, what is known stays.
void Offloader::search_better(const Problem& problem) noexcept {
  try {
    TuneRequest wanted = request(problem);
    wanted.helpers = std::min(wanted.helpers, cores_ / 2 - 1);  // the other cores are for the calls
    again_.begin(problem, online_.version(),
                 [problem, wanted, machine = model()](const auto& gives_up) mutable {
                   wanted.gives_up = gives_up;
                   return tune(problem, *machine, wanted);
                 });
  } catch (const std::exception&) {
    // The next call tries again.
  }
}

/// What never changes its plans takes its time at once, and so does a BLAS with one core; other
/// objectives may gain more than the time of planning. Calls of level 2 are planned soon, and the
/// plan of a batch's sample says into which parts, all of them problems, the batch is cut.
bool Offloader::may_plan_again(const Problem& problem) const {
  return learns_ && cores_ > 1 && preset_ == Preset::none && goal_.is_time() &&
         !problem.traits().vectors && problem.batch < kSampleItems;
}

/// By user-facing numbers.
void Offloader::note_left_out(Planned& planned) const {
  std::vector<LeftOut> left_out = planned.tuned.search.left_out();
  for (LeftOut& left : left_out)
    left.device = users().at(static_cast<std::size_t>(left.device - kFirstDevice));
  if (!left_out.empty())
    planned.left_out = std::make_shared<const std::vector<LeftOut>>(std::move(left_out));
}

Bound Offloader::bound(const Problem& problem, const Machine& machine) {
  const TuneRequest wanted = wishes(problem);
  const bool has_cpu = why_no_cpu(problem, machine, wanted).empty();
  return fleet::bound(problem, machine, has_cpu ? wanted.cpu_part : 0);
}

Bound Offloader::bound(const Problem& problem) { return bound(problem, at_best(*model())); }

std::optional<double> Offloader::value_bound(const Problem& problem, const Plan& plan) {
  return goal_bound(problem, at_best(*model()), workers(problem.type), goal_, plan.tuning.cpu_part);
}

void Offloader::set_goal(Goal goal) {
  goal_ = std::move(goal);
  forget_plans();
}

std::shared_ptr<const Planned> Offloader::keep(const Problem& problem, Planned planned) {
  planning_s_ += planned.plan_s;
  return keep_found(problem, std::move(planned));
}

std::shared_ptr<const Planned> Offloader::keep_found(const Problem& problem, Planned planned) {
  planned.serial = ++last_serial_;
  planned.places = places_of(planned.tuned.plan);
  auto kept = std::make_shared<const Planned>(std::move(planned));
  cache_.insert(problem, kept);
  return kept;
}

Planned Offloader::priced_again(const Problem& problem, const Planned& known) {
  Planned again = known;
  again.tuned.cost = predicted(again.tuned.plan, *model());
  again.host_s = host_seconds(problem);
  again.priced_for = online_.version();
  // What runs showed was against the prediction before.
  again.evidence = std::make_shared<Evidence>(known.evidence->about_runs());
  return again;
}

std::shared_ptr<const Planned> Offloader::find(const Problem& problem, Pace pace) {
  file_better_plan();
  auto known = cache_.find(problem);
  if (known != nullptr && known->may_improve) {
    if (pace == Pace::well) return nullptr;
    if (again_.can_begin()) search_better(problem);
  }
  if (known == nullptr || known->priced_for == online_.version()) return known;
  if (known->tuned.planned == 0) {  // what was hopeless may not be any more
    cache_.erase(problem);
    return nullptr;
  }
  known = std::make_shared<const Planned>(priced_again(problem, *known));
  cache_.insert(problem, known);
  return known;
}

std::shared_ptr<const Planned> Offloader::plan(const Problem& problem, Pace pace) {
  const auto known = find(problem, pace);
  if (known && known->tuned.planned > 0) return known;
  return keep(problem, plan_now(problem, pace));
}

std::shared_ptr<const Planned> Offloader::plan_if_promising(const Problem& problem, Pace pace) {
  if (auto known = find(problem, pace)) return known;
  const double by_cpu_s = host_seconds(problem);
  const double at_least_s = bound(problem, *model()).seconds;
  if (at_least_s < by_cpu_s) return keep(problem, plan_now(problem, pace));
  Planned hopeless{.tuned = {.plan = {}, .cost = {.seconds = at_least_s}}, .host_s = by_cpu_s};
  hopeless.priced_for = online_.version();
  return keep(problem, std::move(hopeless));
}

std::shared_ptr<const Planned> Offloader::plan_on(const Problem& problem,
                                                  const std::vector<DeviceId>& devices) {
  const PartKey key{problem, devices};
  const auto keep_it = [&](Planned planned) {
    planned.places = places_of(planned.tuned.plan);
    auto kept = std::make_shared<const Planned>(std::move(planned));
    parts_.insert(key, kept);
    return kept;
  };
  if (auto known = parts_.find(key)) {
    if (known->priced_for == online_.version() || known->tuned.planned == 0) return known;
    return keep_it(priced_again(problem, *known));
  }
  const double start_s = now_s();
  Planned planned;
  try {
    TuneRequest wanted = request(problem);
    wanted.workers = devices;
    wanted.cpu_part = 0;
    wanted.why_no_part = "another call may have the CPU";
    require_few_products(problem, wanted.tile);
    planned.tuned = tune(problem, *model(), wanted);
    verify(planned.tuned.plan);
  } catch (const Error& error) {
    if (error.status() == Status::internal) throw;
    planned = known_impossible();
  } catch (const std::length_error&) {  // larger than any vector of tasks
    planned = known_impossible();
  }
  planned.part = devices;
  planned.plan_s = now_s() - start_s;
  planning_s_ += planned.plan_s;
  planned.serial = ++last_serial_;
  planned.made_for = planned.priced_for = online_.version();
  return keep_it(std::move(planned));
}

std::int64_t Offloader::items_per_plan(const Problem& problem) {
  if (problem.batch <= kSampleItems) return problem.batch;
  Problem sample = problem;
  sample.batch = kSampleItems;
  const auto planned = plan(sample);
  const std::int64_t tasks = std::ssize(planned->tuned.plan.tasks);
  const std::int64_t items = kMostTasks * kSampleItems / std::max<std::int64_t>(1, tasks);
  return std::clamp<std::int64_t>(items, 1, problem.batch);
}

void Offloader::retry_limits() {
  const auto is_full = [](std::int64_t bytes) { return bytes <= 0; };
  const bool all_full = std::all_of(caps_.begin() + kFirstDevice, caps_.end(), is_full);
  if (engine().backend == nullptr || (calls_with_less_ == 0 && !all_full)) return;
  if (++calls_with_less_ > kCallsWithLess) reset_limits();
}

void Offloader::reset_limits() {
  caps_ = memory_caps(options_, engine());
  most_workers_ = 0;
  calls_with_less_ = 0;
  forget_plans();
}

void Offloader::leave_to_parent() {
  if (started_ != nullptr && options_.backend != BackendKind::host)
    static_cast<void>(started_->engine.backend.release());
}

void Offloader::trim() {
  Backend* const backend = backend_if_started();
  if (backend == nullptr) return;
  backend->trim();
  reset_limits();
}

}  // namespace fleet
