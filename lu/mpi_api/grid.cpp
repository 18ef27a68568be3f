// SPDX-License-Identifier: BSD-3-Clause
// grid.cpp: grids are made and destroyed, ranks agree on a status before anything is touched.
#include "mpi_api/grid.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "comm_mpi/over.hpp"
#include "mpi_api/options.hpp"
#include "routines/message_memory.hpp"

namespace fleet::lu {
namespace {

thread_local std::string message;

/// Of messages that travel.
constexpr std::size_t kMostText = 400;

/// What a rank says of a call before it goes on. A hash travels in halves, which doubles hold.
enum Said : std::size_t { kStatus, kUpper, kLower, kSaid };

/// FNV-1a by words.
std::uint64_t hash_of(std::initializer_list<std::uint64_t> words) {
  std::uint64_t hash = 14695981039346656037u;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return hash;
}

std::uint64_t hash_of(const char* text) {
  std::uint64_t hash = 0;
  for (; *text != 0; ++text) hash = hash_of({hash, word(*text)});
  return hash;
}

std::string text_from(Comm& ranks, int root, const std::string& mine) {
  MessageMemory memory;
  const std::span<double> words = memory.take(kMostText / sizeof(double));
  const auto bytes = reinterpret_cast<char*>(words.data());
  std::fill_n(bytes, kMostText, '\0');
  std::copy_n(mine.data(), std::min(mine.size(), kMostText - 1), bytes);
  ranks.broadcast(words, root)->wait();
  return {bytes, strnlen(bytes, kMostText)};
}

/// What came of something that this rank did, as far as the others can be told of it.
struct Verdict {
  fleet_status status = FLEET_OK;
  std::string why;
};

Verdict verdict_of(const std::function<void()>& attempt) {
  try {
    attempt();
    return {};
  } catch (const Refusal& refusal) {
    return {refusal.status, refusal.what()};
  } catch (const BrokenMessages&) {
    throw;
  } catch (const std::bad_alloc&) {
    return {FLEET_NO_MEMORY, "the host has no memory left"};
  } catch (const std::exception& failure) {
    return {FLEET_DEVICE_FAILED, failure.what()};
  }
}

/// Throws the refusal that all ranks know: the first one's.
void agree(Comm& ranks, const char* name, const Verdict& mine, std::uint64_t same) {
  const double said[kSaid] = {static_cast<double>(mine.status), static_cast<double>(same >> 32),
                              static_cast<double>(same & 0xffffffffu)};
  const std::vector<double> all = ranks.gathered(said);
  const auto of = [&](int rank, Said what) {
    return all[kSaid * static_cast<std::size_t>(rank) + what];
  };
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto theirs = static_cast<fleet_status>(static_cast<int>(of(rank, kStatus)));
    if (theirs == FLEET_OK) continue;
    throw Refusal(theirs, name + (": " + text_from(ranks, rank, mine.why)));
  }
  for (int rank = 1; rank < ranks.size(); ++rank)
    if (of(rank, kUpper) != of(0, kUpper) || of(rank, kLower) != of(0, kLower))
      throw Refusal(FLEET_BAD_ARGUMENT, std::string(name) + ": arguments of rank " +
                                            std::to_string(rank) +
                                            " of the grid differ from those of rank 0");
}

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

constexpr const char* kCreate = "fleet_mpi_grid_create";

/// What is not in MPI, or in no communicator, has nobody to agree with.
void check_ranks(MPI_Comm comm) {
  int is_started = 0, is_over = 0;
  MPI_Initialized(&is_started);
  MPI_Finalized(&is_over);
  if (is_started == 0 || is_over != 0) throw Refusal(FLEET_BAD_ARGUMENT, "MPI is not initialized");
  if (comm == MPI_COMM_NULL) throw Refusal(FLEET_BAD_ARGUMENT, "comm is MPI_COMM_NULL");
}

/// The same outcome on all ranks: of their arguments, and then of what each needs.
void make(fleet_mpi_grid& made, MPI_Comm comm, char order, int p, int q, const char* options,
          bool has_place) {
  made.given = over(comm);
  Comm& given = *made.given;
  const bool by_rows = order == 'r' || order == 'R';
  GridOptions wanted;
  const Verdict legal = verdict_of([&] {
    if (!has_place) throw Refusal(FLEET_BAD_ARGUMENT, "grid is null");
    if (!by_rows && order != 'c' && order != 'C')
      throw Refusal(FLEET_BAD_ARGUMENT, "order is not 'r' or 'c'");
    if (p < 1 || q < 1 || static_cast<std::int64_t>(p) * q != given.size())
      throw Refusal(FLEET_BAD_ARGUMENT,
                    "a grid of " + std::to_string(p) + " x " + std::to_string(q) +
                        " needs as many ranks, and comm has " + std::to_string(given.size()));
    wanted = grid_options(options);
  });
  given.set_patience(wanted.patience_s);
  agree(given, kCreate, legal,
        hash_of({word(by_rows), word(p), word(q), word(wanted.overlap), word(wanted.devices)}));
  const Verdict made_of = verdict_of([&] {
    const int rank = given.rank();
    made.ordered = given.split(0, by_rows ? rank : rank % p * q + rank / p);
    made.grid.emplace(*made.ordered, p, q);
    made.overlap = wanted.overlap;
    int threads = MPI_THREAD_SINGLE;
    MPI_Query_thread(&threads);
    const Mpi::OnNode place = on_node(comm);
    const int share = std::max(1, usable_cores() / place.on_its_cores);
    made.workshop.emplace(
        Means{.cores = wanted.cores > 0 ? wanted.cores : share,
              .progress_thread = wanted.overlap == Overlap::full &&
                                 threads >= MPI_THREAD_SERIALIZED && given.size() > 1,
              .patience_s = wanted.patience_s},
        wanted.overlap);
    made.device.emplace(*made.grid,
                        OwnDevice::Means{.use = wanted.devices,
                                         .place_on_node = place.rank,
                                         .patience_s = wanted.patience_s,
                                         .has_threads = threads >= MPI_THREAD_SERIALIZED});
  });
  agree(given, kCreate, made_of, 0);
}

/// Of a grid that other ranks may not come to destroy, or that has messages under way: its
/// communicators stay.
void abandon(fleet_mpi_grid* grid) { grid->workshop.reset(); }

}  // namespace

fleet_status ended(fleet_status status, const char* name, const char* why) noexcept {
  try {
    message = *name == 0 ? why : std::string(name) + ": " + why;
  } catch (const std::exception&) {
    message.clear();
  }
  return status;
}

std::uint64_t word(const int* descriptor) {
  if (descriptor == nullptr) return 0;
  const auto at = [&](int place) { return word(descriptor[place]); };
  return hash_of({at(0), at(2), at(3), at(4), at(5), at(6), at(7)});
}

fleet_status call_prepared(fleet_mpi_grid* grid, const char* name,
                           std::initializer_list<std::uint64_t> same,
                           const std::function<Steps()>& prepare) noexcept {
  if (grid == nullptr) return ended(FLEET_BAD_ARGUMENT, name, "grid is null");
  if (grid->has_failed)
    return ended(FLEET_DEVICE_FAILED, name, "a call before has failed, and the grid with it");
  try {
    Steps steps;
    const Verdict legal = verdict_of([&] { steps = prepare(); });
    agree(*grid->ordered, name, legal, hash_of({hash_of(name), hash_of(same)}));
    if (steps.make_room) {
      Verdict room = verdict_of(steps.make_room);
      if (room.status != FLEET_OK) room.status = FLEET_NO_MEMORY;
      agree(*grid->ordered, name, room, 0);
    }
    steps.run();
    return ended(FLEET_OK);
  } catch (const Refusal& refusal) {
    return ended(refusal.status, "", refusal.what());
  } catch (const std::exception& failure) {
    grid->has_failed = true;
    return ended(FLEET_DEVICE_FAILED, name, failure.what());
  }
}

}  // namespace fleet::lu

using namespace fleet::lu;

fleet_status fleet_mpi_grid_create(MPI_Comm comm, char order, int p, int q, const char* options,
                                   fleet_mpi_grid** grid) {
  if (grid != nullptr) *grid = nullptr;
  // Not within `try`: while an exception is under way, communicators stay.
  std::unique_ptr<fleet_mpi_grid> made;
  try {
    check_ranks(comm);
    made = std::make_unique<fleet_mpi_grid>();
    make(*made, comm, order, p, q, options, grid != nullptr);
    *grid = made.release();
    return ended(FLEET_OK);
  } catch (const Refusal& refusal) {
    // With a communicator of its own ranks are as far as they have come, each for itself.
    if (made != nullptr && made->ordered != nullptr) abandon(made.release());
    return ended(refusal.status, "", refusal.what());
  } catch (const std::exception& failure) {
    if (made != nullptr) abandon(made.release());
    return ended(FLEET_DEVICE_FAILED, kCreate, failure.what());
  }
}

fleet_status fleet_mpi_grid_destroy(fleet_mpi_grid* grid) {
  if (grid != nullptr && grid->has_failed)
    abandon(grid);
  else
    delete grid;
  return ended(FLEET_OK);
}

fleet_status fleet_mpi_grid_place(const fleet_mpi_grid* grid, int* row, int* col) {
  if (grid == nullptr || row == nullptr || col == nullptr)
    return ended(FLEET_BAD_ARGUMENT, "fleet_mpi_grid_place", "a pointer is null");
  *row = grid->grid->row;
  *col = grid->grid->col;
  return ended(FLEET_OK);
}

const char* fleet_mpi_message(void) { return message.c_str(); }

int64_t fleet_mpi_local_size(int64_t n, int64_t nb, int part, int first, int parts) {
  if (n < 0 || nb < 1 || parts < 1 || part < 0 || part >= parts || first < 0 || first >= parts)
    return 0;
  return Dimension{{n, nb, parts}, first}.local_size(part);
}
