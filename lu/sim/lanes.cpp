// SPDX-License-Identifier: BSD-3-Clause
// lanes.cpp: clocks that only go forward.
#include "sim/lanes.hpp"

#include <algorithm>

namespace fleet::lu {

Lanes::Lanes(int ranks, int cores, Options options)
    : options_(options),
      cores_(std::max(1, options.overlap == Overlap::dedicated ? cores - 1 : cores)),
      main_s_(static_cast<std::size_t>(ranks), 0),
      link_s_(main_s_),
      expected_s_(main_s_),
      away_(main_s_.size()),
      kept_(main_s_.size()) {
  if (options.machine.cores > 0) load_.emplace(options.machine.cores);
}

void Lanes::settle() {
  if (!load_ || std::ranges::all_of(kept_, [](const auto& pieces) { return pieces.empty(); }))
    return;
  load_->forget(*std::ranges::min_element(main_s_));
  std::vector<Load::Chain> chains;
  for (std::size_t rank = 0; rank < kept_.size(); ++rank) {
    Load::Chain& chain = chains.emplace_back(Load::Chain{main_s_[rank], cores_, {}, {}});
    for (const Piece& piece : kept_[rank]) chain.seconds.push_back(piece.seconds);
  }
  load_->run(chains);
  for (std::size_t rank = 0; rank < kept_.size(); ++rank) {
    for (std::size_t i = 0; i < kept_[rank].size(); ++i)
      pass(rank, kept_[rank][i].spent, kept_[rank][i].step, chains[rank].end_s[i]);
    kept_[rank].clear();
  }
}

void Lanes::pass(std::size_t rank, Spent spent, std::int64_t step, double end_s) {
  double& now_s = main_s_[rank];
  if (end_s <= now_s) return;
  totals_.rank_s[static_cast<std::size_t>(spent)] += end_s - now_s;
  if (options_.keeps_spans)
    spans_.push_back({static_cast<int>(rank), LaneSpan::Lane::main, spent, step, now_s, end_s});
  now_s = end_s;
}

void Lanes::compute(int rank, Spent spent, std::int64_t step, double seconds) {
  const auto at = static_cast<std::size_t>(rank);
  if (load_) return kept_[at].push_back({spent, step, seconds});
  pass(at, spent, step, main_s_[at] + seconds);
}

Lanes::Sides Lanes::work(int rank, Spent spent, std::int64_t step, const SharedWork& work) {
  const auto at = static_cast<std::size_t>(rank);
  if (load_) {
    totals_.flops += work.flops;
    compute(rank, spent, step, work.core_s / cores_);
    return {};
  }
  const double now_s = main_s_[at], gpu_end_s = now_s + work.in_s + work.gpu_s;
  totals_.flops += work.flops;
  totals_.transfer_s += work.in_s + work.out_s;
  // With `dedicated` a core that computes nothing brings the matrices and takes them back. Else one
  // of those that compute does, and it takes nothing back before its own part is done (paper 3,
  // Fig. 4 and 5).
  const bool has_carrier = options_.overlap == Overlap::dedicated;
  double cpu_end_s = now_s;
  if (work.core_s > 0) {
    const bool is_hidden = options_.transfers == Transfers::overlap;
    const double begin_s = is_hidden ? now_s : now_s + work.in_s;
    const double carried_s = is_hidden && !has_carrier ? work.in_s : 0;
    cpu_end_s = cores_end_s(at, begin_s, work.core_s + carried_s);
  }
  const double end_s = has_carrier ? std::max(gpu_end_s + work.out_s, cpu_end_s)
                                   : std::max(gpu_end_s, cpu_end_s) + work.out_s;
  pass(at, spent, step, end_s);
  return {cpu_end_s - now_s, gpu_end_s - now_s + (has_carrier ? work.out_s : 0)};
}

bool Lanes::has_messages(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  return options_.overlap == Overlap::full && away_[at].back().end_s > main_s_[at];
}

double Lanes::cores_end_s(std::size_t rank, double begin_s, double core_s) const {
  // A rank of one core has its thread for messages beside it, as Workshop gives it.
  if (options_.overlap != Overlap::full || cores_ < 2) return begin_s + core_s / cores_;
  double now_s = begin_s;
  for (const Interval& away : away_[rank]) {
    if (away.end_s <= now_s) continue;
    if (away.begin_s > now_s) {
      const double done = cores_ * (away.begin_s - now_s);
      if (done >= core_s) break;
      core_s -= done;
      now_s = away.begin_s;
    }
    const double done = (cores_ - 1) * (away.end_s - now_s);
    if (done >= core_s) return now_s + core_s / (cores_ - 1);
    core_s -= done;
    now_s = away.end_s;
  }
  return now_s + core_s / cores_;
}

void Lanes::start(Group& group, Spent spent, std::int64_t step) {
  settle();
  double begin_s = 0;
  const auto for_all = [&group](auto&& visit) {
    for (int i = 0; i < group.count; ++i)
      visit(static_cast<std::size_t>(group.first + i * group.stride));
  };
  for_all([&](std::size_t rank) { begin_s = std::max({begin_s, ready_s(rank), link_s_[rank]}); });
  group.end_s = begin_s + group.cost_s;
  totals_.message_s += group.cost_s * group.count;
  for_all([&](std::size_t rank) {
    auto& away = away_[rank];
    const double from_s = std::max(ready_s(rank), away.back().end_s);
    std::shift_left(away.begin(), away.end(), 1);
    away.back() = {from_s, group.end_s};
    link_s_[rank] = group.end_s;
    if (load_) load_->note_message(begin_s, group.end_s, options_.machine.message_cores);
    if (options_.keeps_spans)
      spans_.push_back(
          {static_cast<int>(rank), LaneSpan::Lane::messages, spent, step, begin_s, group.end_s});
  });
}

void Lanes::reach(int rank, Spent spent, std::int64_t step) {
  settle();
  const auto at = static_cast<std::size_t>(rank);
  pass(at, spent, step, expected_s_[at]);
  expected_s_[at] = 0;
}

void Lanes::prepare(int rank, Spent spent, std::int64_t step, double seconds) {
  settle();
  const auto at = static_cast<std::size_t>(rank);
  if (expected_s_[at] > main_s_[at]) expected_s_[at] += seconds;
  compute(rank, spent, step, seconds);
}

void Lanes::post(Group& group, Spent spent, std::int64_t step) {
  if (is_driven() && group.cost_s > 0) start(group, spent, step);
}

void Lanes::wait(Group& group, Spent spent, std::int64_t step) {
  if (group.cost_s <= 0) return;
  settle();
  if (!is_driven()) start(group, spent, step);
  for (int i = 0; i < group.count; ++i)
    pass(static_cast<std::size_t>(group.first + i * group.stride), spent, step, group.end_s);
}

void Lanes::delay(Group& group, double seconds) {
  if (!is_driven() || group.cost_s <= 0) return;
  for (int i = 0; i < group.count; ++i) {
    const auto rank = static_cast<std::size_t>(group.first + i * group.stride);
    if (link_s_[rank] == group.end_s) link_s_[rank] += seconds;
    if (away_[rank].back().end_s == group.end_s) away_[rank].back().end_s += seconds;
  }
  group.end_s += seconds;
}

void Lanes::meet(const Group& group, Spent spent, std::int64_t step) {
  if (group.cost_s <= 0) return;
  settle();
  totals_.message_s += group.cost_s * group.count;
  double begin_s = 0;
  for (int i = 0; i < group.count; ++i)
    begin_s = std::max(begin_s, main_s_[static_cast<std::size_t>(group.first + i * group.stride)]);
  for (int i = 0; i < group.count; ++i)
    pass(static_cast<std::size_t>(group.first + i * group.stride), spent, step,
         begin_s + group.cost_s);
}

double Lanes::end_s() {
  settle();
  return *std::ranges::max_element(main_s_);
}

}  // namespace fleet::lu
