// SPDX-License-Identifier: BSD-3-Clause
// execute.cpp: the loop that replays a plan. It resolves tiles to addresses and scalars to factors;
// it must not know clocks, threads or what a backend does with a task.
#include "run/execute.hpp"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace fleet {
namespace {

std::complex<double> factor_of_target(const Task& task, const TileOp& op, const Binding& binding) {
  switch (task.accumulate) {
    case Accumulate::overwrite:
      return 0.0;
    case Accumulate::sum:
      return 1.0;
    default:
      return binding.scalars[op.beta];
  }
}

/// `begun` is set before the run gets the task.
void enqueue(TaskId id, const Plan& plan, const Binding& binding, Execution& run, bool& begun) {
  const Task& task = plan.tasks[static_cast<std::size_t>(id)];
  const auto address = [&](const Where& where) {
    return where.in_place() ? nullptr : address_of(plan, binding, where, run);
  };
  const TileProgram& program = *plan.program;
  const auto view = [&](const TileId& tile, const Where& where, Form form = Form::stored) {
    if (form == Form::stored) return view_of(plan, binding, tile, where, address(where));
    const std::int64_t rows = program.rows_of(tile, form), cols = program.cols_of(tile, form);
    return View{.data = address(where), .rows = rows, .cols = cols, .ld = rows};
  };
  if (task.kind != TaskKind::compute) {
    const View from = view(task.tile, task.from), to = view(task.tile, task.to);
    begun = true;
    return run.copy(id, from, to);
  }
  if (task.kernel == Kernel::prepare) {
    Launch launch = launch_of(program, {.kernel = Kernel::prepare}, task.tile, binding);
    launch.a = view(task.tile, task.inputs[0]);
    launch.c = view(task.tile, task.to, task.form);
    begun = true;
    return run.launch(id, launch);
  }
  const TileOp& op = program.op(task.op);
  Launch launch = launch_of(program, op, task.tile, binding);
  launch.kernel = task.kernel;
  launch.beta = factor_of_target(task, op, binding);
  launch.c = view(task.tile, task.to);
  if (task.kernel == Kernel::add) {
    launch.a = view(task.tile, task.inputs[0]);
  } else {
    for (const std::size_t x : {0, 1})
      if (is_read(op.inputs[x], task.inputs[x]))
        (x == 0 ? launch.a : launch.b) = view(op.inputs[x].tile, task.inputs[x], op.inputs[x].form);
    if (launch.kernel == Kernel::solve && launch.side == Side::right) std::swap(launch.a, launch.b);
  }
  begun = true;
  run.launch(id, launch);
}

/// Enqueues all tasks, or those before the first that the run does not take, and waits for them.
Trace hand_over(const Plan& plan, const Binding& binding, Execution& run) {
  TaskId id = 0;
  bool begun = false;
  std::optional<std::string> failure;
  try {
    for (; id < static_cast<TaskId>(plan.tasks.size()); ++id) {
      begun = false;
      enqueue(id, plan, binding, run, begun);
    }
  } catch (const std::exception& error) {
    failure = message_of(error);
  }
  // Tasks under way still use the caller's memory, and may have changed C.
  Trace trace = run.finish();
  if (!failure) return trace;
  for (std::size_t t = static_cast<std::size_t>(id); t < trace.spans.size(); ++t)
    trace.spans[t] = {};  // not handed over, whatever the run says about itself as a whole
  // The run threw with the task in its hands: nobody knows how much of it was done.
  if (begun) trace.spans.at(static_cast<std::size_t>(id)) = {.start_s = 0, .stop_s = -1};
  if (trace.status == Status::ok) {
    trace.status = Status::device_failed;
    trace.failed = id;
    trace.message = std::move(*failure);
  }
  return trace;
}

}  // namespace

Binding bind(const TileProgram& program, std::span<const Arguments> calls) {
  Binding binding{.matrices = std::vector<Binding::Matrix>(program.matrices.size()),
                  .scalars = {1.0, -1.0}};
  for (std::size_t c = 0; c < calls.size(); ++c) {
    const Arguments& call = calls[c];
    for (std::size_t x = 0; x < 3; ++x)
      binding.matrices[static_cast<std::size_t>(program.calls[c].matrices[x])] = {
          call.data[x], call.ld[x], call.stride[x]};
    for (const std::complex<double> scalar : {call.alpha, call.beta, std::conj(call.alpha)})
      binding.scalars.push_back(scalar);
  }
  return binding;
}

Binding bind(const Strips& strips, void* a, std::int64_t lda, void* outcomes) {
  Binding binding{.matrices = std::vector<Binding::Matrix>(
                      static_cast<std::size_t>(strips.count() + 2 * strips.panels)),
                  .scalars = {1.0, -1.0, 1.0}};
  const std::int64_t bytes = bytes_of(strips.what.storage);
  const auto at = [&](const TileId& tile) -> Binding::Matrix& {
    return binding.matrices[static_cast<std::size_t>(tile.matrix)];
  };
  for (int j = 0; j < strips.count(); ++j) {
    std::int64_t row = strips.top_of(j), col = strips.begin_of(j);
    if (strips.is_flat()) std::swap(row, col);
    at(strips.strip(j)) = {.data = static_cast<char*>(a) + (row + col * lda) * bytes, .ld = lda};
  }
  std::int64_t begin = 0;
  for (int k = 0; k < strips.panels; ++k) {
    const std::int64_t elements = strips.panel_of(k).outcome_elements();
    at(strips.outcome(k)) = {.data = static_cast<char*>(outcomes) + begin * bytes, .ld = elements};
    begin += elements;
  }
  return binding;
}

std::int64_t decode_outcomes(const Strips& strips, const void* outcomes, std::int64_t* pivots,
                             void* tau) {
  const std::int64_t bytes = bytes_of(strips.what.storage);
  const char* at = static_cast<const char*>(outcomes);
  std::int64_t info = 0;
  for (int k = 0; k < strips.panels; ++k) {
    const Panel panel = strips.panel_of(k);
    if (panel.routine == Factoring::geqrf) {
      std::memcpy(static_cast<char*>(tau) + panel.begin * bytes, at,
                  static_cast<std::size_t>(panel.width * bytes));
    } else {
      const auto note = [at](std::int64_t which) {
        std::int32_t value;
        std::memcpy(&value, at + which * std::int64_t{sizeof value}, sizeof value);
        return std::int64_t{value};
      };
      if (info == 0 && note(Panel::kInfo) > 0) info = panel.begin + note(Panel::kInfo);
      if (panel.routine == Factoring::getrf)
        for (std::int64_t i = 0; i < panel.width; ++i)
          pivots[panel.begin + i] = panel.begin + note(Panel::kPivots + i) + 1;
    }
    at += panel.outcome_elements() * bytes;
  }
  return info;
}

void* address_of(const Plan& plan, const Binding& binding, const Where& where, Execution& run) {
  if (!plan.slot(where).outlives_plan()) return run.slot(where);
  return binding.slots.at(static_cast<std::size_t>(where.device))
      .at(static_cast<std::size_t>(where.slot));
}

View view_of(const Plan& plan, const Binding& binding, const TileId& tile, const Where& where,
             void* slot_address) {
  const TileProgram& program = *plan.program;
  const Binding::Matrix& bound = binding.matrices[static_cast<std::size_t>(tile.matrix)];
  View view{.data = slot_address, .rows = program.rows_of(tile), .cols = program.cols_of(tile)};
  view.ld = view.rows;
  view.fill = program.fill_of(tile);
  view.reversed = bound.ld < 0;
  if (!where.in_place()) return view;

  const Matrix& matrix = program.matrix_of(tile);
  const int item = matrix.items == 1 ? 0 : tile.row / matrix.tile_rows();
  const auto row = static_cast<std::size_t>(tile.row - item * matrix.tile_rows());
  const auto col = static_cast<std::size_t>(tile.col);
  view.ld = std::abs(bound.ld);
  const Cuts& cols = matrix.col_cuts;
  const std::int64_t before = view.reversed ? cols.back() - cols[col + 1] : cols[col];
  const std::int64_t elements = item * bound.stride + matrix.row_cuts[row] + before * view.ld;
  view.data = static_cast<char*>(bound.data) + elements * bytes_of(matrix.storage);
  return view;
}

Launch launch_of(const TileProgram& program, const TileOp& op, const TileId& target,
                 const Binding& binding) {
  Launch launch{.kernel = op.kernel,
                .type = program.type_of(op, target),
                .op_a = op.inputs[0].op,
                .op_b = op.inputs[1].op,
                .alpha = binding.scalars[op.alpha]};
  const auto note = [&](const TileId& tile) {
    if (!tile.exists()) return;
    const Structure structure = program.matrix_of(tile).structure;
    launch.hermitian |= structure == Structure::hermitian;
    launch.triangular |= structure >= Structure::triangular;
    if (structure == Structure::unit_triangular) launch.diag = Diag::unit;
  };
  note(target);
  for (const Factor& input : op.inputs) note(input.tile);
  if (op.kernel == Kernel::solve && op.inputs[0].form != Form::stored) launch.side = Side::right;
  if (factors(op.kernel)) {
    const auto& of_target = program.matrix_of(target).panel;
    launch.panel = of_target ? *of_target : *program.matrix_of(op.inputs[0].tile).panel;
    launch.offset = op.kernel == Kernel::outcome ? 0 : program.offset_of(op, target);
  }
  return launch;
}

Trace complete(const Plan& plan, const Binding& binding, Execution& run) {
  return past_first_write(
      [&] { return run.is_whole() ? run.finish() : hand_over(plan, binding, run); });
}

Trace execute(const Plan& plan, const Binding& binding, Backend& backend, std::uint64_t serial) {
  return complete(plan, binding, *backend.begin(plan, binding, serial));
}

Trace execute(const Plan& plan, const Arguments& arguments, Backend& backend,
              std::uint64_t serial) {
  return execute(plan, bind(*plan.program, {&arguments, 1}), backend, serial);
}

}  // namespace fleet
