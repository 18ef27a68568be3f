// SPDX-License-Identifier: BSD-3-Clause
// journal.cpp: keeps the books of calls, and closes them when the process ends. It knows no
// backend.
#include "core/journal.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/gate.hpp"
#include "core/output.hpp"
#include "run/pool_pins.hpp"

namespace fleet {
namespace {

using Json = nlohmann::ordered_json;

// More runs or events than this are too many to look at.
constexpr std::size_t kMostRuns = 64;
constexpr std::size_t kMostTasks = 400'000;

/// Leaves `most` runs, or fewer if their tasks are too many, but at least one.
void drop_oldest(std::deque<RunRecord>& runs, std::size_t most) {
  std::size_t tasks = 0;
  for (const RunRecord& kept : runs) tasks += kept.planned->tuned.plan.tasks.size();
  while (runs.size() > 1 && (runs.size() > most || tasks > kMostTasks)) {
    tasks -= runs.front().planned->tuned.plan.tasks.size();
    runs.pop_front();
  }
}

/// Gives the queues of one run the numbers that queues of the same name have in the whole timeline:
/// each plan counts its own.
void renumber_queues(Json& timeline, std::map<std::string, int>& numbers) {
  std::map<int, int> number_of;
  for (Json& queue : timeline["fleetblas"]["queues"]) {
    const auto name = queue["name"].get<std::string>();
    const int number = numbers.emplace(name, static_cast<int>(numbers.size())).first->second;
    number_of[queue["tid"].get<int>()] = number;
    queue["tid"] = number;
  }
  for (Json& event : timeline["traceEvents"]) {
    const std::string what = event["name"].get<std::string>();
    if (what == "process_name" || what == "process_sort_index") continue;
    event["tid"] = number_of.at(event["tid"].get<int>());
    if (what == "thread_sort_index") event["args"]["sort_index"] = event["tid"];
  }
}

/// The timelines of all runs on one clock. Each event says which call it belongs to, each call when
/// it began.
std::string merged_timeline(const std::deque<RunRecord>& runs) {
  Json events = Json::array();
  Json calls = Json::array();
  std::set<std::string> names;
  std::map<std::string, int> queue_numbers;
  for (const RunRecord& run : runs) {
    Json one = Json::parse(chrome_trace_json(run.planned->tuned.plan, *run.machine, *run.trace));
    renumber_queues(one, queue_numbers);
    const double offset_s = run.start_s - runs.front().start_s;
    for (Json& event : one["traceEvents"]) {
      // Each run repeats the names of lanes: one copy is enough.
      if (event["ph"] == "M" && !names.insert(event.dump()).second) continue;
      if (event["ph"] == "X") {
        event["ts"] = event["ts"].get<double>() + offset_s * 1e6;
        event["args"]["call"] = calls.size();
      }
      events.push_back(std::move(event));
    }
    one["fleetblas"]["start_s"] = offset_s;
    calls.push_back(std::move(one["fleetblas"]));
  }
  return Json{{"traceEvents", std::move(events)}, {"fleetblas", {{"calls", std::move(calls)}}}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

Journal::Journal(const Options& options) : summary_(options.summary), trace_(options.trace) {}

void Journal::note(CallRecord&& record) {
  const gate::StateLock lock;
  statistics_.add(std::move(record));
}

void Journal::note_bytes(const CallRecord& record) {
  const gate::StateLock lock;
  statistics_.add_bytes(record);
}

void Journal::note_on_cpu(const char* symbol, const CallShape& shape, const char* reason,
                          double seconds) {
  const gate::StateLock lock;
  statistics_.add_on_cpu(symbol, shape, reason, seconds);
}

void Journal::note(const LapackRecord& record) {
  const gate::StateLock lock;
  statistics_.add(record);
}

void Journal::note(const RunRecord& run) {
  const gate::StateLock lock;
  runs_.push_back(run);
  drop_oldest(runs_, trace_.empty() ? 1 : kMostRuns);
}

std::string Journal::statistics_json() const {
  const PoolCounters pool = pool_counters();  // it looks for a library: not with the lock
  const gate::StateLock lock;
  return statistics_.json(pool);
}

RunRecord Journal::last_run() const {
  const gate::StateLock lock;
  return runs_.empty() ? RunRecord{} : runs_.back();
}

/// The reports of this process: by file the books of closed journals, and the journals still open.
/// Guarded by gate::StateLock: contexts are destroyed in forked children too.
class ExitReport {
 public:
  static void add(const std::shared_ptr<Journal>& journal) {
    if (journal->summary_.empty() && journal->trace_.empty()) return;
    ExitReport& report = instance();
    const gate::StateLock lock;
    report.journals_.push_back(journal);
    if (report.process_ != 0) return;
    report.process_ = getpid();
    std::atexit(write);
  }

  static void close(const std::shared_ptr<Journal>& journal) {
    if (journal->summary_.empty() && journal->trace_.empty()) return;
    ExitReport& report = instance();
    const gate::StateLock lock;
    const auto found = std::ranges::find(report.journals_, journal);
    if (found == report.journals_.end()) return;
    Books books = report.closed_;  // whole or not at all, should memory run out
    take_down(*journal, books);
    report.closed_ = std::move(books);
    report.journals_.erase(found);
  }

 private:
  struct Books {
    std::map<std::string, Statistics> summaries;
    std::map<std::string, std::deque<RunRecord>> timelines;
  };

  static void take_down(const Journal& journal, Books& books) {
    if (!journal.trace_.empty()) {
      std::deque<RunRecord>& runs = books.timelines[journal.trace_];
      runs.insert(runs.end(), journal.runs_.begin(), journal.runs_.end());
      std::ranges::sort(runs, {}, &RunRecord::start_s);
      drop_oldest(runs, kMostRuns);
    }
    if (!journal.summary_.empty()) books.summaries[journal.summary_].merge(journal.statistics_);
  }

  static ExitReport& instance() {
    static auto* report = new ExitReport;  // never destroyed: contexts may come and go at exit
    return *report;
  }

  static void write() {
    ExitReport& report = instance();
    // A child's exit runs the handlers of its parent, whose calls are not its own to report.
    if (report.process_ != getpid()) return;
    try {
      report.write_all();
    } catch (...) {
      // The process ends: no one can be told.
    }
  }

  void write_all() {
    Books books;
    const PoolCounters pool = pool_counters();
    {
      const gate::StateLock lock;
      books = closed_;
      for (const auto& journal : journals_) take_down(*journal, books);
    }
    for (const auto& [path, statistics] : books.summaries) {
      if (path == "1")
        write_quietly(STDERR_FILENO, statistics.text(pool));
      else
        write_file(path_of_process(path),
                   path.ends_with(".json") ? statistics.json(pool) + "\n" : statistics.text(pool));
    }
    for (const auto& [path, runs] : books.timelines)
      write_file(path_of_process(path), merged_timeline(runs));
  }

  pid_t process_ = 0;
  std::vector<std::shared_ptr<Journal>> journals_;
  Books closed_;
};

void report_at_exit(const std::shared_ptr<Journal>& journal) { ExitReport::add(journal); }

void close_journal(const std::shared_ptr<Journal>& journal) noexcept {
  try {
    ExitReport::close(journal);
  } catch (const std::bad_alloc&) {
    // The journal then stays open.
  }
}

}  // namespace fleet
