// SPDX-License-Identifier: BSD-3-Clause
// context_records.cpp: what a context writes down of calls, for its books and its log. It decides
// nothing.
#include <new>
#include <utility>

#include "base/gate.hpp"
#include "core/context.hpp"

namespace fleet {

void Context::open_books(const std::vector<std::string>& complaints) {
  if (!log_.complaint().empty()) log_.line(Log::kError, {log_.complaint()});
  for (const std::string& complaint : complaints) log_.line(Log::kWarning, {complaint});
  log_.line(Log::kInfo, {"CPU BLAS: ", blas_->name()});
  report_at_exit(journal_);
}

void Context::note_host_call(const Call& call, const char* reason, double seconds) {
  Computing::note_other();
  const User inside(users_);
  CallRecord record;
  begin_record(record, call);
  note_place(record, registered_homes(call));
  record.ran = Ran::cpu;
  record.reason = reason;
  close_record(record, seconds);
}

void Context::note_lapack(const LapackRecord& record) {
  if (record.reason != nullptr) Computing::note_other();
  const User inside(users_);
  if (options_.verbose > 0) log_.say(verbose_line(record));
  journal_->note(record);
}

void Context::begin_record(CallRecord& record, const Call& call) const noexcept {
  static_cast<CallShape&>(record) = call;
  record.symbol = call.symbol;
  record.ld = call.arguments.ld;
  record.alpha = call.arguments.alpha;
  record.beta = call.arguments.beta;
}

void Context::begin_record(CallRecord& record, const FactorCall& call) noexcept {
  record.factoring = call.routine;
  record.type = {.storage = call.storage};
  record.uplo = call.uplo;
  record.m = call.m;
  record.n = call.n;
  record.symbol = call.symbol;
  record.ld = {call.lda, 0, 0};
}

void Context::note_place(CallRecord& record, const Homes& homes) const noexcept {
  try {
    if (all_on_host(homes)) {  // nearly all calls: the letters of place_word
      const auto letter = [&](int operand) {
        return homes[static_cast<std::size_t>(operand)] == kHost ? 'h' : 'p';
      };
      const char text[] = {letter(kA), ',', letter(kB), ',', letter(kC)};
      record.place.assign(text, sizeof text);
      return;
    }
    record.place.clear();
    for (const DeviceId home : homes) {
      if (!record.place.empty()) record.place += ',';
      record.place += offloader_.place_of(home);
    }
  } catch (const std::bad_alloc&) {
    record.place.clear();
  }
}

void Context::note_choice(CallRecord& record, const Choice& choice) noexcept {
  record.reason = choice.reason;
  if (choice.planned != nullptr) record.predicted_s = choice.planned->tuned.cost.seconds;
  record.plan_s = choice.plan_s;
  try {
    record.detail = choice.detail;
  } catch (const std::bad_alloc&) {
    record.detail.clear();
  }
}

void Context::close_record(CallRecord& record, double seconds) noexcept {
  try {
    record.seconds = seconds;
    Backend* const backend = gate::only_cpu_left() ? nullptr : offloader_.backend_if_started();
    if (backend != nullptr && record.ran == Ran::devices) record.phases = backend->phases().take();
    if (options_.verbose > 0) log_.say(verbose_line(record));
    if (log_.wants(Log::kEverything)) log_.line(Log::kEverything, {verbose_line(record)});
    journal_->note(std::move(record));
  } catch (const std::bad_alloc&) {
    // The call is done; only its line in the books is missing.
  }
}

}  // namespace fleet
