// SPDX-License-Identifier: BSD-3-Clause
// energy.cpp: reads intel-rapl:N/energy_uj, which AMD's processors have too. (The library's own
// reader is not public, and knows no ranks.)
#include "hpl/energy.hpp"

#include <filesystem>
#include <fstream>
#include <optional>

namespace fleet::lu {
namespace {

std::optional<double> number_in(const std::string& file) {
  double value = 0;
  std::ifstream stream(file);
  if (stream >> value) return value;
  return {};
}

}  // namespace

NodeEnergy::NodeEnergy(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    // Zones within a package ("intel-rapl:0:0") are parts of it.
    if (!name.starts_with("intel-rapl:") || name.find(':') != name.rfind(':')) continue;
    const std::string file = entry->path().string() + "/energy_uj";
    const auto now = number_in(file);
    const auto most = number_in(entry->path().string() + "/max_energy_range_uj");
    if (now && most && *most > 0) packages_.push_back({file, *most, *now, 0});
  }
}

double NodeEnergy::joules() {
  double total_uj = 0;
  for (Package& package : packages_) {
    if (const auto now = number_in(package.file)) {
      const double more = *now - package.last_uj;
      package.total_uj += more >= 0 ? more : more + package.wraps_at_uj;
      package.last_uj = *now;
    }
    total_uj += package.total_uj;
  }
  return total_uj / 1e6;
}

}  // namespace fleet::lu
