// SPDX-License-Identifier: BSD-3-Clause
// main.cpp: fleetblas-linpack. Ranks are MPI's processes or, with --ranks, threads of this one.
#include <cstdio>
#include <exception>
#include <string>

#include "comm/inproc.hpp"
#include "comm_mpi/mpi.hpp"
#include "hpl/program.hpp"

namespace fleet::lu {
namespace {

void complain(const std::string& what) {
  std::fprintf(stderr, "fleetblas-linpack: %s\n", what.c_str());
}

int run_as_threads(const Settings& settings) {
  const Place place{.ranks_are = std::to_string(settings.ranks) + " ranks, threads of one process",
                    .ranks_on_its_cores = settings.ranks,
                    .ranks_on_node = settings.ranks,
                    .is_watched = terminal_watches()};
  Exit exit = kNothingRun;
  run_ranks(settings.ranks, {.patience_s = kForever}, [&](Comm& all) {
    try {
      const Exit mine = run_program(all, settings, place);
      if (all.rank() == 0) exit = mine;
    } catch (const NothingToRun& failure) {
      if (all.rank() == 0) complain(failure.what());
    }
  });
  return exit;
}

int run_as_processes(const Settings& settings, int* argc, char*** argv) {
  const Mpi mpi(argc, argv);
  try {
    const Mpi::OnNode node = mpi.on_node();
    const Place place{.ranks_are = std::to_string(mpi.size()) + " ranks of " + mpi.library(),
                      .ranks_on_its_cores = node.on_its_cores,
                      .ranks_on_node = node.size,
                      .rank_on_node = node.rank,
                      .is_watched = terminal_watches()};
    return run_program(*mpi.world(), settings, place);
  } catch (const NothingToRun& failure) {
    if (mpi.rank() == 0) complain(failure.what());
    return kNothingRun;
  } catch (const std::exception& failure) {
    complain("rank " + std::to_string(mpi.rank()) + ": " + failure.what());
    mpi.abandon(kNothingRun);
  }
}

}  // namespace
}  // namespace fleet::lu

int main(int argc, char** argv) {
  using namespace fleet::lu;
  try {
    const Settings settings =
        parse_settings({argv + 1, static_cast<std::size_t>(argc > 0 ? argc - 1 : 0)});
    if (settings.asks_for_help) {
      std::fputs(usage(), stdout);
      return kAllPassed;
    }
    return settings.ranks > 0 ? run_as_threads(settings) : run_as_processes(settings, &argc, &argv);
  } catch (const NothingToRun&) {  // another rank says it
    return kNothingRun;
  } catch (const std::exception& failure) {
    complain(failure.what());
    return kNothingRun;
  }
}
