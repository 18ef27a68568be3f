// SPDX-License-Identifier: BSD-3-Clause
// journal.hpp: the books of a context: statistics, the last runs, and the reports on them when the
// process ends. It knows no backend.
#pragma once
#include <deque>
#include <memory>

#include "base/options.hpp"
#include "core/plan_cache.hpp"
#include "core/statistics.hpp"
#include "sim/trace.hpp"

namespace fleet {

/// One plan that ran, with its machine and its trace.
struct RunRecord {
  std::shared_ptr<const Planned> planned;
  std::shared_ptr<const Machine> machine;
  std::shared_ptr<const Trace> trace;
  double start_s = 0;  ///< on the steady clock, to put runs beside each other
};

/// Thread-safe, and usable in a forked child.
class Journal {
 public:
  explicit Journal(const Options& options);

  /// True when the end of the process asks for every call (a summary).
  bool keeps_summary() const { return !summary_.empty(); }

  void note(CallRecord&& record);
  /// Copies that belong to no call: results that come home.
  void note_bytes(const CallRecord& record);
  void note_on_cpu(const char* symbol, const CallShape& shape, const char* reason, double seconds);
  void note(const LapackRecord& record);
  void note(const RunRecord& run);

  std::string statistics_json() const;
  /// The last run; an empty one if there was none.
  RunRecord last_run() const;

 private:
  friend class ExitReport;

  const std::string summary_;
  const std::string trace_;
  Statistics statistics_;
  std::deque<RunRecord> runs_;
};

/// Makes sure that the reports of the options `summary` and `trace` are written when the process
/// ends. Journals that name the same file share it. Process-wide state, as the end of a process is.
void report_at_exit(const std::shared_ptr<Journal>& journal);

/// Called when a context is destroyed: drops all of its journal that will not be written, so that
/// programs may make any number of contexts.
void close_journal(const std::shared_ptr<Journal>& journal) noexcept;

}  // namespace fleet
