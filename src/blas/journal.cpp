// SPDX-License-Identifier: BSD-3-Clause
// journal.cpp: keeps the books of calls, and closes them when the process ends. It knows no
// backend.
#include "blas/journal.hpp"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "blas/gate.hpp"
#include "blas/output.hpp"

namespace fleet {
namespace {

using Json = nlohmann::ordered_json;

// A timeline is for looking at: more runs, or more events, than this nobody can.
constexpr std::size_t kMostRuns = 64;
constexpr std::size_t kMostTasks = 400'000;

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
std::string merged_timeline(const std::vector<Run>& runs) {
  Json events = Json::array();
  Json calls = Json::array();
  std::set<std::string> names;
  std::map<std::string, int> queue_numbers;
  for (const Run& run : runs) {
    Json one = Json::parse(chrome_trace_json(run.planned->tuned.plan, *run.machine, *run.trace));
    renumber_queues(one, queue_numbers);
    const double offset_s = run.start_s - runs.front().start_s;
    for (Json& event : one["traceEvents"]) {
      // Names of lanes come with every run, and once is enough.
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

/// `path` with %p turned into the number of this process, so that processes do not write over each
/// other.
std::string path_of_process(std::string path) {
  for (std::size_t at = path.find("%p"); at != std::string::npos; at = path.find("%p", at))
    path.replace(at, 2, std::to_string(getpid()));
  return path;
}

}  // namespace

Journal::Journal(const Options& options) : summary_(options.summary), trace_(options.trace) {}

void Journal::note(CallRecord&& record) {
  const gate::StateLock lock;
  statistics_.add(std::move(record));
}

void Journal::note_on_cpu(const CallShape& shape, const char* reason, double seconds) {
  const gate::StateLock lock;
  statistics_.add_on_cpu(shape, reason, seconds);
}

void Journal::note(const Run& run) {
  const gate::StateLock lock;
  runs_.push_back(run);
  const std::size_t most = trace_.empty() ? 1 : kMostRuns;
  std::size_t tasks = 0;
  for (const Run& kept : runs_) tasks += kept.planned->tuned.plan.tasks.size();
  while (runs_.size() > 1 && (runs_.size() > most || tasks > kMostTasks)) {
    tasks -= runs_.front().planned->tuned.plan.tasks.size();
    runs_.pop_front();
  }
}

std::string Journal::statistics_json() const {
  const gate::StateLock lock;
  return statistics_.json();
}

Run Journal::last_run() const {
  const gate::StateLock lock;
  return runs_.empty() ? Run{} : runs_.back();
}

/// The journals of this process that something is to be written about.
class ExitReport {
 public:
  static void add(const std::shared_ptr<Journal>& journal) {
    if (journal->summary_.empty() && journal->trace_.empty()) return;
    ExitReport& report = instance();
    const std::lock_guard lock(report.mutex_);
    if (report.journals_.empty()) {
      report.process_ = getpid();
      std::atexit(write);
    }
    report.journals_.push_back(journal);
  }

 private:
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
      // There is nobody left to tell.
    }
  }

  void write_all() {
    std::map<std::string, Statistics> summaries;
    std::map<std::string, std::vector<Run>> timelines;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& journal : journals_) {
        const gate::StateLock state_lock;
        if (!journal->summary_.empty()) summaries[journal->summary_].merge(journal->statistics_);
        if (!journal->trace_.empty())
          timelines[journal->trace_].insert(timelines[journal->trace_].end(),
                                            journal->runs_.begin(), journal->runs_.end());
      }
    }
    for (const auto& [path, statistics] : summaries) {
      if (path == "1")
        write_quietly(STDERR_FILENO, statistics.text());
      else
        write_file(path_of_process(path),
                   path.ends_with(".json") ? statistics.json() + "\n" : statistics.text());
    }
    for (auto& [path, runs] : timelines) {
      std::ranges::sort(runs, {}, &Run::start_s);
      if (runs.size() > kMostRuns)
        runs.erase(runs.begin(), runs.end() - static_cast<std::ptrdiff_t>(kMostRuns));
      write_file(path_of_process(path), merged_timeline(runs));
    }
  }

  std::mutex mutex_;
  pid_t process_ = 0;
  std::vector<std::shared_ptr<Journal>> journals_;
};

void report_at_exit(const std::shared_ptr<Journal>& journal) { ExitReport::add(journal); }

}  // namespace fleet
