// SPDX-License-Identifier: BSD-3-Clause
// program_runner.hpp: runs a random program on a context through the public header, at moments of
// its own, and keeps what it saw. It knows no results.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fleetblas/fleetblas.hpp"
#include "support/program_oracle.hpp"
#include "support/random_plans.hpp"
#include "support/random_programs.hpp"
#include "support/tracked.hpp"

namespace fleet::test {

/// What a program does beside its steps; none of it may change a result.
struct Timing {
  std::uint64_t seed = 0;
  bool lingers = false;      ///< pauses, waits and reads between the steps
  bool has_company = false;  ///< other calls between those of the program
};

/// What came of a step: the status of its call, look or write, why, and what was seen.
template <typename T>
struct StepOutcome {
  fleet_status status = FLEET_OK;
  std::string message;
  std::vector<T> seen;
};

template <typename T>
struct ProgramOutcome {
  std::vector<StepOutcome<T>> steps;
  std::string broken;        ///< "" or what no program may do, whatever fails
  bool lacked_room = false;  ///< some call could not be planned
  std::string ran;           ///< where the calls ran and why, as statistics have it
};

template <typename T>
class ProgramRunner {
 public:
  /// `shared`: the first matrix, where the program shares it.
  ProgramRunner(const RandomProgram& program, const Timing& timing, fleet_context* context,
                Guarded<T>* shared = nullptr)
      : program_(program), timing_(timing), random_(timing.seed), context_(context) {
    outcome_.steps.resize(program.steps.size());
    events_.resize(program.steps.size());
    held_.resize(program.matrices.size());
    if (shared != nullptr) held_[0].data = shared->data();
    for (int m = 0; m < std::ssize(held_); ++m) begin(m);
    for (int c = 0; c < (timing.has_company ? 3 : 0); ++c) {
      company_.emplace_back(kCompanyEdge * kCompanyEdge, 0.5f);
      fleet_matrix* handle = nullptr;
      require(fleet_matrix_wrap(context_, FLEET_F32, kCompanyEdge, kCompanyEdge,
                                company_.back().data(), kCompanyEdge, &handle));
      company_handles_.emplace_back(handle);
    }
  }

  ProgramOutcome<T> run() {
    for (std::size_t s = 0; s < program_.steps.size() && outcome_.broken.empty(); ++s) {
      if (timing_.lingers) linger(s);
      if (timing_.has_company && chance(random_, 30)) keep_company();
      do_step(s);
    }
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      if (events_[s] == nullptr) continue;
      outcome_.steps[s].status = fleet_event_wait(events_[s].get());
      outcome_.steps[s].message = fleet_message();
    }
    for (const MatrixHandle& company : company_handles_) {
      const fleet_status status =
          fleet_matrix_read(company.get(), 0, 0, kCompanyEdge, kCompanyEdge);
      if (status != FLEET_DEVICE_FAILED) require(status);  // it shares the plans that fail
    }
    for (Held& held : held_) {
      const std::string guard = held.own == nullptr ? "" : held.own->broken_guard();
      if (!guard.empty()) outcome_.broken = guard;
    }
    return std::move(outcome_);
  }

 private:
  static constexpr std::int64_t kCompanyEdge = 20;

  /// A matrix of the program: its memory, which handles of it do not outlive.
  struct Held {
    std::unique_ptr<Guarded<T>> own;
    T* data = nullptr;
    MatrixHandle first, alias;
    std::vector<MatrixHandle> kept;  ///< views that outlive the queuing of their call
  };

  void require(fleet_status status) {
    if (status != FLEET_OK && outcome_.broken.empty())
      outcome_.broken = std::string("refused: ") + fleet_message();
  }
  Held& of(const MatrixPart& part) { return held_[static_cast<std::size_t>(part.matrix)]; }
  const ProgramMatrix& shape_of(const MatrixPart& part) const {
    return program_.matrices[static_cast<std::size_t>(part.matrix)];
  }
  T* at(const MatrixPart& part) { return of(part).data + part.row + part.col * shape_of(part).ld; }

  MatrixHandle wrap(const MatrixPart& part) {
    fleet_matrix* handle = nullptr;
    require(fleet_matrix_wrap(context_, fleetblas::TypeOf<T>::value, part.rows, part.cols, at(part),
                              shape_of(part).ld, &handle));
    return MatrixHandle(handle);
  }
  MatrixHandle view(const MatrixHandle& of, std::int64_t row, std::int64_t col, std::int64_t rows,
                    std::int64_t cols) {
    fleet_matrix* handle = nullptr;
    require(fleet_matrix_view(of.get(), row, col, rows, cols, &handle));
    return MatrixHandle(handle);
  }

  void begin(int m) {
    const MatrixPart whole = program_.whole(m);
    const ProgramMatrix& shape = shape_of(whole);
    Held& held = of(whole);
    if (!shape.place.empty()) {
      fleet_matrix* handle = nullptr;
      const auto create = [&] {
        return fleet_matrix_create(context_, fleetblas::TypeOf<T>::value, shape.rows, shape.cols,
                                   shape.place.c_str(), &handle);
      };
      // A fault fails one allocation.
      if (create() != FLEET_OK) require(create());
      held.first.reset(handle);
      if (handle == nullptr) return;
      void* data = nullptr;
      std::int64_t ld = 0;
      require(fleet_matrix_data(handle, &data, &ld));
      EXPECT_EQ(ld, shape.ld);
      held.data = static_cast<T*>(data);
      held.alias = wrap(whole);
    } else {
      if (held.data == nullptr) {
        held.own = std::make_unique<Guarded<T>>(shape.rows, shape.cols, shape.ld);
        held.data = held.own->data();
      }
      make_handles(whole);
    }
    if (m == 0 && program_.shares_first) return;
    const auto numbers =
        fresh_numbers<T>(whole, shape.rows, ProgramOracle<T>::initial_seed(program_, m));
    if (move_numbers(whole, numbers) != FLEET_OK) require(move_numbers(whole, numbers));
    require(fleet_matrix_wrote(held.first.get(), 0, 0, shape.rows, shape.cols));
  }

  void make_handles(const MatrixPart& whole) {
    of(whole).first = wrap(whole);
    of(whole).alias = wrap(whole);
  }

  /// Writes numbers into the memory of a part, which nobody uses.
  fleet_status move_numbers(const MatrixPart& part, const std::vector<T>& numbers) {
    for (std::int64_t col = 0; col < part.cols; ++col) {
      T* to = at(part) + col * shape_of(part).ld;
      const T* from = numbers.data() + col * part.rows;
      const auto bytes = static_cast<std::size_t>(part.rows) * sizeof(T);
      if (!shape_of(part).on_device())
        std::memcpy(static_cast<void*>(to), from, bytes);
      else if (const fleet_status status = fleet_copy(context_, to, from, bytes);
               status != FLEET_OK)
        return status;
    }
    return FLEET_OK;
  }

  fleet_status look(const MatrixPart& part, std::vector<T>& seen) {
    seen.resize(static_cast<std::size_t>(part.rows * part.cols));
    for (std::int64_t col = 0; col < part.cols; ++col) {
      T* to = seen.data() + col * part.rows;
      const T* from = at(part) + col * shape_of(part).ld;
      const auto bytes = static_cast<std::size_t>(part.rows) * sizeof(T);
      if (!shape_of(part).on_device())
        std::memcpy(static_cast<void*>(to), from, bytes);
      else if (const fleet_status status = fleet_copy(context_, to, from, bytes);
               status != FLEET_OK)
        return status;
    }
    return FLEET_OK;
  }

  fleet_status gather(const MatrixPart& part, std::vector<T>& seen) {
    seen.resize(static_cast<std::size_t>(part.rows * part.cols));
    const MatrixHandle handle = view(of(part).first, part.row, part.col, part.rows, part.cols);
    return keep_message(fleet_matrix_gather(handle.get(), seen.data(), part.rows));
  }
  /// What destroying a handle would make the library forget.
  fleet_status keep_message(fleet_status status) {
    message_ = status == FLEET_OK ? "" : fleet_message();
    return status;
  }

  fleet_status scatter(const MatrixPart& part, std::uint64_t numbers) {
    const auto fresh = fresh_numbers<T>(part, shape_of(part).rows, numbers);
    const MatrixHandle handle = view(of(part).first, part.row, part.col, part.rows, part.cols);
    return keep_message(fleet_matrix_scatter(handle.get(), fresh.data(), part.rows));
  }

  fleet_status read(const MatrixPart& part) {
    const MatrixHandle& handle = chance(random_, 50) ? of(part).first : of(part).alias;
    return fleet_matrix_read(handle.get(), part.row, part.col, part.rows, part.cols);
  }

  MatrixHandle handle_of(const CallOperand& operand) {
    const MatrixPart& p = operand.part;
    if (p.matrix < 0) return {};
    Held& held = of(p);
    switch (operand.way) {
      case Way::wrap:
        return wrap(p);
      case Way::alias:
        return view(held.alias, p.row, p.col, p.rows, p.cols);
      case Way::nested: {
        const ProgramMatrix& shape = shape_of(p);
        const MatrixHandle rest =
            view(held.first, p.row, p.col, shape.rows - p.row, shape.cols - p.col);
        return view(rest, 0, 0, p.rows, p.cols);
      }
      case Way::view:
        break;
    }
    return view(held.first, p.row, p.col, p.rows, p.cols);
  }

  StoredMatrix<T> stored(const CallOperand& operand) {
    const MatrixPart& p = operand.part;
    if (p.matrix < 0) return {};
    return {at(p), p.rows, p.cols, shape_of(p).ld};
  }

  void do_step(std::size_t s) {
    const ProgramStep& step = program_.steps[s];
    StepOutcome<T>& outcome = outcome_.steps[s];
    const auto& [a, b, c] = step.operands;
    switch (step.act) {
      case Act::queue:
        return queue(s);
      case Act::call:
        outcome.status = call_at_once<T>(context_, step.call, stored(a), stored(b), stored(c));
        break;
      case Act::read:
        if (shape_of(step.part).is_cyclic() && chance(random_, 60)) {
          outcome.status = gather(step.part, outcome.seen);
          break;
        }
        outcome.status = read(step.part);
        if (outcome.status == FLEET_OK) outcome.status = look(step.part, outcome.seen);
        break;
      case Act::write:
        if (shape_of(step.part).is_cyclic() && chance(random_, 60)) {
          outcome.status = scatter(step.part, step.numbers);
          break;
        }
        // A failure tells that elements are undefined, which is no reason not to define them.
        static_cast<void>(read(step.part));
        outcome.status = move_numbers(
            step.part, fresh_numbers<T>(step.part, shape_of(step.part).rows, step.numbers));
        if (outcome.status != FLEET_OK) break;
        require(fleet_matrix_wrote(of(step.part).first.get(), step.part.row, step.part.col,
                                   step.part.rows, step.part.cols));
        break;
      case Act::rewrap:
        destroy_handles(step.part);
        make_handles(step.part);
        break;
      case Act::forget:
        for (std::size_t before = 0; before < s; ++before)
          if (events_[before] != nullptr && program_.steps[before].uses(step.part.matrix))
            static_cast<void>(fleet_event_wait(events_[before].get()));
        destroy_handles(step.part);
        outcome.status = look(step.part, outcome.seen);
        make_handles(step.part);
        break;
    }
    if (outcome.status != FLEET_OK) outcome.message = message_.empty() ? fleet_message() : message_;
    message_.clear();
  }

  void queue(std::size_t s) {
    const ProgramStep& step = program_.steps[s];
    MatrixHandle a = handle_of(step.operands[kA]), b = handle_of(step.operands[kB]),
                 c = handle_of(step.operands[kC]);
    fleet_event* event = nullptr;
    require(queue_call<T>(context_, step.call, a.get(), b.get(), c.get(), &event));
    events_[s].reset(event);
    if (timing_.lingers && chance(random_, 30))
      of(step.operands[kC].part).kept.push_back(std::move(c));
  }

  void destroy_handles(const MatrixPart& whole) {
    of(whole).first.reset();
    of(whole).alias.reset();
    of(whole).kept.clear();
  }

  void linger(std::size_t s) {
    if (chance(random_, 12))
      std::this_thread::sleep_for(std::chrono::microseconds(between(random_, 0, 500)));
    if (chance(random_, 12)) {
      const int m = static_cast<int>(between(random_, 0, std::ssize(held_) - 1));
      const MatrixPart whole = program_.whole(m);
      const std::int64_t rows = between(random_, 1, whole.rows),
                         cols = between(random_, 1, whole.cols);
      static_cast<void>(fleet_matrix_read(held_[static_cast<std::size_t>(m)].alias.get(),
                                          whole.rows - rows, 0, rows, cols));
    }
    if (s == 0 || !chance(random_, 20)) return;
    const auto& event =
        events_[static_cast<std::size_t>(between(random_, 0, static_cast<std::int64_t>(s) - 1))];
    int done = 0;
    if (event == nullptr) return;
    if (chance(random_, 50)) return static_cast<void>(fleet_event_wait(event.get()));
    EXPECT_EQ(fleet_event_query(event.get(), &done), FLEET_OK);
  }

  void keep_company() {
    const auto a = static_cast<std::size_t>(between(random_, 0, 2));
    require(fleet_sgemm_async(context_, FLEET_NO_TRANS, FLEET_TRANS, 0.01f,
                              company_handles_[a].get(), company_handles_[a].get(), 0.5f,
                              company_handles_[(a + 1) % 3].get(), nullptr));
  }

  const RandomProgram& program_;
  const Timing timing_;
  Generator random_;
  fleet_context* const context_;
  std::vector<std::vector<float>> company_;
  std::vector<Held> held_;
  std::vector<MatrixHandle> company_handles_;
  std::vector<EventHandle> events_;
  ProgramOutcome<T> outcome_;
  std::string message_;
};

}  // namespace fleet::test
