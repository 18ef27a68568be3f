// SPDX-License-Identifier: BSD-3-Clause
// local_rank.cpp: the environment variables that launchers set. It reads no environment itself.
#include "base/local_rank.hpp"

#include <array>
#include <optional>

#include "base/text.hpp"

namespace fleet {
namespace {

/// The number of tasks on node `node` in Slurm's notation, such as "4(x2),3".
std::optional<int> tasks_on_node(std::string_view list, int node) {
  for (const std::string_view part : split(list, ',')) {
    const std::size_t times = part.find("(x");
    const auto tasks = number_of<int>(part.substr(0, times));
    const auto nodes = times == std::string_view::npos
                           ? 1
                           : number_of<int>(part.substr(times + 2, part.size() - times - 3));
    if (!tasks || !nodes) return std::nullopt;
    node -= *nodes;
    if (node < 0) return tasks;
  }
  return std::nullopt;
}

}  // namespace

LocalRank local_rank(const Environment& environment) {
  // Open MPI; MPICH and Intel MPI; MVAPICH; HPE Cray; PyTorch.
  constexpr std::array<std::pair<const char*, const char*>, 5> kLaunchers = {
      {{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
       {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
       {"MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"},
       {"PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
       {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}}};
  const auto number = [&](const char* name) { return number_of<int>(environment(name)); };
  const auto valid = [](std::optional<int> rank, std::optional<int> ranks) {
    return rank && ranks && *rank >= 0 && *rank < *ranks;
  };
  for (const auto& [rank, ranks] : kLaunchers)
    if (valid(number(rank), number(ranks))) return {*number(rank), *number(ranks)};
  // Slurm comes last: its variables remain set for other launchers inside its allocation.
  const auto rank = number("SLURM_LOCALID");
  const auto ranks =
      tasks_on_node(environment("SLURM_STEP_TASKS_PER_NODE"), number("SLURM_NODEID").value_or(0));
  return valid(rank, ranks) ? LocalRank{*rank, *ranks} : LocalRank{};
}

}  // namespace fleet
