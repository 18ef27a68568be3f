// SPDX-License-Identifier: BSD-3-Clause
// examine_host.cpp: examines the host, and reports what slows it down. It knows no devices or
// plans.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "probe/examine.hpp"

namespace fleet {
namespace {

namespace fs = std::filesystem;
using Verdict = Finding::Verdict;

constexpr double kDayS = 86400;
/// Drivers and clocks change: a measurement older than this is reported.
constexpr double kOldS = 90 * kDayS;
/// Less available memory than this share of the total is reported.
constexpr double kLittleFree = 0.1;
constexpr std::int64_t kMuchLocked = std::int64_t{1} << 30;

std::string byte_word(double bytes) {
  const bool large = bytes >= 1e9;
  const auto tenths = static_cast<std::int64_t>(bytes / (large ? 1e8 : 1e5));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + (large ? " GB" : " MB");
}

Finding look_at_blas(const CpuBlas& blas, int cores) {
  if (blas.name() == CpuBlas::kBuiltIn)
    return {"CPU BLAS", Verdict::slow, "none found: products on the CPU take a plain loop",
            "pip install scipy-openblas64, or name a library with FLEETBLAS_CPU_BLAS"};
  return {"CPU BLAS", Verdict::ok,
          blas.name() + ", up to " + std::to_string(cores) + (cores == 1 ? " thread" : " threads"),
          ""};
}

Finding look_at_cores(int cores) {
  const long all = sysconf(_SC_NPROCESSORS_ONLN);
  const std::string text = std::to_string(cores) + " of " + std::to_string(all) + " usable";
  if (cores >= all) return {"cores", Verdict::ok, text, ""};
  return {"cores", Verdict::slow, text,
          "the affinity mask of this process leaves the others out (taskset, numactl, the batch "
          "system)"};
}

Finding look_at_memory() {
  const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  const double all = page * static_cast<double>(sysconf(_SC_PHYS_PAGES));
  const double free = page * static_cast<double>(sysconf(_SC_AVPHYS_PAGES));
  const std::string text = byte_word(all) + ", " + byte_word(free) + " of it unused now";
  return {"host memory", Verdict::ok, text,
          free < kLittleFree * all ? "file caches count as used here; a real shortage shows in "
                                     "failed allocations"
                                   : ""};
}

/// Some drivers count pinned memory as locked memory, which this limit bounds.
Finding look_at_locked() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
    return {"locked memory", Verdict::ok, "the system has no limit for it", ""};
  if (limit.rlim_cur == RLIM_INFINITY) return {"locked memory", Verdict::ok, "unlimited", ""};
  const std::string text = "limited to " + byte_word(static_cast<double>(limit.rlim_cur));
  const bool much = limit.rlim_cur >= static_cast<rlim_t>(kMuchLocked);
  return {"locked memory", Verdict::ok, text,
          much ? "" : "if pinning fails: ulimit -l unlimited (a container: --ulimit memlock=-1)"};
}

/// Describes the youngest measured machine in the folder.
std::string kept_machines(const fs::path& folder, Verdict& verdict) {
  std::error_code error;
  int files = 0;
  double youngest_s = 0;
  for (fs::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (!name.starts_with("machine-") || !name.ends_with(".json")) continue;
    const auto written = file->last_write_time(error);
    if (error) break;
    const double age_s =
        std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
    youngest_s = files++ == 0 ? age_s : std::min(youngest_s, age_s);
  }
  if (files == 0) return "no measured machine yet";
  if (youngest_s > kOldS) verdict = Verdict::slow;
  return std::to_string(files) + (files == 1 ? " measured machine" : " measured machines") +
         ", the newest " + std::to_string(static_cast<std::int64_t>(youngest_s / kDayS)) +
         " days old";
}

/// "" is a name: the folder in which a relative path begins.
fs::path or_here(const fs::path& folder) { return folder.empty() ? fs::path(".") : folder; }

Finding look_at_cache(const std::string& folder) {
  if (folder.empty())
    return {"cache folder", Verdict::slow, "none: every process measures the machine again",
            "set FLEETBLAS_CACHE_DIR to a folder of yours"};
  std::error_code error;
  // The library creates only this folder and its parent.
  fs::path there = folder;
  for (int level = 0; level < 2 && !fs::exists(there, error); ++level)
    there = or_here(there.parent_path());
  if (!can_write_into(there.string()))
    return {"cache folder", Verdict::slow, folder + " cannot be written",
            "set FLEETBLAS_CACHE_DIR to a folder of yours"};
  Verdict verdict = Verdict::ok;
  const std::string kept = kept_machines(folder, verdict);
  return {"cache folder", verdict, folder + ": " + kept,
          verdict == Verdict::slow ? "remove the old files, and they are measured anew" : ""};
}

}  // namespace

bool can_write_into(const std::string& folder) {
  // Rights alone do not say: root has them all, and /proc takes nothing.
  const fs::path tried = fs::path(folder) / (".fleetblas-" + std::to_string(getpid()) + ".tried");
  rmdir(tried.c_str());  // left by a killed process with the same id
  return mkdir(tried.c_str(), 0700) == 0 && rmdir(tried.c_str()) == 0;
}

std::vector<Finding> examine_host(const Options& options, const CpuBlas& blas) {
  const int cores = core_count();
  return {look_at_blas(blas, cores), look_at_cores(cores), look_at_memory(), look_at_locked(),
          look_at_cache(options.cache_dir)};
}

}  // namespace fleet
