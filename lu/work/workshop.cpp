// SPDX-License-Identifier: BSD-3-Clause
// workshop.cpp: who gets which core.
#include "work/workshop.hpp"

#include <algorithm>
#include <string>

namespace fleet::lu {

CpuContext::CpuContext(int threads)
    : context_(make_context("offload=never;cpu_threads=" + std::to_string(threads))) {}

std::string CpuContext::blas() const {
  const std::string name = config_value(get(), "cpu_blas");
  return name.empty() ? "unknown" : name;
}

Workshop::Workshop(const Means& means, Overlap overlap)
    : recorder_(means.keeps_spans),
      shares_core_(means.progress_thread && overlap == Overlap::full && means.cores > 1),
      keeps_core_(means.progress_thread && overlap == Overlap::dedicated),
      crew_(std::max(1, means.cores - (shares_core_ || keeps_core_ ? 1 : 0)), shares_core_),
      one_(1),
      engine_(
          {.has_thread = means.progress_thread,
           .spins = keeps_core_,
           .meanwhile = shares_core_ ? [this] { return crew_.help(); } : std::function<bool()>(),
           .patience_s = means.patience_s},
          recorder_),
      one_core_(one_.get(), means.most_flops_per_s) {
  if (shares_core_) crew_.on_work = [this] { engine_.wake(); };
  if (crew_.threads() > 1) all_.emplace(crew_.threads());
  if (means.devices) devices_.emplace(*means.devices, means.cores);
  all_cores_ = Blas(all_ ? all_->get() : one_.get());
  rank_.emplace(Rank{.one_core = one_core_,
                     .all_cores = all_cores_,
                     .crew = crew_,
                     .engine = engine_,
                     .recorder = recorder_,
                     .devices = devices_ ? &*devices_ : nullptr,
                     .polls = !means.progress_thread && overlap >= Overlap::dedicated});
}

}  // namespace fleet::lu
