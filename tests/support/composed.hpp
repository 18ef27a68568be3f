// SPDX-License-Identifier: BSD-3-Clause
// composed.hpp: random programs of several calls that share matrices, their dealing to workers, and
// their operands, with the interpreter as oracle. It makes no plans.
#pragma once
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "program/expand.hpp"
#include "recover/recover.hpp"
#include "run/execute.hpp"
#include "support/cpu_blas.hpp"
#include "support/interpreter.hpp"
#include "support/random_plans.hpp"
#include "support/reference.hpp"

namespace fleet::test {

/// Several calls on square matrices with equal cuts, so that each can be an operand of any call.
struct Composed {
  TileProgram program;
  std::vector<char> begins_unset;  ///< by matrix: the first call that uses it overwrites it
};

inline Problem random_square_call(Generator& random, DataType type, std::int64_t order) {
  for (;;) {
    const auto routine = static_cast<Routine>(between(random, 0, kLevel3Routines - 1));
    const RoutineTraits& traits = traits_of(routine);
    if (traits.hermitian && !is_complex(type.storage)) continue;
    const auto any_op = [&] { return static_cast<Op>(between(random, 0, 2)); };
    if (routine == Routine::gemm)
      return make_problem(
          {.type = type, .op_a = any_op(), .op_b = any_op(), .m = order, .n = order, .k = order},
          {.beta_is_zero = chance(random, 40)});
    const Op turned = traits.hermitian ? Op::conjugate : Op::transpose;
    return make_problem({.routine = routine,
                         .type = type,
                         .side = chance(random, 50) ? Side::left : Side::right,
                         .uplo = chance(random, 50) ? Uplo::lower : Uplo::upper,
                         .diag = chance(random, 50) ? Diag::unit : Diag::non_unit,
                         .op_a = traits.symmetric   ? Op::none
                                 : traits.by_itself ? (chance(random, 50) ? Op::none : turned)
                                                    : any_op(),
                         .op_b = any_op(),
                         .m = order,
                         .n = order,
                         .k = order},
                        {.alpha_is_zero = chance(random, 5), .beta_is_zero = chance(random, 40)});
  }
}

/// Appends `problem` with operands `matrices`; operands that are new get random homes.
inline void append_call(Composed& composed, Problem problem, const Cuts& cuts,
                        const std::array<MatrixId, 3>& matrices, Generator& random, int devices) {
  for (const std::size_t x : {kA, kB, kC})
    problem.operands[x].home =
        matrices[x] == kNoMatrix
            ? random_home(random, devices)
            : composed.program.matrices[static_cast<std::size_t>(matrices[x])].home;
  const Cuts none{0};
  append(composed.program, problem, {cuts, cuts, problem.k == 0 ? none : cuts}, matrices);
  composed.begins_unset.resize(composed.program.matrices.size(), 0);
  if (matrices[kC] == kNoMatrix && problem.operands[kC].access == Access::write &&
      (!problem.traits().triangular || problem.k == 0))
    composed.begins_unset[static_cast<std::size_t>(composed.program.calls.back().target())] = 1;
}

/// `calls` random calls; `shared` percent of their operands are matrices of earlier calls.
inline Composed random_composition(Generator& random, int calls, const Cuts& cuts, int devices,
                                   int shared = 70) {
  Composed composed;
  const DataType type = chance(random, 50) ? DataType::f64 : DataType::c64;
  while (std::ssize(composed.program.calls) < calls) {
    const Problem problem = random_square_call(random, type, cuts.back());
    std::array<MatrixId, 3> matrices{kNoMatrix, kNoMatrix, kNoMatrix};
    for (const std::size_t x : {kA, kB, kC})
      if (chance(random, shared) && (x != kB || problem.traits().has_b))
        matrices[x] =
            static_cast<MatrixId>(between(random, 0, std::ssize(composed.program.matrices)) - 1);
    try {
      append_call(composed, problem, cuts, matrices, random, devices);
    } catch (const Error&) {
      continue;  // stored otherwise, or read and written
    }
  }
  return composed;
}

/// Random owners; groups where the dependencies require them, else random.
inline Dealing random_dealing(Generator& random, const ProgramCall& call, const Grid& grid) {
  const RoutineTraits& traits = call.problem.traits();
  Dealing deal{.grid = grid};
  int group = 0;
  const auto next_group = [&] { return group += chance(random, 20); };
  for (int i = 0; i < tile_count(call.cuts.m); ++i) {
    deal.row_owner.push_back(static_cast<int>(between(random, 0, grid.rows - 1)));
    deal.row_group.push_back(i == 0 ? 0 : next_group());
  }
  deal.row_groups = group + 1;
  group = 0;
  for (int i = 0; i < tile_count(call.cuts.n); ++i) {
    deal.col_owner.push_back(static_cast<int>(between(random, 0, grid.cols - 1)));
    deal.col_group.push_back(i == 0 ? 0 : next_group());
  }
  deal.col_groups = group + 1;
  if (traits.triangular) {
    const bool left = call.problem.side == Side::left;
    auto& along = left ? deal.row_group : deal.col_group;
    const int tiles = static_cast<int>(along.size());
    for (int i = 0; i < tiles; ++i)
      along[static_cast<std::size_t>(i)] = rank_of_tile(call.problem, tiles, i);
    (left ? deal.row_groups : deal.col_groups) = tiles;
    deal.cols_outside = left;
    deal.to_and_fro = false;
  }
  deal.step_cube.assign(static_cast<std::size_t>(std::max(1, call.longest_chain)), 0);
  return deal;
}

/// A random in-core tuning for dealings that the test makes.
inline Tuning random_tuning_of_deals(Generator& random, const Machine& machine) {
  Tuning tuning;
  const auto count = static_cast<int>(between(random, 1, machine.device_count()));
  for (int w = 0; w < count; ++w) tuning.workers.push_back(kFirstDevice + w);
  std::shuffle(tuning.workers.begin(), tuning.workers.end(), random);
  const auto grids = grids_of(count);
  tuning.grid = grids[static_cast<std::size_t>(between(random, 0, std::ssize(grids) - 1))];
  tuning.tile = 8;
  tuning.chunks = static_cast<int>(between(random, 1, 4));
  tuning.own_copies = chance(random, 20);
  for (const Device& device : machine.devices) tuning.memory_cap.push_back(device.memory_bytes);
  if (chance(random, 60))
    for (int r = 0; r < kRules; ++r)
      if (chance(random, 25)) tuning.rules = tuning.rules.without(static_cast<Rule>(r));
  tuning.max_hops = static_cast<int>(between(random, 0, 2));
  return tuning;
}

/// The matrices of a program: random, with NaN where no call may read, and their expected results.
template <typename T>
class ComposedTrial {
 public:
  ComposedTrial(const Composed& composed, std::uint64_t seed)
      : program_(composed.program), random_(seed) {
    for (std::size_t id = 0; id < program_.matrices.size(); ++id) {
      const Matrix& matrix = program_.matrices[id];
      host_.emplace_back(matrix.row_cuts.back(), matrix.col_cuts.back(),
                         matrix.row_cuts.back() + 1);
      if (!composed.begins_unset[id]) fill(matrix, host_.back());
    }
    before_ = expected_ = host_;
    std::vector<Stored<T>> stored;
    for (Guarded<T>& matrix : expected_) stored.push_back({matrix.data(), matrix.ld()});
    std::vector<std::pair<std::complex<double>, std::complex<double>>> scalars;
    for (const ProgramCall& call : program_.calls) {
      const bool writes = call.problem.operands[kC].access == Access::write;
      Arguments one{.alpha = std::complex<double>(random_scalar<T>(random_)),
                    .beta = writes ? 0.0 : std::complex<double>(random_scalar<T>(random_))};
      if (call.problem.traits().hermitian && call.problem.traits().triangle) {
        one.beta = one.beta.real();
        if (!call.problem.traits().twice) one.alpha = one.alpha.real();
      }
      scalars.emplace_back(one.alpha, one.beta);
      calls_.push_back(one);
    }
    interpret<T>(program_, stored, scalars_of(scalars));
  }

  /// `recovers`: the CPU completes a failed run. The failed task has then spoiled its target,
  /// unless its device is lost.
  Trace run(const Plan& plan, Backend& backend, bool recovers = false) {
    bring_to_homes(backend);
    const Binding binding = fleet::bind(program_, calls_);
    const auto run = backend.begin(plan, binding, 0);
    Trace trace = complete(plan, binding, *run);
    if (recovers && trace.status != Status::ok && trace.lost < 0)
      half_write(plan, binding, *run, trace);
    if (recovers && trace.status != Status::ok)
      recover({plan, binding, trace, *run}, {}, backend, *shared_cpu_blas());
    bring_from_homes(backend);
    return trace;
  }

  /// "" if every matrix has its expected value, and all other memory is unchanged.
  std::string verdict() {
    for (std::size_t id = 0; id < host_.size(); ++id) {
      const Matrix& matrix = program_.matrices[id];
      double most = 1;
      for_each(matrix, [&](std::int64_t row, std::int64_t col) {
        most = std::max<double>(most, std::abs(expected_[id].at(row, col)));
      });
      std::string wrong;
      const std::int64_t rows = host_[id].rows(), cols = host_[id].cols();
      for (std::int64_t col = 0; col < cols && wrong.empty(); ++col)
        for (std::int64_t row = 0; row < rows && wrong.empty(); ++row) {
          const T is = host_[id].at(row, col), want = expected_[id].at(row, col),
                  was = before_[id].at(row, col);
          const bool may_change = matrix.is_written && is_counted(matrix, row, col);
          const bool same = std::memcmp(&is, &(may_change ? want : was), sizeof(T)) == 0;
          const bool right = same || (may_change && std::abs(is - want) <= 1e-10 * most);
          if (!right)
            wrong = "element (" + std::to_string(row) + ", " + std::to_string(col) +
                    ") of matrix " + std::to_string(id) + " is wrong";
        }
      if (wrong.empty()) wrong = host_[id].broken_guard();
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

 protected:
  /// Allocates the homes of the matrices, and binds them to the calls.
  void bring_to_homes(Backend& backend) {
    data_.clear();
    for (std::size_t id = 0; id < host_.size(); ++id) {
      const DeviceId home = program_.matrices[id].home;
      data_.push_back(home == kPageable ? host_[id].data() : backend.allocate(home, bytes(id)));
      if (home != kPageable)
        backend.transfer(home, whole(id, data_[id]), kPageable, whole(id, host_[id].data()),
                         sizeof(T));
    }
    for (std::size_t c = 0; c < calls_.size(); ++c)
      for (const std::size_t x : {kA, kB, kC}) {
        const auto id = static_cast<std::size_t>(program_.calls[c].matrices[x]);
        calls_[c].data[x] = data_[id];
        calls_[c].ld[x] = host_[id].ld();
      }
  }

  void bring_from_homes(Backend& backend) {
    for (std::size_t id = 0; id < host_.size(); ++id)
      if (const DeviceId home = program_.matrices[id].home; home != kPageable) {
        // Matrices that are only read are not copied back: their device may be lost.
        if (program_.matrices[id].is_written)
          backend.transfer(kPageable, whole(id, host_[id].data()), home, whole(id, data_[id]),
                           sizeof(T));
        backend.release(home, data_[id]);
      }
  }

  static bool is_counted(const Matrix& matrix, std::int64_t row, std::int64_t col) {
    if (matrix.diagonal == Fill::full) return true;
    return matrix.diagonal == Fill::lower ? row >= col : row <= col;
  }
  template <typename Act>
  static void for_each(const Matrix& matrix, Act act) {
    for (std::int64_t col = 0; col < matrix.col_cuts.back(); ++col)
      for (std::int64_t row = 0; row < matrix.row_cuts.back(); ++row)
        if (is_counted(matrix, row, col)) act(row, col);
  }

  void fill(const Matrix& matrix, Guarded<T>& data) {
    const auto order = static_cast<double>(matrix.row_cuts.back());
    for_each(matrix, [&](std::int64_t row, std::int64_t col) {
      T value = random_scalar<T>(random_);
      if (matrix.structure >= Structure::triangular)
        value = row == col ? value / 2.0 + 1.5 : value / order;
      if (matrix.structure == Structure::unit_triangular && row == col) return;  // stays NaN
      data.at(row, col) = value;
    });
  }

  static void half_write(const Plan& plan, const Binding& binding, Execution& run, Trace& trace) {
    const auto failed = static_cast<std::size_t>(trace.failed);
    trace.spans.at(failed) = {.start_s = 0, .stop_s = -1};
    const Task& task = plan.tasks[failed];
    if (task.kernel == Kernel::prepare) return;  // recovery does not use inverses
    const View spoiled =
        view_of(plan, binding, task.tile, task.to,
                task.to.in_place() ? nullptr : address_of(plan, binding, task.to, run));
    for (std::int64_t col = 0; col < spoiled.cols; ++col)
      for (std::int64_t row = 0; row < spoiled.rows; ++row)
        if (spoiled.fill == Fill::full || (spoiled.fill == Fill::lower ? row >= col : row <= col))
          static_cast<T*>(spoiled.data)[row + col * spoiled.ld] = T(777);
  }

  std::int64_t bytes(std::size_t id) const {
    return host_[id].ld() * host_[id].cols() * std::int64_t{sizeof(T)};
  }
  /// The whole buffer, including the rows that belong to no matrix.
  View whole(std::size_t id, void* data) const {
    return {.data = data, .rows = host_[id].ld(), .cols = host_[id].cols(), .ld = host_[id].ld()};
  }

  const TileProgram& program_;
  Random random_;
  std::vector<Guarded<T>> host_, before_, expected_;
  std::vector<Arguments> calls_;
  std::vector<void*> data_;  ///< the homes, per matrix
};

}  // namespace fleet::test
