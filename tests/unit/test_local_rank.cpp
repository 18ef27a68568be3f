// SPDX-License-Identifier: BSD-3-Clause
// test_local_rank.cpp: the variables of launchers. It reads no environment.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "base/local_rank.hpp"

namespace fleet {
namespace {

/// {rank, ranks} for an environment such as "A=1 B=2".
std::pair<int, int> found_in(const std::string& settings) {
  std::map<std::string, std::string> values;
  std::istringstream words(settings);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    values[word.substr(0, equals)] = word.substr(equals + 1);
  }
  const LocalRank found = local_rank([&](const std::string& name) { return values[name]; });
  return {found.rank, found.ranks};
}

using RankOf = std::pair<int, int>;

TEST(LocalRank, IsKnownFromEveryLauncher) {
  EXPECT_EQ(found_in("OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4"), RankOf(1, 4));
  EXPECT_EQ(found_in("MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2"), RankOf(0, 2));
  EXPECT_EQ(found_in("MV2_COMM_WORLD_LOCAL_RANK=2 MV2_COMM_WORLD_LOCAL_SIZE=3"), RankOf(2, 3));
  EXPECT_EQ(found_in("PALS_LOCAL_RANKID=3 PALS_LOCAL_SIZE=8"), RankOf(3, 8));
  EXPECT_EQ(found_in("LOCAL_RANK=1 LOCAL_WORLD_SIZE=2"), RankOf(1, 2));
  EXPECT_EQ(found_in("SLURM_LOCALID=3 SLURM_STEP_TASKS_PER_NODE=4 SLURM_NODEID=0"), RankOf(3, 4));
}

TEST(LocalRank, IsReadFromSlurmsListOfNodes) {
  const std::string list = "SLURM_LOCALID=2 SLURM_STEP_TASKS_PER_NODE=4(x2),3 SLURM_NODEID=";
  EXPECT_EQ(found_in(list + "1"), RankOf(2, 4));
  EXPECT_EQ(found_in(list + "2"), RankOf(2, 3));
  EXPECT_EQ(found_in(list + "3"), RankOf(0, 1)) << "a node that is not in the list";
}

TEST(LocalRank, IsTheInnerLaunchersNotTheAllocationsAround) {
  EXPECT_EQ(found_in("SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=1 "
                     "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2"),
            RankOf(1, 2));
}

TEST(LocalRank, IsTheOnlyOneWhereTheEnvironmentMakesNoSense) {
  for (const char* settings :
       {"", "OMPI_COMM_WORLD_LOCAL_RANK=1", "LOCAL_RANK=2 LOCAL_WORLD_SIZE=2",
        "LOCAL_RANK=-1 LOCAL_WORLD_SIZE=2", "LOCAL_RANK=x LOCAL_WORLD_SIZE=2",
        "SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=4(x", "SLURM_LOCALID=0"})
    EXPECT_EQ(found_in(settings), RankOf(0, 1)) << settings;
}

}  // namespace
}  // namespace fleet
