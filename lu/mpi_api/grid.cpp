// SPDX-License-Identifier: BSD-3-Clause
// grid.cpp: grids are made and destroyed, ranks agree on a status before anything is touched.
#include "mpi_api/grid.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "comm_mpi/over.hpp"
#include "mpi_api/options.hpp"

namespace fleet::lu {
namespace {

thread_local std::string message;

/// Of messages that travel.
constexpr std::size_t kMostText = 400;

/// What a rank says of a call before it begins.
enum Said : std::size_t { kStatus, kArguments, kSaid };

/// So many bits of a hash (FNV-1a) as a double holds.
double hash_of(std::initializer_list<double> numbers) {
  std::uint64_t hash = 14695981039346656037u;
  for (const double number : numbers) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return static_cast<double>(hash >> 12);
}

std::string text_from(Comm& ranks, int root, const std::string& mine) {
  std::vector<double> words(kMostText / sizeof(double), 0.0);
  const auto bytes = reinterpret_cast<char*>(words.data());
  std::copy_n(mine.data(), std::min(mine.size(), kMostText - 1), bytes);
  ranks.broadcast(words, root)->wait();
  return {bytes, strnlen(bytes, kMostText)};
}

/// Throws the refusal that all ranks know: the first one's.
void agree(Comm& ranks, const char* name, fleet_status status, const std::string& why,
           double arguments) {
  const auto size = static_cast<std::size_t>(ranks.size());
  const double said[kSaid] = {static_cast<double>(status), arguments};
  std::vector<double> all(kSaid * size);
  ranks.gather(said, std::vector<std::int64_t>(size, kSaid), all)->wait();
  for (std::size_t rank = 0; rank < size; ++rank) {
    const auto theirs = static_cast<fleet_status>(static_cast<int>(all[kSaid * rank + kStatus]));
    if (theirs == FLEET_OK) continue;
    const std::string text = text_from(ranks, static_cast<int>(rank), why);
    throw Refusal(theirs, name + (": " + text));
  }
  for (std::size_t rank = 1; rank < size; ++rank)
    if (all[kSaid * rank + kArguments] != all[kArguments])
      throw Refusal(FLEET_BAD_ARGUMENT, std::string(name) + ": arguments of rank " +
                                            std::to_string(rank) +
                                            " of the grid differ from those of rank 0");
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::unique_ptr<fleet_mpi_grid> made(MPI_Comm comm, char order, int p, int q, const char* options) {
  int is_started = 0, is_over = 0, threads = MPI_THREAD_SINGLE, ranks = 0;
  MPI_Initialized(&is_started);
  MPI_Finalized(&is_over);
  if (is_started == 0 || is_over != 0) throw Refusal(FLEET_BAD_ARGUMENT, "MPI is not initialized");
  if (comm == MPI_COMM_NULL) throw Refusal(FLEET_BAD_ARGUMENT, "comm is MPI_COMM_NULL");
  if (order != 'r' && order != 'c') throw Refusal(FLEET_BAD_ARGUMENT, "order is not 'r' or 'c'");
  MPI_Comm_size(comm, &ranks);
  if (p < 1 || q < 1 || static_cast<std::int64_t>(p) * q != ranks)
    throw Refusal(FLEET_BAD_ARGUMENT, "a grid of " + std::to_string(p) + " x " + std::to_string(q) +
                                          " needs as many ranks, and comm has " +
                                          std::to_string(ranks));
  MPI_Query_thread(&threads);
  auto made = std::make_unique<fleet_mpi_grid>();
  made->given = over(comm);
  const GridOptions wanted = [&] {
    GridOptions found;
    std::string why;
    fleet_status status = FLEET_OK;
    try {
      found = grid_options(options);
    } catch (const Refusal& refusal) {
      status = refusal.status;
      why = refusal.what();
    }
    agree(*made->given, "fleet_mpi_grid_create", status, why, static_cast<int>(found.overlap));
    return found;
  }();
  const Mpi::OnNode node = on_node(comm);
  made->given->set_patience(wanted.patience_s);
  const int rank = made->given->rank();
  made->ordered = made->given->split(0, order == 'r' ? rank : rank % p * q + rank / p);
  made->grid.emplace(*made->ordered, p, q);
  made->overlap = wanted.overlap;
  const int share = std::max(1, usable_cores() / node.on_its_cores);
  made->workshop.emplace(Means{.cores = wanted.cores > 0 ? wanted.cores : share,
                               .progress_thread = wanted.overlap == Overlap::full &&
                                                  threads >= MPI_THREAD_SERIALIZED && ranks > 1,
                               .patience_s = wanted.patience_s},
                         wanted.overlap);
  return made;
}

}  // namespace

fleet_status ended(fleet_status status, const std::string& why) {
  message = why;
  return status;
}

fleet_status call(fleet_mpi_grid* grid, const char* name, std::initializer_list<double> same,
                  const std::function<std::function<void()>()>& prepare) {
  if (grid == nullptr) return ended(FLEET_BAD_ARGUMENT, std::string(name) + ": grid is null");
  if (grid->has_failed)
    return ended(FLEET_DEVICE_FAILED,
                 std::string(name) + ": a call before has failed, and the grid with it");
  try {
    fleet_status status = FLEET_OK;
    std::string why;
    std::function<void()> work;
    try {
      work = prepare();
    } catch (const Refusal& refusal) {
      status = refusal.status;
      why = refusal.what();
    }
    agree(*grid->ordered, name, status, why, hash_of(same));
    work();
    return ended(FLEET_OK, "");
  } catch (const Refusal& refusal) {
    return ended(refusal.status, refusal.what());
  } catch (const std::exception& failure) {
    grid->has_failed = true;
    return ended(FLEET_DEVICE_FAILED, std::string(name) + ": " + failure.what());
  }
}

}  // namespace fleet::lu

using namespace fleet::lu;

fleet_status fleet_mpi_grid_create(MPI_Comm comm, char order, int p, int q, const char* options,
                                   fleet_mpi_grid** grid) {
  if (grid == nullptr) return ended(FLEET_BAD_ARGUMENT, "fleet_mpi_grid_create: grid is null");
  *grid = nullptr;
  try {
    *grid = made(comm, order, p, q, options).release();
    return ended(FLEET_OK, "");
  } catch (const Refusal& refusal) {
    return ended(refusal.status, refusal.what());
  } catch (const std::exception& failure) {
    return ended(FLEET_DEVICE_FAILED, std::string("fleet_mpi_grid_create: ") + failure.what());
  }
}

fleet_status fleet_mpi_grid_destroy(fleet_mpi_grid* grid) {
  if (grid == nullptr) return ended(FLEET_OK, "");
  if (grid->has_failed) {
    // Its communicators stay: other ranks may not come to free them, and messages may be under way.
    grid->workshop.reset();
    return ended(FLEET_OK, "");
  }
  delete grid;
  return ended(FLEET_OK, "");
}

fleet_status fleet_mpi_grid_place(const fleet_mpi_grid* grid, int* row, int* col) {
  if (grid == nullptr || row == nullptr || col == nullptr)
    return ended(FLEET_BAD_ARGUMENT, "fleet_mpi_grid_place: a pointer is null");
  *row = grid->grid->row;
  *col = grid->grid->col;
  return ended(FLEET_OK, "");
}

const char* fleet_mpi_message(void) { return message.c_str(); }

int64_t fleet_mpi_local_size(int64_t n, int64_t nb, int part, int first, int parts) {
  if (n < 0 || nb < 1 || parts < 1 || part < 0 || part >= parts || first < 0 || first >= parts)
    return 0;
  return Dimension{{n, nb, parts}, first}.local_size(part);
}
