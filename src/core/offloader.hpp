// SPDX-License-Identifier: BSD-3-Clause
// offloader.hpp: the device side of a context: plans, runs them, and copes with what fails. One
// thread at a time (the Context sees to it), except where any thread may ask; it knows no address
// registry and no C API.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "core/call.hpp"
#include "core/engine.hpp"
#include "core/journal.hpp"
#include "core/online.hpp"
#include "core/output.hpp"
#include "core/plan_again.hpp"
#include "core/plan_cache.hpp"
#include "core/program_planner.hpp"
#include "cpu/lane.hpp"
#include "plan/bound.hpp"
#include "run/backend.hpp"
#include "run/device_turn.hpp"
#include "run/execute.hpp"

namespace fleet {

/// Throws Error(unsupported) where tiles of this edge, if it is not 0, are so many that planning
/// would take hours.
void require_few_products(const Problem& problem, std::int64_t tile);
/// Throws Error(internal) for a plan that is wrong; does nothing in release builds.
void verify(const Plan& plan);

class Offloader {
 public:
  /// Throws Error(bad_file, bad_option) for what the options say; starts nothing yet.
  Offloader(const Options& options, std::shared_ptr<CpuBlas> blas);

  /// Can calls run on devices? True until the engine has started and found none. From any thread.
  bool has_backend() const;
  /// Starts the backend and measures the machine on the first call. Throws Error if that fails, and
  /// the same Error on each later call.
  const Engine& engine();
  /// The engine if it has been started, whole and never changed again; else nullptr. From any
  /// thread.
  const Engine* engine_if_started() const;
  /// The machine of the engine as runs have corrected it, which plans are made for. Starts the
  /// engine as engine() does.
  std::shared_ptr<const Machine> model() { return engine(), online_.machine(); }
  /// The same; nullptr if the engine has not started. From any thread.
  std::shared_ptr<const Machine> model_if_started() const { return online_.machine(); }
  /// Its backend, if it has one. From any thread.
  Backend* backend_if_started() const;
  /// What happened when devices were to start and did not, or not all; "" else. From any thread.
  std::string why_not_started() const;

  /// User-facing numbers of the devices; empty before GPUs have been looked for. From any thread.
  const std::vector<int>& users() const;
  /// Index in Machine::devices of a user-facing device. Throws Error(bad_argument) if there is
  /// none. Counts the GPUs if nobody did before.
  DeviceId device_of(int user_device);
  /// "h", "p", or the user's number. From any thread.
  std::string place_of(DeviceId device) const;

  /// Called before each call once started: after memory was short, checks now and then whether it
  /// still is.
  void retry_limits();
  /// Devices that may be planned for: those that are not lost and have memory.
  std::vector<DeviceId> workers(DataType type);
  bool is_lost(DeviceId device) const;

  /// How a plan is made that is not known: for a call that waits, where runs may change plans, one
  /// that is found soon; when the problem comes again, a thread looks for a better one beside the
  /// calls. Or the best at once, also in place of one that was found soon.
  enum class Pace { soon, well };
  /// The plan for `problem` from the cache, or made now. Throws as tune().
  std::shared_ptr<const Planned> plan(const Problem& problem, Pace pace = Pace::soon);
  /// The same, without a plan (planned == 0) where even the lower bound loses against the CPU.
  std::shared_ptr<const Planned> plan_if_promising(const Problem& problem, Pace pace = Pace::soon);
  /// The same on these devices only, without the CPU, whose lane another call may have. Where
  /// none is possible, its cost is infinite.
  std::shared_ptr<const Planned> plan_on(const Problem& problem,
                                         const std::vector<DeviceId>& devices);
  /// Is that plan known?
  bool has_plan_on(const Problem& problem, const std::vector<DeviceId>& devices) {
    return parts_.find({problem, devices}) != nullptr;
  }
  /// To be called for a call that the model kept off some devices, or off all.
  void note_unused_devices() noexcept;
  /// Made now and not kept; takes no state but the machine and the options.
  Planned plan_afresh(const Problem& problem);
  /// The same of several calls as one plan, whose tiles are regular_tiles().
  using ProgramPtr = std::shared_ptr<const TileProgram>;
  /// `before`: where tiles are as it begins.
  Planned plan_afresh(const ProgramPtr& program, const Residency& before = {});
  std::shared_ptr<const Planned> plan(const ProgramPtr& program, const Residency& before = {});
  /// For programs that begin with this problem, while no device is lost and no rate is corrected.
  ProgramPlanner program_planner(const Problem& problem);
  /// Keeps a plan that a planner of these devices and rates has made.
  void adopt(const ProgramKey& key, Planned planned);
  /// Brings tiles home: see plan_return.
  Plan plan_return(const ProgramPtr& matrices, const Residency& before,
                   std::span<const TileId> tiles);
  /// Brings copies to devices: see plan_spread. `takes_memory`: to memory that is not theirs yet.
  Plan plan_spread(const ProgramPtr& matrices, const Residency& before,
                   std::span<const Residency::Copy> wanted, bool takes_memory = true);
  RegularTiles regular_tiles(Storage storage);
  /// The least time of any plan for it.
  Bound bound(const Problem& problem);
  /// The least value of any plan for it by the objective; nothing where the objective is not ours.
  std::optional<double> value_bound(const Problem& problem, const Plan& plan);
  const Goal& goal() const { return goal_; }
  /// Forgets the plans that were made for another.
  void set_goal(Goal goal);
  /// Seconds spent on tuning and planning so far.
  double planning_s() const { return planning_s_; }
  /// Items of a larger batch by which it is judged whether, and in what parts, it runs on devices.
  static constexpr std::int64_t kSampleItems = 64;
  /// Items of a batch that one plan should hold.
  std::int64_t items_per_plan(const Problem& problem);

  enum class Outcome {
    done,
    finished_on_cpu,  ///< after a fault: C is right
    not_possible,     ///< no memory, no device that works: C untouched; the record has the reason
  };
  /// Runs `planned` for `problem`; if `use` has devices, others may have the turn while these
  /// compute. Throws Error(device_failed) when C was touched and cannot be completed, and
  /// Error(internal) or std::bad_alloc with C untouched.
  Outcome run(const Problem& problem, const Arguments& arguments,
              std::shared_ptr<const Planned> planned, DeviceUse& use, CallRecord& record,
              Journal& journal, const Log& log);
  /// The same of several calls.
  Outcome run(const ProgramPtr& program, std::span<const Arguments> arguments,
              std::shared_ptr<const Planned> planned, CallRecord& record, Journal& journal,
              const Log& log);
  /// The same with memory for the slots that outlive the plan; no other plan is tried.
  Outcome run(std::span<const Arguments> arguments, std::shared_ptr<const Planned> planned,
              const KeptSlots& slots, CallRecord& record, Journal& journal, const Log& log);
  /// The plans of a factorization, from the cache, or made now. Throws as tune() does, and
  /// Error(unsupported) without devices.
  std::shared_ptr<const PlannedFactors> plan(const Factorization& what);
  /// The same, without plans where even the lower bound loses against the CPU.
  std::shared_ptr<const PlannedFactors> plan_if_promising(const Factorization& what);
  Bound bound(const Factorization& what);
  /// The matrix of a factorization, and where its results that are not in it go: LAPACK's pivots,
  /// scalar factors and info.
  struct Factored {
    void* a = nullptr;
    std::int64_t lda = 1;
    std::int64_t* pivots = nullptr;
    void* tau = nullptr;
    std::int64_t info = 0;
    std::vector<Binding::Matrix> strips = {};  ///< of a matrix that is dealt, instead of a
    KeptSlots slots = {};                      ///< of factors that are kept
    double scale_of_halves = 1;                ///< kScaleOfHalves
  };
  /// Runs the stages one after another; not_possible leaves the matrix untouched. Throws
  /// Error(device_failed) when it was touched and cannot be completed, and Error(internal) or
  /// std::bad_alloc with it untouched. Needs sole use of the devices.
  Outcome run(const Factorization& what, Factored& factored,
              const std::shared_ptr<const PlannedFactors>& planned, CallRecord& record,
              Journal& journal, const Log& log);
  /// Runs a plan of copies. False: some were not made.
  bool run_copies(const Plan& plan, const Binding& binding, Journal& journal, const Log& log);
  /// To be told of runs that are not the offloader's own.
  void note_outcome(const Trace& trace, const Log& log);
  /// A record of nothing but the bytes that the run has moved.
  CallRecord traffic_of(const Plan& plan, const Trace& trace);
  const std::vector<DeviceId>& lost() const { return lost_; }
  /// The most that plans may use of a device's memory.
  std::int64_t cap(DeviceId device) const { return caps_[static_cast<std::size_t>(device)]; }

  /// In a forked child: GPUs are the parent's, and no call of CUDA works here, not even to end it.
  void leave_to_parent();
  /// Called where a run needs memory that is not there, for the first time (0) and again: whoever
  /// has memory on the devices gives it back.
  void set_relief(std::function<void(int attempt)> relief) { relief_ = std::move(relief); }
  /// Gives pooled memory back, and forgets that memory was short.
  void trim();

 private:
  /// The result of starting: an engine, or the reason why there is none.
  struct Started {
    Engine engine;
    std::optional<Error> failure;
  };
  void publish(Started started);

  /// What the options ask for. The request of a plan has some worker: throws Error(unsupported).
  TuneRequest wishes(const Problem& problem);
  TuneRequest request(const Problem& problem);
  CpuBeside cpu_beside(const Problem& problem);
  double host_seconds(const Problem& problem);
  Planned plan_now(const Problem& problem, Pace pace);
  Planned planned(const Problem& problem, const TuneRequest& wanted);
  /// With all that is known of it beside the plan.
  Planned planned(const Problem& problem, Tuned tuned, double plan_s, std::uint64_t made_for);
  /// May runs change its plan? Then the first call gets a quick one.
  bool may_plan_again(const Problem& problem) const;
  /// Puts what a longer search has found into the cache.
  void file_better_plan();
  void search_better(const Problem& problem) noexcept;
  bool takes_cores(const Problem& problem, const Plan& plan) const;
  void note_left_out(Planned& planned) const;
  /// From the cache, with the cost that the machine of now predicts; nullptr: not in it. Begins the
  /// search for a better one.
  std::shared_ptr<const Planned> find(const Problem& problem, Pace pace);
  std::shared_ptr<const Planned> keep(const Problem& problem, Planned planned);
  /// The same of a plan that no call has waited for.
  std::shared_ptr<const Planned> keep_found(const Problem& problem, Planned planned);
  /// The same plan, with the cost that the machine of now predicts.
  Planned priced_again(const Problem& problem, const Planned& known);
  /// A plan with the run that the backend has begun of it.
  struct Begun {
    std::shared_ptr<const Planned> planned;
    Binding binding;
    std::unique_ptr<Execution> run;
    double start_s = 0;
    bool is_beside_search = false;  ///< for a better plan, which takes cores
  };
  /// The last step that leaves C untouched: begins with `planned`, or with a plan that needs less.
  /// Nothing where the CPU has to do the call; the record has the reason.
  /// `What`: a Problem, or a ProgramPtr with the arguments of each of its calls.
  template <class What>
  std::optional<Begun> begin(const What& what, std::span<const Arguments> arguments,
                             std::shared_ptr<const Planned> planned, DeviceUse* use,
                             CallRecord& record, const Log& log);
  /// The same with this plan or none.
  Begun begin_once(std::span<const Arguments> arguments, std::shared_ptr<const Planned> planned,
                   const KeptSlots& slots);
  /// The run with the CPU's part of it on our lane; null: the CPU has no lane.
  std::unique_ptr<Execution> with_lane(const Plan& plan, std::unique_ptr<Execution> run);
  Bound bound(const Problem& problem, const Machine& machine);
  /// All the rest: C may be changed. The run teaches the machine unless `problem` is null.
  Outcome complete(const Problem* problem, Begun begun, const Computing& computing, DeviceUse* use,
                   CallRecord& record, Journal& journal, const Log& log);
  /// Corrects the machine by a whole run. Never throws: the call is done.
  void learn(const Problem& problem, const Planned& planned, const Trace& trace,
             const Log& log) noexcept;
  /// plan(), or nothing where the CPU has to do the call. Throws Error(internal), std::bad_alloc.
  template <class What>
  std::shared_ptr<const Planned> plan_if_possible(const What& what);
  /// After memory ran out for the `attempt`-th time: a plan that needs less, or none.
  template <class What>
  std::shared_ptr<const Planned> smaller(const What& what,
                                         const std::shared_ptr<const Planned>& last, int attempt);
  PlannedFactors plan_factors(const Factorization& what);
  std::shared_ptr<const PlannedFactors> find_factors(const Factorization& what);
  /// What the stages of one factorization share.
  struct FactorRun {
    std::shared_ptr<const PlannedFactors> planned;
    Factored* factored = nullptr;
    void* outcomes = nullptr;
    Binding binding = {};
    bool is_touched = false;  ///< the matrix has been changed by an earlier stage
    const char* refusal = "no memory on the devices";
  };
  std::unique_ptr<Execution> begin_first(const Factorization& what, FactorRun& run, const Log& log);
  std::unique_ptr<Execution> begin_later(const Planned& stage, const FactorRun& run);
  Outcome finish_stage(const std::shared_ptr<const Planned>& planned,
                       std::unique_ptr<Execution> execution, const FactorRun& run,
                       CallRecord& record, Journal& journal, const Log& log);
  std::shared_ptr<const PlannedFactors> keep(const Factorization& what, PlannedFactors planned);
  void give_back(int attempt);
  void halve_caps();
  void forget_plans();
  void keep_books(const Planned& planned, const Trace& trace, CallRecord& record);
  void note_lost(DeviceId device, const Log& log);
  void reset_limits();

  const Options options_;
  const Rules rules_;
  const Preset preset_;
  Goal goal_;
  const std::optional<NamedMachine> named_;
  const std::vector<int> named_users_;  ///< devices as the options number them; empty: GPUs, all
  const bool gpus_possible_;
  const bool learns_;  ///< runs correct the machine
  std::shared_ptr<CpuBlas> blas_;
  const int cores_;
  std::unique_ptr<CpuLane> lane_;  ///< for the CPU's part of plans, once there is one
  bool has_no_lane_ = false;       ///< the system gave it no thread
  std::unique_ptr<Started> started_;
  /// started_ for threads without the turn: set once, when its target is complete.
  std::atomic<const Started*> published_{nullptr};
  OnlineModel online_;
  PlanCache<Problem> cache_;
  PlanAgain again_;
  /// For a part of the devices.
  struct PartKey {
    Problem problem;
    std::vector<DeviceId> devices;
    friend bool operator==(const PartKey&, const PartKey&) = default;
  };
  PlanCache<PartKey> parts_;
  PlanCache<ProgramKey> programs_;
  /// The most recently used last.
  std::vector<std::pair<Factorization, std::shared_ptr<const PlannedFactors>>> factors_;
  std::function<void(int)> relief_;
  std::vector<std::int64_t> caps_;
  double planning_s_ = 0;
  std::uint64_t last_serial_ = 0;
  std::vector<DeviceId> lost_;
  int most_workers_ = 0;     ///< 0: all
  int calls_with_less_ = 0;  ///< since memory was short; 0: it is not
};

}  // namespace fleet
