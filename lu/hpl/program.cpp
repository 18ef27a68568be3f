// SPDX-License-Identifier: BSD-3-Clause
// program.cpp: every combination of what the input lists.
#include "hpl/program.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "hpl/timeline.hpp"
#include "on_device/device.hpp"

namespace fleet::lu {
namespace {

/// Where results go. Only rank 0 has one.
class Output {
 public:
  explicit Output(const Input& input) {
    if (input.device == 7) file_ = stderr;
    if (input.device == 6 || input.device == 7) return;
    owned_.reset(std::fopen(input.file.c_str(), "w"));
    if (owned_ == nullptr) throw Failure(input.file + ": " + std::strerror(errno));
    file_ = owned_.get();
  }
  void print(const std::string& text) {
    if (std::fputs(text.c_str(), file_) < 0 || std::fflush(file_) != 0)
      throw Failure(std::string("results cannot be written: ") + std::strerror(errno));
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> owned_;
  std::FILE* file_ = stdout;
};

/// What rank 0 has read, on all ranks. Where it has failed, all throw: rank 0 says why.
Input shared_input(Comm& all, const std::string& file) {
  std::string text, error;
  if (all.rank() == 0) try {
      std::ifstream stream(file);
      if (!stream) throw Failure(file + ": " + std::strerror(errno));
      text = (std::ostringstream() << stream.rdbuf()).str();
      parse_input(text, file);
    } catch (const Failure& failure) {
      error = failure.what();
    }
  double sizes[2] = {static_cast<double>(text.size()), error.empty() ? 0.0 : 1.0};
  all.broadcast(sizes, 0)->wait();
  if (sizes[1] != 0) throw NothingToRun(error);
  std::vector<double> words(static_cast<std::size_t>(sizes[0]) / sizeof(double) + 1);
  if (all.rank() == 0) std::memcpy(words.data(), text.data(), text.size());
  all.broadcast(words, 0)->wait();
  return parse_input(
      {reinterpret_cast<const char*>(words.data()), static_cast<std::size_t>(sizes[0])});
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Of a file with a number in it; infinity for none.
double number_in(const char* file) {
  double number = 0;
  return std::ifstream(file) >> number ? number : INFINITY;
}

/// Of the node's memory or of what the control group of the process may take.
double available_bytes() {
  const double of_group = number_in("/sys/fs/cgroup/memory.max");
  const double taken = std::isinf(of_group) ? 0 : number_in("/sys/fs/cgroup/memory.current");
  // Files that were read count as taken until somebody needs the memory.
  double reclaimable = 0;
  std::ifstream kinds("/sys/fs/cgroup/memory.stat");
  for (std::string kind; kinds >> kind;)
    if (double bytes = 0; kinds >> bytes && kind == "inactive_file") reclaimable = bytes;
  std::ifstream lines("/proc/meminfo");
  for (std::string line; std::getline(lines, line);) {
    double kilobytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %lf kB", &kilobytes) == 1)
      return std::max(1.0, std::min(kilobytes * 1024, of_group - taken + reclaimable));
  }
  return 0;
}

Means means_of(const Settings& settings, const Place& place) {
  const int share = std::max(1, usable_cores() / place.ranks_on_its_cores);
  return {.cores = settings.cores > 0 ? settings.cores : share,
          .patience_s = settings.patience_s,
          .memory_bytes = available_bytes() / place.ranks_on_node,
          .keeps_spans = !settings.trace.empty(),
          .devices = settings.devices,
          .matrix_devices = {},
          .device_comm = settings.device_comm};
}

/// Devices of this rank: all, if it is the only rank, else one, those of the node being dealt to
/// its ranks in turn. None on all ranks if one has none, or if no trial can use them. Throws
/// Failure where they were asked for.
std::vector<int> devices_of(Comm& all, const Settings& settings, int rank_on_node) {
  const bool is_asked_for = settings.matrix == MatrixPlace::devices;
  const bool may_use_them = settings.schedule.pivoting == Pivoting::partial;
  if (settings.matrix == MatrixPlace::host || (!is_asked_for && !may_use_them)) return {};
  std::vector<int> devices;
  std::string error = "a rank has no device that the library can use";
  try {
    devices = Device::numbers(!all.shares_memory());
  } catch (const Failure& failure) {
    error = failure.what();
  }
  double none[1] = {devices.empty() ? 1.0 : 0.0};
  all.reduce(none, Reduction::largest);
  if (none[0] != 0 && is_asked_for) throw NothingToRun("--matrix=devices: " + error);
  if (none[0] != 0) return {};
  if (all.size() == 1) return devices;
  // Each process has its part already, unless the environment names devices.
  return {devices[static_cast<std::size_t>(rank_on_node) % devices.size()]};
}

/// Where a rank cannot have the devices that are asked for, all end together, with one reason.
void require_devices(Comm& all, const Settings& settings) {
  if (!settings.devices) return;
  std::string error;
  try {
    const Devices trial(*settings.devices, 1);
  } catch (const Failure& failure) {
    error = failure.what();
  }
  double fails[1] = {error.empty() ? 0.0 : 1.0};
  all.reduce(fails, Reduction::largest);
  if (fails[0] == 0) return;
  throw NothingToRun(error.empty() ? "a rank cannot have the devices that are asked for" : error);
}

/// By the ranks of the grid, which agree; the same on all others too.
bool is_refused(Comm& all, const Outcome& outcome) {
  double refused[1] = {outcome.refusal.empty() ? 0.0 : 1.0};
  all.reduce(refused, Reduction::largest);
  return refused[0] != 0;
}

/// A line that is written again and again, and goes at the end.
class ProgressBar {
 public:
  ProgressBar(bool is_on, std::int64_t n) : is_on_(is_on), n_(n) {}
  ~ProgressBar() {
    if (is_on_) std::fprintf(stderr, "\r%*s\r", kWidth, "");
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(double share) {
    constexpr double kBetween = 0.2;
    if (!is_on_) return;
    const double now = std::chrono::duration<double>(Recorder::Clock::now() - begin_).count();
    if (now < last_ + kBetween) return;
    last_ = now;
    constexpr int kCells = 30;
    const int cells = static_cast<int>(share * kCells);
    std::fprintf(stderr, "\rN = %lld [%.*s%*s] %3.0f %% %8.1f Gflops, %.0f s left ",
                 static_cast<long long>(n_), cells, "##############################",
                 kCells - cells, "", share * 100, gflops(n_, now) * share,
                 now * (1 - share) / std::max(share, 1e-9));
    std::fflush(stderr);
  }

 private:
  static constexpr int kWidth = 90;
  const bool is_on_;
  const std::int64_t n_;
  const Recorder::Clock::time_point begin_ = Recorder::Clock::now();
  double last_ = 0;
};

}  // namespace

Exit run_program(Comm& all, const Settings& settings, const Place& place) {
  const Input input = shared_input(all, settings.input);
  require_devices(all, settings);
  Means means = means_of(settings, place);
  const std::vector<int> devices =
      devices_of(all, settings, place.rank_on_node >= 0 ? place.rank_on_node : all.rank());
  const bool speaks = all.rank() == 0;
  std::optional<Output> output;
  if (speaks) {
    output.emplace(input);
    output->print(heading(input, settings, place.ranks_are, CpuContext(1).blas()));
  }
  Counts counts;
  Timeline timeline;
  for (const auto& grid : input.grids)
    for (const std::int64_t n : input.orders)
      for (const std::int64_t nb : input.blocks)
        for (const int depth : input.depths) {
          Trial trial{n, nb, grid.rows, grid.cols, input.column_major, settings.schedule};
          trial.counters.ranks_on_node = place.ranks_on_node;
          if (depth == 0) trial.schedule.overlap = Overlap::none;
          means.progress_thread = settings.has_progress_thread(trial.schedule.overlap);
          means.matrix_devices = devices;
          Outcome outcome;
          if (n < 1)
            outcome.refusal = "N = " + std::to_string(n) + " is no size of a system";
          else if (std::int64_t{grid.rows} * grid.cols > all.size())
            outcome.refusal = "a grid of " + std::to_string(grid.rows) + " x " +
                              std::to_string(grid.cols) + " needs more than " +
                              std::to_string(all.size()) + " ranks";
          else {
            ProgressBar bar(speaks && place.is_watched, n);
            const auto progress = [&](double share) { bar.show(share); };
            outcome = run_trial(all, trial, means, progress);
            if (settings.matrix == MatrixPlace::best && settings.device_comm != DeviceComm::nccl &&
                !means.matrix_devices.empty() && is_refused(all, outcome)) {
              means.matrix_devices.clear();
              outcome = run_trial(all, trial, means, progress);
            }
          }
          if (!settings.trace.empty()) timeline.add(all, outcome.spans);
          if (!speaks) continue;
          int& count = !outcome.refusal.empty() ? counts.skipped
                       : passes(input, outcome) ? counts.passed
                                                : counts.failed;
          ++count;
          output->print(result_lines(input, trial, means, depth, outcome));
        }
  if (speaks) output->print(closing(counts));
  if (speaks && !settings.trace.empty()) timeline.write(settings.trace);
  double bad[1] = {counts.failed + counts.skipped > 0 ? 1.0 : 0.0};
  all.broadcast(bad, 0)->wait();
  return bad[0] == 0 ? kAllPassed : kNotAllPassed;
}

bool terminal_watches() {
  if (isatty(STDERR_FILENO) != 0) return true;
  char target[64] = "";
  const std::string link = "/proc/" + std::to_string(getppid()) + "/fd/2";
  const ssize_t length = readlink(link.c_str(), target, sizeof target - 1);
  return length > 0 && std::string_view(target).starts_with("/dev/pts/");
}

}  // namespace fleet::lu
