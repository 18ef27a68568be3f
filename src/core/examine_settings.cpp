// SPDX-License-Identifier: BSD-3-Clause
// examine_settings.cpp: judges the settings that have been read by what they are for, and the
// environment by its names. It must not change either.
#include "core/examine_settings.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.hpp"
#include "base/options_variables.hpp"
#include "core/output.hpp"
#include "pool/cap.hpp"
#include "probe/examine.hpp"
#include "program/tuning.hpp"
#include "tune/preset.hpp"

namespace fleet {
namespace {

using Verdict = Finding::Verdict;

/// What the table of settings takes as it is, since it does not know rules.
void judge_words(const Options& options, std::vector<Finding>& findings) {
  const auto judge = [&](auto&& parse) {
    try {
      parse();
    } catch (const Error& error) {
      findings.push_back(
          {"settings", Verdict::broken, error.what(), "it is left out until it is put right"});
    }
  };
  judge([&] { parse_rules(options.rules); });
  judge([&] { parse_preset(options.preset); });
}

void judge_variables(std::vector<Finding>& findings) {
  for (const Variable& variable : own_variables()) {
    pool::Cap cap;
    if (variable.name == "FLEETBLAS_POOL" && !pool::parse_cap(variable.value.c_str(), cap))
      findings.push_back({"pool", Verdict::broken,
                          variable.name + "=" + variable.value + ": there is no pool",
                          "0, 1, a share of memory such as 0.25 or a size such as 16G"});
    if (is_known_variable(variable.name)) continue;
    const std::string nearest = nearest_variable(variable.name);
    findings.push_back(
        {"settings", Verdict::slow, variable.name + ": no such setting",
         nearest.empty() ? "no part of FleetBLAS reads it" : "is " + nearest + " meant?"});
  }
}

/// A log grows where it is; reports replace a regular file by a new one beside it.
enum class Written { at_its_end, anew };

bool can_be_written(const std::string& path, Written how) {
  struct stat status {};
  const bool is_there = stat(path.c_str(), &status) == 0;
  if (is_there && S_ISDIR(status.st_mode)) return false;
  if (is_there && (how == Written::at_its_end || !S_ISREG(status.st_mode)))
    return access(path.c_str(), W_OK) == 0;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return can_write_into(folder.empty() ? "." : folder);
}

void judge_files(const Options& options, std::vector<Finding>& findings) {
  const auto judge = [&](const char* name, const std::string& path, Written how) {
    if (path.empty() || can_be_written(path, how)) return;
    const bool is_log = how == Written::at_its_end;
    findings.push_back({name, is_log ? Verdict::slow : Verdict::broken,
                        path + " cannot be written" + (is_log ? ": the log goes to stderr" : ""),
                        "name a file in a folder that is there and yours"});
  };
  judge("log_file", options.log_file, Written::at_its_end);
  judge("summary", options.summary == "1" ? "" : path_of_process(options.summary), Written::anew);
  judge("trace", path_of_process(options.trace), Written::anew);
}

}  // namespace

std::vector<Finding> examine_settings(const Options& options) {
  std::vector<Finding> findings;
  judge_words(options, findings);
  judge_variables(findings);
  judge_files(options, findings);
  return findings;
}

}  // namespace fleet
