// SPDX-License-Identifier: BSD-3-Clause
// execute.cpp: the loop that replays a plan. It resolves tiles to addresses and scalars to factors;
// it must not know clocks, threads or what a backend does with a task.
#include "exec/execute.hpp"

#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace fleet {
namespace {

View resolve(const Plan& plan, const Arguments& arguments, Backend& backend, const TileId& tile,
             const Where& where) {
  return view_of(plan, arguments, tile, where, where.in_place() ? nullptr : backend.slot(where));
}

std::complex<double> factor_of_target(const Plan& plan, const Task& task,
                                      const Arguments& arguments) {
  if (adds_sums(plan, task)) return 1.0;
  const bool computes = task.kernel == Kernel::multiply || task.kernel == Kernel::solve;
  if (computes && task.accumulate != Accumulate::beta)
    return task.accumulate == Accumulate::overwrite ? 0.0 : 1.0;
  // What is solved for is alpha times C, less the products with what was.
  return computes && plan.problem.traits().solves ? arguments.alpha : arguments.beta;
}

/// `begun` is set before the backend gets the task.
void enqueue(TaskId id, const Plan& plan, const Arguments& arguments, Backend& backend,
             bool& begun) {
  const Task& task = plan.tasks[static_cast<std::size_t>(id)];
  const auto view = [&](const TileId& tile, const Where& where) {
    return resolve(plan, arguments, backend, tile, where);
  };
  if (task.kind != TaskKind::compute) {
    const View from = view(task.tile, task.from), to = view(task.tile, task.to);
    begun = true;
    return backend.copy(id, task, from, to);
  }
  Launch launch{.kernel = task.kernel,
                .type = plan.problem.type,
                .op_a = task.ops[0],
                .op_b = task.ops[1],
                .alpha = factor_of_step(plan, task.k_index, arguments.alpha),
                .beta = factor_of_target(plan, task, arguments),
                .a = {},
                .b = {},
                .c = view(task.tile, task.to),
                .hermitian = plan.problem.traits().hermitian,
                .triangular = plan.problem.traits().triangular,
                .diag = plan.problem.diag,
                .side = plan.problem.side,
                .routine = kernel_of(plan.problem)};
  if (task.kernel != Kernel::scale) launch.a = view(task.input_tiles[0], task.inputs[0]);
  if (task.kernel == Kernel::multiply) launch.b = view(task.input_tiles[1], task.inputs[1]);
  begun = true;
  backend.launch(id, task, launch);
}

/// All tasks, or those before one that the backend does not take, and waits for them.
Trace hand_over(const Plan& plan, const Arguments& arguments, Backend& backend) {
  TaskId id = 0;
  bool begun = false;
  std::optional<std::string> failure;
  try {
    for (; id < static_cast<TaskId>(plan.tasks.size()); ++id) {
      begun = false;
      enqueue(id, plan, arguments, backend, begun);
    }
  } catch (const std::exception& error) {
    failure = message_of(error);
  }
  // What has started still uses the caller's memory, and may have changed C.
  Trace trace = backend.finish();
  if (!failure) return trace;
  for (std::size_t t = static_cast<std::size_t>(id); t < trace.spans.size(); ++t)
    trace.spans[t] = {};  // not handed over, whatever the backend says of the run as a whole
  // The backend threw with the task in its hands: nobody knows how much of it ran.
  if (begun) trace.spans.at(static_cast<std::size_t>(id)) = {.start_s = 0, .stop_s = -1};
  if (trace.status == Status::ok) {
    trace.status = Status::device_failed;
    trace.failed = id;
    trace.message = std::move(*failure);
  }
  return trace;
}

}  // namespace

View view_of(const Plan& plan, const Arguments& arguments, const TileId& tile, const Where& where,
             void* slot_address) {
  View view{.data = slot_address, .rows = plan.rows_of(tile), .cols = plan.cols_of(tile)};
  view.ld = view.rows;
  view.fill = plan.fill_of(tile);
  view.reversed = arguments.ld[static_cast<std::size_t>(tile.operand)] < 0;
  if (!where.in_place()) return view;

  const auto operand = static_cast<std::size_t>(tile.operand);
  const int tile_rows = plan.tile_rows(tile.operand);
  const int item = plan.problem.operands[operand].shared ? 0 : tile.row / tile_rows;
  const auto row = static_cast<std::size_t>(tile.row - item * tile_rows);
  const auto col = static_cast<std::size_t>(tile.col);
  view.ld = std::abs(arguments.ld[operand]);
  const Cuts& cols = plan.col_cuts(tile.operand);
  const std::int64_t before = view.reversed ? cols.back() - cols[col + 1] : cols[col];
  const std::int64_t elements =
      item * arguments.stride[operand] + plan.row_cuts(tile.operand)[row] + before * view.ld;
  view.data = static_cast<char*>(arguments.data[operand]) + elements * bytes_of(plan.problem.type);
  return view;
}

Routine kernel_of(const Problem& problem) {
  return problem.traits().vectors ? problem.routine : Routine::gemm;
}

std::complex<double> factor_of_step(const Plan& plan, int step, std::complex<double> alpha) {
  const RoutineTraits& traits = plan.problem.traits();
  if (traits.solves) return -1.0;
  return traits.twice && traits.hermitian && step % 2 == 1 ? std::conj(alpha) : alpha;
}

Start start(const Plan& plan, const Arguments& arguments, Backend& backend, std::uint64_t serial) {
  if (backend.replay(plan, arguments, serial)) return Start::whole;
  backend.prepare(plan);
  return Start::prepared;
}

Trace complete(const Plan& plan, const Arguments& arguments, Backend& backend, Start started) {
  return past_first_write([&] {
    return started == Start::whole ? backend.finish() : hand_over(plan, arguments, backend);
  });
}

Trace execute(const Plan& plan, const Arguments& arguments, Backend& backend,
              std::uint64_t serial) {
  return complete(plan, arguments, backend, start(plan, arguments, backend, serial));
}

}  // namespace fleet
