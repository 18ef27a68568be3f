// SPDX-License-Identifier: BSD-3-Clause
// context.hpp: the only mutable state of the library: devices, plans, memory and books of one
// context. Thread-safe; it knows no C types.
#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/call_queue.hpp"
#include "core/factor_call.hpp"
#include "core/joined_calls.hpp"
#include "core/journal.hpp"
#include "core/offloader.hpp"
#include "core/output.hpp"
#include "core/plan_ahead.hpp"
#include "core/registry.hpp"
#include "core/residents.hpp"
#include "run/device_turn.hpp"
#include "run/pool_pins.hpp"

namespace fleet {

class HeldFactors;
class MixedFactors;
struct HeldCall;
class StripMemory;
struct StripPiece;

/// Whatever plans or runs on devices takes `turn_`, one after the other, but for calls that
/// somebody waits for: those may be on devices at the same time, each on its own. The registry and
/// the books, which a forked child needs too, have a lock that a fork waits for.
class Context {
 public:
  /// Throws Error(bad_option, bad_file, unsupported) for what the options say.
  explicit Context(const Options& options);
  /// Waits for calls in progress and frees all memory of allocate().
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Logs the complaints as warnings, and arranges the reports that are written when the process
  /// ends. Not part of the constructor: of two default contexts made at once, one is dropped.
  void open_books(const std::vector<std::string>& complaints);

  /// Does the call, after queued calls that use its operands. Throws Error; C is untouched unless
  /// the status is device_failed.
  void compute(const Call& call);

  /// Does the factorization, after queued calls that use its matrix; returns LAPACK's info. Throws
  /// Error; the matrix is untouched unless the status is device_failed.
  std::int64_t factor(const FactorCall& call);
  /// The factors in single precision of a matrix that devices hold beside it in double, for a
  /// system of so many right sides; the devices are this thread's as long as the result lives.
  /// Pivots are those of getrf. Nothing, with all but the pivots untouched, where the host has to
  /// do it. Throws Error as a call does that reads the matrix.
  std::unique_ptr<MixedFactors> mixed_factors(const HeldCall& call);
  /// The same of a matrix on the host, in its own precision.
  std::unique_ptr<HeldFactors> held_factors(const HeldCall& call);
  /// Runs `work` with the CPU's library, which has as many threads then as `cpu_threads` says.
  template <typename Work>
  void with_cpu(Work&& work) {
    run_with_cpu(std::ref(work));  // needs no memory
  }
  /// How many threads may work on the host for one call.
  int cpu_threads() const;
  /// For work on the host: waits for queued calls that use the matrix and brings its elements home.
  /// False where that is a device. Throws Error as a call does that uses it.
  bool bring_to_cpu(const View& matrix, Storage storage, Access access);
  /// All elements of a matrix that was brought to the CPU were written there.
  void note_cpu_wrote(const View& matrix, Storage storage);

  /// What kernels outside of a plan use.
  struct InPlace {
    View view;
    Storage storage;
    Access access;
  };
  /// Runs kernels one after another where all operands lie, three at most: on a device or, on the
  /// host, by the CPU. After queued calls that use them. Throws Error(unsupported) if that is not
  /// one place.
  void compute_in_place(std::span<const Launch> launches, std::span<const InPlace> operands);

  /// Queues the call; its event is finished when it is done, or has failed. Calls that are queued
  /// one after another are planned as one where they can be.
  std::shared_ptr<Event> queue(const Call& call) { return queue_.push(call); }
  /// Queues that the memory is to be at home.
  std::shared_ptr<Event> queue_read(const Block& block) { return queue_.push_read(block); }
  CallQueue& queued() { return queue_; }
  /// Where the tiles of a block-cyclic matrix belong (parse_cyclic); nothing where there are no
  /// devices. Throws Error(bad_argument), and as the start of devices does.
  std::optional<Distribution> distribution(Storage storage, std::int64_t rows, std::int64_t cols,
                                           std::string_view place);
  /// Tiles of tracked memory may stay on devices after a program, until somebody needs them at
  /// home.
  void track(const Block& block, const std::optional<Distribution>& distribution = {}) {
    residents_.track(block, distribution);
  }
  /// What earlier calls made of it is at home then.
  void untrack(const Block& block);
  /// After queued calls that use the memory: its elements are at home. Throws Error(device_failed)
  /// where a call that failed, or a lost device, has left one undefined.
  void read(const Block& block);
  /// The caller has written the memory: copies of it leave the devices.
  void note_written(const Block& block);

  /// For the drop-in. True when the call is done, or failed in a way that nobody else can make
  /// good: C is undefined, or an operand is on a device. False, with C untouched, when the BLAS
  /// behind has to do it; `reason` says why.
  bool compute_if_profitable(const Call& call, const char*& reason);
  /// A line in the log, for callers without a status.
  void log_error(const char* text);
  /// Books a call that the BLAS behind the drop-in did.
  void note_host_call(const Call& call, const char* reason, double seconds);
  /// Books a call of LAPACK that the drop-in was given.
  void note_lapack(const LapackRecord& record);
  /// True when the books need only the shape of such a call: no line per call is wanted, and no
  /// memory is registered or allocated here.
  bool books_shapes() const {
    return options_.verbose == 0 && !log_.wants(Log::kEverything) && registry_.empty();
  }
  /// The same by its shape. Only for a context that is never destroyed: the thread is not counted.
  void note_host_shape(const char* symbol, const CallShape& shape, const char* reason,
                       double seconds) {
    Computing::note_other();
    journal_->note_on_cpu(symbol, shape, reason, seconds);
  }
  /// Flops (2mnk) of the smallest product that devices are expected to finish before the CPU;
  /// infinite without devices.
  double min_flops();
  /// The same of reflectors that a LAPACK outside applies to a matrix in between its own work. The
  /// threads of that work still wait busily for more, beside those of our copies, and what is
  /// applied goes to the devices and back each time: eigh and svd of 2048 took longer on two GPUs
  /// than on their 32 cores.
  double min_reflector_flops() const { return forces_devices() ? 0 : kReflectorFlops; }
  /// Why the drop-in asks for no devices.
  const char* why_not_offered() const {
    if (options_.offload == Offload::never) return "offload=never";
    const char* const why = why_no_devices();
    return why != nullptr ? why : "below min_flops";
  }
  bool serves_lapack() const { return options_.linalg; }
  /// The update of a blocked routine, m x n by nb columns for some above < nb <= most.
  struct BlockedUpdate {
    Storage storage = Storage::f64;
    std::int64_t m = 0, n = 0, above = 0, most = 0;
    friend bool operator==(const BlockedUpdate&, const BlockedUpdate&) = default;
  };
  /// The least nb with which devices are expected to be clearly faster than the CPU at it, with all
  /// matrices in pageable memory; 0: there is none, or devices have not started. Waits for no call.
  std::int64_t block_size(const BlockedUpdate& update);
  bool wants_all_calls() const { return options_.verbose > 0 || journal_->keeps_summary(); }

  /// `location`: kHost, kPageable, or kFirstDevice + a user-facing number.
  void* allocate(int location, std::int64_t bytes);
  void release(void* data);
  /// With the next allocation or trim(): for where the context must not be entered.
  void release_later(void* data);
  void copy(void* to, const void* from, std::int64_t bytes);
  /// The same of matrices with as many rows and columns.
  void copy(const View& to, const View& from, Storage storage);
  /// Waits for the work that is now in this stream, so that later calls start after it. Devices of
  /// streams are user-facing.
  void wait_for_stream(int device, void* stream);
  /// Before a stream is held until a queued call is done: kernels that such calls need for the
  /// first time cannot be loaded while it is. For a second at most: a call may wait for what the
  /// caller does next.
  void wait_for_first_calls();
  /// An event that is done when the work that is now in this stream is.
  std::shared_ptr<Event> record(int device, void* stream);
  /// Starts the devices, if no call has yet: that waits for all that they do.
  void start();
  /// What is put into this stream from now on starts after the event, done or failed.
  void hold_stream(int device, void* stream, Event& event);
  /// Plans are made for the caller's number of a cost from now on; empty: for the option again.
  void set_objective(std::function<double(const Cost&)> own);
  void trim();
  void register_host(void* data, std::int64_t bytes);
  void unregister_host(void* data);

  std::string plan_json(std::string_view problem);
  std::string simulate_json(std::string_view problem);
  /// The same of several calls as one plan (parse_composition).
  std::string plan_program_json(std::string_view program);
  std::string simulate_program_json(std::string_view program);
  std::string bound_json(std::string_view problem);
  std::string trace_json();
  std::string machine_json();
  std::string config_json();
  std::string statistics_json() const { return journal_->statistics_json(); }

 private:
  using Homes = std::array<DeviceId, 3>;
  static bool all_on_host(const Homes& homes) {
    return on_host(homes[kA]) && on_host(homes[kB]) && on_host(homes[kC]);
  }
  /// Who is to do a call, and why.
  struct Choice {
    bool devices = false;
    const char* reason = "";
    std::string detail = {};
    std::shared_ptr<const Planned> planned = {};  ///< of the first items; also where the CPU won
    double plan_s = 0;                            ///< what planning for this call took
    bool is_at_once = false;                      ///< others are on devices of their own meanwhile
  };
  /// Counts a thread that is inside.
  class User {
   public:
    explicit User(std::atomic<int>& users) : users_(users) { ++users_; }
    ~User() { --users_; }
    User(const User&) = delete;
    User& operator=(const User&) = delete;

   private:
    std::atomic<int>& users_;
  };
  void run(const Call& call, double start_s, CallRecord& record);
  void compute_now(const Call& call);
  void settle(const Call& call);
  void settle(const Block& block, Access access);
  void wait_for_queued(const Block& block, Access access);
  void make_coherent(const Block& block, Access access);
  void make_coherent(const Call& call);
  void require_defined(const Call& call);
  void forget_old_copies();
  void note_written_in_turn(const Block& block);
  void note_defined(const Call& call);
  void bring_home(const std::function<bool(const Block&)>& wanted);
  bool return_by_plan(const Residents::Return& what);
  void return_alone(const Residents::Return& what, const TileId& tile);
  void return_untracked();
  void return_all();
  void return_all_in_turn();
  void discard(const Block& block);
  void note_lost_devices();
  void make_room(const Plan& plan, const PlacedProgram& placed, std::span<const QueuedCall> later);
  DeviceId locate_in_turn(const Block& block);
  void settle(const void* data, std::int64_t bytes, bool is_written);
  std::size_t compute_queued(std::span<QueuedCall> calls);
  Homes usable_homes(const Call& call);
  std::size_t compute_joined(std::span<QueuedCall> calls);
  bool run_joined(const JoinedCalls& joined, std::span<QueuedCall> calls,
                  std::span<const QueuedCall> later);
  using AllTiles = std::array<RegularTiles, kStorages>;
  AllTiles all_tiles();
  CallCuts cuts_of(const Call& call, const Problem& problem, const AllTiles& tiles) const;
  void begin_ahead(const std::shared_ptr<const Planned>& running, PlacedProgram placed,
                   std::span<const QueuedCall> calls);
  std::unique_ptr<PlanAhead::Draft> draft_next(const Planned& running, const PlacedProgram& placed,
                                               std::span<const QueuedCall> under_way,
                                               const ProgramPlanner& planner,
                                               const AllTiles& tiles);
  void end_ahead() noexcept;
  std::size_t drafted(std::span<const QueuedCall> calls);
  PlacedProgram placed(const JoinedCalls& joined);
  void clear_the_way(const PlacedProgram& placed);
  void require_read_defined(const PlacedProgram& placed);
  Offloader::Outcome run_program(const JoinedCalls& joined, std::span<const QueuedCall> calls,
                                 std::span<const QueuedCall> later, CallRecord& record);
  std::optional<Offloader::Outcome> run_where_tiles_are(const PlacedProgram& placed,
                                                        std::span<const Arguments> arguments,
                                                        std::span<const QueuedCall> calls,
                                                        std::span<const QueuedCall> later,
                                                        CallRecord& record);
  void compute_alone(QueuedCall& queued);
  void read_alone(const QueuedCall& queued);
  void move(const Transfer& transfer);
  void copy_in_turn(const Block& from, const Block& to);
  bool scatter(const Block& from, const Block& to);
  void bring_triangles_home(const std::function<bool(const Block&)>& wanted);
  std::vector<Block> gather(const Block& from, const Block& to);
  void copy_at_home(const Block& from, const Block& to);
  void spread(const Block& block);
  static PlacedProgram placed_alone(const Block& block, const Distribution& distribution,
                                    DeviceId home);
  bool spread_by_plan(const PlacedProgram& placed, std::span<const Block> homes);
  bool run_copies(const Plan& plan, std::span<const Block> homes, const KeptSlots& slots);
  Distributions distributions_of(const Call& call) const;
  void finish_read(const QueuedCall& queued, std::span<const QueuedCall> calls, Status status,
                   const std::string& failure);
  void read_in_turn(std::span<const QueuedCall> calls);
  /// With the turn taken: "", or why devices do not start, which leaves the CPU. Throws
  /// Error(bad_option) unless this is the default context, whose settings are never fatal.
  std::string start_devices();
  Choice choose_in_turn(const Call& call, const Homes& homes, std::optional<DeviceUse>& use);
  Choice choose(const Call& call, const Homes& homes);
  Choice choose_by_model(const Problem& problem, Offloader::Pace pace = Offloader::Pace::soon);
  static constexpr double kReflectorFlops = 5e10;
  /// Below 512^3 with host operands no GPU beats the CPU.
  static constexpr double kColdFlops = 2.0 * 512 * 512 * 512;
  /// Whatever the call is; nullptr: there may be some.
  const char* why_no_devices() const;
  /// Is the model not asked for calls that are large enough?
  bool forces_devices() const {
    return options_.offload == Offload::always || options_.min_flops > 0;
  }
  bool reaches_min_flops(double flops) const;
  const char* reason_for_cpu(const Call& call, const Homes& homes) const;
  bool takes_devices(const Call& call, const Homes& homes, Choice& choice, DeviceUse& use);
  void wait_for_devices(const Choice& choice, DeviceUse& use);
  std::shared_ptr<const Planned> shared(const DeviceTurn::Caller& one,
                                        const DeviceTurn::Caller& rival,
                                        std::span<const DeviceId> devices, const DeviceUse& use);
  std::int64_t run_on_devices(const Call& call, const Homes& homes, const Choice& choice,
                              DeviceUse& use, CallRecord& record);
  void finish_on_cpu(const Call& call, std::int64_t done, const Homes& homes,
                     std::optional<DeviceUse>& use);
  void run_on_cpu(const Call& call, const Homes& homes, std::optional<DeviceUse>& use);
  void run_with_cpu(const std::function<void(CpuBlas&)>& work);
  std::int64_t run_factor(const FactorCall& call, CallRecord& record);
  std::shared_ptr<const PlannedFactors> promising_plan(const Factorization& what,
                                                       CallRecord& record);
  bool factor_on_devices(const FactorCall& call, const Factorization& what, CallRecord& record,
                         std::int64_t& info);
  bool run_factors(const FactorCall& call, const Factorization& what,
                   const std::shared_ptr<const PlannedFactors>& planned, CallRecord& record,
                   std::int64_t& info);
  std::shared_ptr<const PlannedFactors> plan_mixed(const Factorization& what, DeviceId home,
                                                   CallRecord& record);
  std::shared_ptr<const PlannedFactors> plan_held(const Factorization& what, CallRecord& record);
  /// With plan(), by make(on, planned), which takes the memory.
  template <class Factors, class Plan, class Make>
  std::unique_ptr<Factors> hold(const Factorization& what, CallRecord& record, Plan plan,
                                Make make);
  template <class Factors, class HoldAt>
  std::unique_ptr<Factors> factors_of(const HeldCall& call, Storage storage, HoldAt hold_at);
  std::optional<Factorization> dealt(const FactorCall& call, const Block& block) const;
  PlacedProgram distributed(const Block& block);
  void take_strips(const Block& block, const Strips& strips, std::optional<StripMemory>& memory);
  void give_strips_back(const Block& block, const StripMemory& memory);
  void move_pieces(std::span<const StripPiece> pieces, bool into_strips);
  bool move_by_plan(std::span<const StripPiece> pieces, bool into_strips);
  const char* reason_for_cpu(const Factorization& what) const;
  /// A matrix, and where it lies.
  struct Placed {
    DeviceId home;
    View view;
  };
  void transfer_alone(const Placed& to, const Placed& from, std::int64_t element);
  double profitable_flops();
  bool profitable(std::int64_t edge);
  std::int64_t find_block_size(const BlockedUpdate& update, const Machine& machine) const;

  std::pair<Backend&, DeviceId> owner_of_streams(int device);
  void tell_why_not_all();

  /// Starts the devices if the program has used GPUs without us: its memory can be a device's or
  /// pinned then.
  void start_for_memory_of_program();
  Homes locate(const Call& call);
  Homes registered_homes(const Call& call);
  DeviceId locate(const void* data, std::int64_t bytes);
  /// The same, with what the pool knows of the memory. Throws Error(unsupported) where the program
  /// uses GPUs, none can be asked, and the CPU cannot reach the memory.
  std::pair<DeviceId, PoolState> locate_with_pool(const void* data, std::int64_t bytes);
  /// Of memory that is not in the registry. Throws Error(unsupported) if no device answers and the
  /// CPU cannot reach it.
  static DeviceId located_by(Backend& backend, const void* data, std::int64_t bytes);
  void pin_soon(const void* data, std::int64_t bytes) noexcept;
  void pin_soon(const Call& call) noexcept;
  std::int64_t bytes_at(const void* data);
  void give_back(const Range& range);
  void unpin(const Range& range);

  void begin_record(CallRecord& record, const Call& call) const noexcept;
  static void begin_record(CallRecord& record, const FactorCall& call) noexcept;
  void note_place(CallRecord& record, const Homes& homes) const noexcept;
  static void note_choice(CallRecord& record, const Choice& choice) noexcept;
  void close_record(CallRecord& record, double seconds) noexcept;

  Problem parse(std::string_view problem);  ///< with the turn taken
  Factorization parse_factors(std::string_view text);
  std::string factor_plan_json(std::string_view text);
  Offloader::ProgramPtr parse_program(std::string_view program);
  Offloader::ProgramPtr expand_in_turn(Composition composition);
  double alone_s(const Composition& calls, const Problem& problem, const Composition::Call& call);
  void to_machine(Problem& problem);
  std::shared_ptr<const Planned> plan_for_text(const Problem& problem);
  /// Sole use of the devices. An empty lock where the mutex may be held for ever
  /// (gate::only_cpu_left): the caller may only read then.
  std::unique_lock<std::mutex> take_turn();
  DeviceUse take_lock();
  void require_engine() const;

  const Options options_;
  void release_left();
  std::mutex left_mutex_;
  std::vector<void*> left_;  ///< to be released; guarded by left_mutex_
  const Log log_;
  bool has_told_why_ = false;  ///< why some GPUs are not used; by whoever starts devices
  std::shared_ptr<CpuBlas> blas_;
  const int cores_;
  std::shared_ptr<Journal> journal_;
  DeviceTurn turn_;
  Offloader offloader_;    // guarded by turn_
  PoolPins pins_;          // by the backend that offloader_ has
  double min_flops_ = -1;  // guarded by turn_; -1: not known yet
  /// The last answer of a type: LAPACK asks again and again, and a bound takes 20 us.
  struct KnownBlockSize {
    std::shared_ptr<const Machine> machine;
    BlockedUpdate update;
    std::int64_t size = 0;
  };
  std::mutex block_sizes_lock_;
  std::array<KnownBlockSize, kStorages> block_sizes_;  // guarded by block_sizes_lock_
  Registry registry_;
  Residents residents_;        // guarded by turn_, but for what any thread may ask
  std::atomic<int> users_{0};  ///< threads inside
  /// Of the queue's thread: plans of the next calls, and the events of the calls of the last one.
  PlanAhead ahead_;
  std::vector<std::shared_ptr<Event>> drafted_;
  CallQueue queue_;  ///< after all that its thread uses
};

/// The default context: made on first use from the environment, never destroyed. Settings that
/// cannot be used are left at their defaults. Throws std::bad_alloc only.
Context& default_context();

}  // namespace fleet
