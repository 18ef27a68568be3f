// SPDX-License-Identifier: BSD-3-Clause
// tune_vectors.cpp: the tunings of levels 1 and 2. Their time is bound by bytes, so the main choice
// is whether all workers take part or only one that holds an operand. Pure.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "program/decompose.hpp"
#include "tune/candidates.hpp"
#include "tune/choice.hpp"
#include "tune/fits.hpp"
#include "tune/limits.hpp"

namespace fleet {
namespace {

using Verdict = Considered::Verdict;

class VectorTuner {
 public:
  VectorTuner(const Problem& problem, const Machine& machine, const TuneRequest& request)
      : problem_(problem),
        machine_(machine),
        request_(request),
        base_(base_tuning(problem, machine, request)),
        choice_(problem, machine, request.goal) {}

  Tuned run() {
    const std::vector<DeviceId>& all = base_.workers;
    try_workers(all);
    const bool is_chosen = request_.grid.rows * request_.grid.cols == std::ssize(all);
    for (const DeviceId d : all) {
      const auto is_home = [d](const Operand& o) { return o.home == d; };
      // A single device that has to fetch all is never the fastest, but it may need least energy.
      const bool is_worth_it = std::ranges::any_of(problem_.operands, is_home) ||
                               (!request_.goal.is_time() && d == all.front());
      if (request_.selects && !is_chosen && all.size() > 1 && is_worth_it) try_workers({d});
    }
    if (choice_.planned() == 0) throw choice_.refusal();
    return choice_.take();
  }

 private:
  /// Also with all operands in place that the host has in memory which the workers share.
  void attempt(Considered c) {
    const std::optional<Tuning> in_place = shared(c.tuning, problem_, machine_, request_);
    const std::int64_t tasks = c.tasks;
    if (const auto planned = choice_.attempt(std::move(c))) spent_ += planned->tasks;
    if (!in_place) return;
    if (const auto planned = choice_.attempt({.tuning = *in_place, .tasks = tasks}))
      spent_ += planned->tasks;
  }
  void try_workers(const std::vector<DeviceId>& workers);
  std::vector<Grid> grids(int workers) const;
  std::vector<std::int64_t> edges(std::int64_t size, int parts) const;
  bool is_sensible(const Tuning& tuning) const;
  /// The most bytes of a tile product.
  std::int64_t most_bytes() const {
    std::int64_t most = limits::kMostVectorBytes;
    for (std::size_t d = kFirstDevice; d < base_.memory_cap.size(); ++d)
      if (base_.memory_cap[d] > 0)
        most = std::min(most, base_.memory_cap[d] / limits::kVectorSlots);
    return most;
  }

  const Problem& problem_;
  const Machine& machine_;
  const TuneRequest& request_;
  const Tuning base_;
  Choice choice_;
  std::int64_t spent_ = 0, budget_ = 0;  ///< in tasks
};

// Grids of parts of k by parts of C. axpy has no sum to split, dot nothing but a sum.
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
  if (!base_.rules.has(Rule::tile)) return {limits::kFixedTile};
  const std::int64_t part = ceil_div(size, parts);
  std::vector<std::int64_t> edges;
  for (const std::int64_t pieces : limits::kVectorPieces) edges.push_back(ceil_div(part, pieces));
  const std::int64_t elements = std::max<std::int64_t>(
      most_bytes() / (limits::kVectorParts * bytes_of(problem_.type.storage)), 1);
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
    budget_ += limits::kMostVectorTasks / std::ssize(list);
    for (const std::int64_t edge_n : edges(problem_.n, grid.cols))
      for (const std::int64_t edge_k : edges(problem_.k, grid.rows)) {
        Tuning t = base_;
        t.workers = workers;
        t.grid = grid;
        t.tile = edge_n;
        t.tile_k = edge_k;
        const std::int64_t tiles = ceil_div(problem_.n, edge_n) * ceil_div(problem_.k, edge_k);
        const std::int64_t tasks = limits::kTasksPerVectorTile * tiles;
        Considered c{.tuning = std::move(t), .tasks = tasks};
        if (!is_sensible(c.tuning))
          choice_.pass_over(std::move(c), Verdict::too_large, most_bytes());
        else if (choice_.planned() > 0 && tasks > budget_ - spent_)
          choice_.pass_over(std::move(c), Verdict::over_budget, budget_ - spent_);
        else
          attempt(std::move(c));
      }
  }
}

}  // namespace

Tuned tune_vectors(const Problem& problem, const Machine& machine, const TuneRequest& request) {
  return VectorTuner(problem, machine, request).run();
}

}  // namespace fleet
