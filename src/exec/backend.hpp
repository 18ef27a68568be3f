// SPDX-License-Identifier: BSD-3-Clause
// backend.hpp: the only door to a device.
#pragma once
#include <array>
#include <complex>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "exec/trace.hpp"
#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace fleet {

/// A column-major piece of memory at some location. `ld` in elements. Of a triangle the other
/// elements are neither read nor written.
struct View {
  void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t ld = 0;
  Fill fill = Fill::full;
  bool reversed = false;  ///< of one row: the elements of a vector, last first
};

/// What one call binds to a plan: per operand a pointer, a leading dimension and the distance
/// between the items of a batch (elements), and the scalars. Real types use the real parts. The
/// leading dimension of a vector is its increment, negative where its elements lie last first; the
/// pointer is to the lowest address in any case.
struct Arguments {
  std::array<void*, 3> data{};
  std::array<std::int64_t, 3> ld{};
  std::array<std::int64_t, 3> stride{};
  std::complex<double> alpha{1, 0};
  std::complex<double> beta{1, 0};
};

/// What a run binds to a plan, by the ids of its program: where matrices are at home, and scalars.
struct Binding {
  struct Matrix {
    void* data = nullptr;
    std::int64_t ld = 0;      ///< elements; negative: a vector whose elements lie last first
    std::int64_t stride = 0;  ///< elements between the items of a batch
    friend bool operator==(const Matrix&, const Matrix&) = default;
  };
  std::vector<Matrix> matrices;
  std::vector<std::complex<double>> scalars;
  friend bool operator==(const Binding&, const Binding&) = default;
};

/// The arguments of each call of a program. Throws std::bad_alloc.
Binding bind(const TileProgram& program, std::span<const Arguments> calls);

/// One kernel launch with its operands resolved. Unused views are empty.
struct Launch {
  Kernel kernel = Kernel::multiply;
  DataType type = DataType::f64;
  Op op_a = Op::none;
  Op op_b = Op::none;
  std::complex<double> alpha{};
  std::complex<double> beta{};  ///< what the old contents of c are multiplied by; 0: never read
  View a{};  ///< the left factor; add: what is added; solve, prepare: the triangular matrix
  View b{};  ///< the right factor; solve: the inverses of a's blocks, if there are any
  View c{};
  /// A factor that is a triangle is symmetric; with this it and C are Hermitian: diagonals are
  /// real.
  bool hermitian = false;
  /// A factor that is a triangle is triangular, and the other factor may be c: the product takes
  /// its place.
  bool triangular = false;
  Diag diag = Diag::non_unit;  ///< triangular, solve, prepare
  Side side = Side::left;      ///< solve: where the triangular matrix a stands
};

/// One thing that an examination looked at. `broken`: it does not do what is asked of it, and is
/// not used or should not be; `slow`: it works, and could be faster.
struct Finding {
  enum class Verdict { ok, slow, broken };
  std::string subject;  ///< "CPU BLAS", "device 0", "link 0->1"
  Verdict verdict = Verdict::ok;
  std::string text;    ///< what was found, one line
  std::string advice;  ///< what would make it better, one line; may be empty
};

/// Where a piece of memory lies whose first and last byte lie there. Throws Error(bad_argument) if
/// it is not on one device as a whole: the CPU could not read it either.
inline DeviceId location_of_piece(DeviceId first, DeviceId last) {
  if (first == last) return first;
  if (on_host(first) && on_host(last)) return kPageable;
  throw Error(Status::bad_argument, "a matrix reaches beyond its memory on a device");
}

/// Calls to copy and launch only enqueue; nothing is promised to have run before finish(), and
/// nothing of the caller's data is touched before the first of them. One run at a time (the
/// Context sees to it); allocate, release and transfer may be called between runs from any thread.
class Backend {
 public:
  virtual ~Backend() = default;

  /// The devices, links and ports that plans for this backend are made for.
  virtual const Machine& machine() const = 0;

  /// Runs the plan as a whole if the backend has kept it in that form from earlier runs; finish()
  /// then waits for it. False if it has to be enqueued task by task. `serial` is a number that its
  /// owner gives to one plan only; 0: a plan that is not expected again.
  virtual bool replay(const Plan& /*plan*/, const Binding& /*binding*/, std::uint64_t /*serial*/) {
    return false;
  }
  /// Gets the arenas of `plan` ready. Throws Error(no_memory) with nothing touched.
  virtual void prepare(const Plan& plan) = 0;
  /// Address of a staging slot of the prepared plan.
  virtual void* slot(const Where& where) = 0;
  /// copy and launch may throw: the task then counts as done in part, and nothing follows it.
  virtual void copy(TaskId id, const Task& task, const View& from, const View& to) = 0;
  virtual void launch(TaskId id, const Task& task, const Launch& launch) = 0;
  /// Waits for everything that was enqueued, which is less than the plan where copy or launch
  /// threw. Never throws for a failed task: the Trace says so, and which tasks were done.
  virtual Trace finish() = 0;
  /// Whether a kernel is launched while the one before it in its queue still runs. What a launch
  /// takes is then no part of what such kernels take one after another.
  virtual bool overlaps_launches() const { return false; }
  /// From the next run on, whether the spans of its Trace are measured one by one, where that has a
  /// price. Without it, tasks may share the span of their run.
  virtual void keep_times(bool /*wanted*/) {}

  /// Where memory lies that allocate() did not give: kPageable if nothing is known of it. Throws
  /// Error(bad_argument) for memory of a device that is not one of machine(), and for a piece that
  /// reaches beyond a device's memory.
  virtual DeviceId locate(const void* /*data*/, std::int64_t /*bytes*/) { return kPageable; }
  /// Lets devices reach the caller's memory, which is then kHost. False, with nothing changed,
  /// where that is refused.
  virtual bool pin(void* /*data*/, std::int64_t /*bytes*/) { return true; }
  virtual void unpin(void* /*data*/) {}

  /// Memory at a location (kHost: pinned). Throws Error(no_memory).
  virtual void* allocate(DeviceId location, std::int64_t bytes) = 0;
  virtual void release(DeviceId location, void* data) = 0;
  /// Copies between any two locations, at once. Used for recovery and by fleet_copy.
  virtual void transfer(DeviceId to_location, const View& to, DeviceId from_location,
                        const View& from, std::int64_t element_bytes) = 0;
  /// What is copied, launched or transferred from now on starts after what is in this stream of the
  /// device (a cudaStream_t, see fleet_wait_stream). Between runs, from any thread. Nothing to do
  /// where there are no streams.
  virtual void wait_for_stream(DeviceId /*device*/, void* /*stream*/) {}
  /// Gives pooled arenas back.
  virtual void trim() = 0;
  /// Free bytes at a location now (a default memory cap is 80 % of it).
  virtual std::int64_t available_bytes(DeviceId location) = 0;
  /// What this kind of backend can say of its devices, beyond what examine_links finds out on any.
  /// Between runs only.
  virtual std::vector<Finding> examine() { return {}; }
};

}  // namespace fleet
