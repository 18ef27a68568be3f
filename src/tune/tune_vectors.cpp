// SPDX-License-Identifier: BSD-3-Clause
// tune_vectors.cpp: the tunings of levels 1 and 2. They are bound by bytes, so what matters is who
// reads them: all workers, or only one that has them at home. Pure.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "exec/simulate.hpp"
#include "program/decompose.hpp"
#include "tune/tune.hpp"

namespace fleet {
namespace {

constexpr double kMemoryShare = 0.8;       // of the available memory, as for level 3
constexpr std::int64_t kFixedTile = 2048;  // rule `tile` off, as for level 3
// Tiles into which each worker's part is cut along each dimension: a few hide the first one's way
// and the last one's, more only cost latency.
constexpr std::array<std::int64_t, 4> kPieces{1, 2, 4, 8};
// Larger tiles gain nothing on any link. A worker has slots for a few of them.
constexpr std::int64_t kSlots = 12;
constexpr std::int64_t kMostTileBytes = std::int64_t{64} << 20;
// Planning and simulating costs about 1 us a task, and these calls take little longer.
constexpr std::int64_t kMostTasks = 10'000;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

class VectorTuner {
 public:
  VectorTuner(const Problem& problem, const Machine& machine, const TuneRequest& request)
      : problem_(problem), machine_(machine), request_(request) {
    base_.rules = request.rules;
    base_.own_copies = request.own_copies;
    base_.memory_cap = request.memory_cap;
    if (base_.memory_cap.empty())
      for (const Device& d : machine.devices)
        base_.memory_cap.push_back(
            static_cast<std::int64_t>(kMemoryShare * static_cast<double>(d.memory_bytes)));
  }

  Tuned run() {
    std::vector<DeviceId> all = request_.workers;
    if (all.empty())
      for (DeviceId d = kFirstDevice; d < std::ssize(machine_.devices); ++d)
        if (machine_.can_compute(d, problem_.type)) all.push_back(d);
    if (all.empty())
      throw Error(Status::unsupported,
                  "no device of machine '" + machine_.name + "' computes this type");
    try_workers(all);
    const bool is_chosen = request_.grid.rows * request_.grid.cols == std::ssize(all);
    for (const DeviceId d : all) {
      const auto is_home = [d](const Operand& o) { return o.home == d; };
      if (!is_chosen && all.size() > 1 && std::ranges::any_of(problem_.operands, is_home))
        try_workers({d});
    }
    if (best_.planned == 0) throw refusal_;
    best_.planned = planned_;
    return std::move(best_);
  }

 private:
  void try_workers(const std::vector<DeviceId>& workers);
  std::vector<Grid> grids(int workers) const;
  std::vector<std::int64_t> edges(std::int64_t size, int parts) const;
  bool is_sensible(const Tuning& tuning) const;
  void attempt(const Tuning& tuning);
  /// Of a tile product.
  std::int64_t most_bytes() const {
    std::int64_t most = kMostTileBytes;
    for (std::size_t d = kFirstDevice; d < base_.memory_cap.size(); ++d)
      if (base_.memory_cap[d] > 0) most = std::min(most, base_.memory_cap[d] / kSlots);
    return most;
  }

  const Problem& problem_;
  const Machine& machine_;
  const TuneRequest& request_;
  Tuning base_;
  Tuned best_;
  int planned_ = 0;
  std::int64_t spent_ = 0, budget_ = 0;  ///< in tasks
  Error refusal_{Status::no_memory, "the memory caps hold no tiles"};
};

// Parts of k by parts of C. axpy has nothing to sum, dot nothing else.
std::vector<Grid> VectorTuner::grids(int workers) const {
  if (problem_.routine == Routine::axpy) return {{1, workers}};
  if (problem_.routine == Routine::dot) return {{workers, 1}};
  if (request_.grid.rows * request_.grid.cols == workers) return {request_.grid};
  if (!base_.rules.has(Rule::grid)) return {{1, workers}};
  return grids_of(workers);
}

std::vector<std::int64_t> VectorTuner::edges(std::int64_t size, int parts) const {
  if (size == 1) return {1};
  if (request_.tile > 0) return {request_.tile};
  if (!base_.rules.has(Rule::tile)) return {kFixedTile};
  const std::int64_t part = ceil_div(size, parts);
  std::vector<std::int64_t> edges;
  for (const std::int64_t pieces : kPieces) edges.push_back(ceil_div(part, pieces));
  const std::int64_t elements =
      std::max<std::int64_t>(most_bytes() / (4 * bytes_of(problem_.type)), 1);
  const auto most = problem_.routine == Routine::gemv
                        ? static_cast<std::int64_t>(std::sqrt(static_cast<double>(elements)))
                        : elements;
  while (edges.back() > most) edges.push_back(edges.back() / 2);
  return edges;
}

bool VectorTuner::is_sensible(const Tuning& t) const {
  const std::int64_t n = std::min(t.tile, problem_.n), k = std::min(t.edge_k(), problem_.k);
  const bool is_chosen = request_.tile > 0 || !base_.rules.has(Rule::tile);
  return is_chosen || streamed_bytes(problem_, n, k) <= most_bytes();
}

void VectorTuner::try_workers(const std::vector<DeviceId>& workers) {
  const std::vector<Grid> list = grids(static_cast<int>(workers.size()));
  for (const Grid& grid : list) {
    budget_ += kMostTasks / std::ssize(list);
    for (const std::int64_t edge_n : edges(problem_.n, grid.cols))
      for (const std::int64_t edge_k : edges(problem_.k, grid.rows)) {
        Tuning t = base_;
        t.workers = workers;
        t.grid = grid;
        t.tile = edge_n;
        t.tile_k = edge_k;
        if (is_sensible(t)) attempt(t);
      }
  }
}

// Of equals the first, which has the larger tiles. The first of all is planned whatever it costs.
void VectorTuner::attempt(const Tuning& tuning) {
  const std::int64_t tiles =
      ceil_div(problem_.n, tuning.tile) * ceil_div(problem_.k, tuning.tile_k);
  if (planned_ > 0 && spent_ + 3 * tiles > budget_) return;
  try {
    Plan plan = make_plan(problem_, machine_, tuning);
    spent_ += std::ssize(plan.tasks);
    const double seconds = simulate(plan, machine_).seconds;
    if (planned_++ == 0 || seconds < best_.predicted_s)
      best_ = {.plan = std::move(plan), .predicted_s = seconds, .planned = 1};
  } catch (const Error& e) {
    if (e.status() != Status::no_memory && e.status() != Status::unreachable) throw;
    refusal_ = e;
  }
}

}  // namespace

Tuned tune_vectors(const Problem& problem, const Machine& machine, const TuneRequest& request) {
  return VectorTuner(problem, machine, request).run();
}

}  // namespace fleet
