// SPDX-License-Identifier: BSD-3-Clause
// mixed_factors.cpp: strips in two precisions: how they come to devices, and the kernels that solve
// and multiply with them.
#include "core/mixed_factors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/sizes.hpp"
#include "core/slot_copies.hpp"
#include "cpu/blas.hpp"

namespace fleet {
namespace {

/// A column as kernels for vectors take it.
View as_vector(const View& column) {
  return {.data = column.data, .rows = 1, .cols = column.rows, .ld = 1};
}

/// c = alpha*a*b + beta*c.
Launch product(Storage storage, double alpha, const View& a, const View& b, double beta,
               const View& c) {
  Launch launch{.type = {.storage = storage}, .alpha = alpha, .beta = beta, .a = a};
  const bool is_vector = c.cols == 1;
  launch.kernel = is_vector ? Kernel::gemv : Kernel::multiply;
  launch.b = is_vector ? as_vector(b) : b;
  launch.c = is_vector ? as_vector(c) : c;
  return launch;
}

const Strips& strips_of(const PlannedFactors& planned) {
  return *planned.stages.front()->tuned.plan.program->strips;
}

}  // namespace

MixedFactors::MixedFactors(On on, const MixedCall& call, DeviceId home,
                           std::shared_ptr<const PlannedFactors> planned)
    : on_(on),
      call_(call),
      n_(call.a.rows),
      narrow_storage_(narrow_of(call.storage)),
      planned_(std::move(planned)),
      what_(fleet::strips_of(*planned_).what),
      memory_(on.offloader, on.memory) {
  take_memory(home);
  bring(home);
  narrow();
}

/// The strips of a device lie side by side. Those of a matrix that is there already are in place.
void MixedFactors::take_memory(DeviceId home) {
  const Strips& all = fleet::strips_of(*planned_);
  for (const DeviceId device : what_.holders()) shares_.push_back({.device = device});
  std::vector<std::int64_t> columns(shares_.size(), 0);
  for (int j = 0; j < all.count(); ++j) {
    const auto holder = std::ranges::find(shares_, all.home_of(j), &Share::device);
    const auto share = static_cast<std::size_t>(holder - shares_.begin());
    strips_.push_back({.share = share, .begin = all.begin_of(j), .width = all.width_of(j)});
    columns[share] += all.width_of(j);
  }
  const auto& devices = on_.offloader.model()->devices;
  for (std::size_t s = 0; s < shares_.size(); ++s) {
    Share& share = shares_[s];
    const DeviceId device = share.device;
    const bool in_place = device == home && !call_.own_copies;
    const View wide = in_place ? View{} : memory_.take(device, call_.storage, n_, columns[s]);
    const View narrow = memory_.take(device, narrow_storage_, n_, columns[s]);
    share.right = memory_.take(device, narrow_storage_, n_, call_.columns);
    share.x = memory_.take(device, call_.storage, n_, call_.columns);
    share.product = memory_.take(device, call_.storage, n_, call_.columns);
    share.sizes = memory_.take(device, Storage::f64, n_, RowSizes::kColumns);
    const bool prepares = devices[index(device)].inverse_order > 0;
    std::int64_t before = 0;
    for (Strip& strip : strips_) {
      if (strip.share != s) continue;
      strip.wide = in_place ? part(call_.a, call_.storage, 0, strip.begin, n_, strip.width)
                            : part(wide, call_.storage, 0, before, n_, strip.width);
      strip.narrow = part(narrow, narrow_storage_, 0, before, n_, strip.width);
      before += strip.width;
      if (!prepares) continue;
      const std::int64_t edge = inverse_block(narrow_storage_);
      for (View* inverses : {&strip.lower_inverses, &strip.upper_inverses})
        *inverses = memory_.take(device, narrow_storage_, edge, round_up(strip.width, edge));
    }
  }
}

void MixedFactors::bring(DeviceId home) {
  std::vector<SlotCopy> coming;
  for (const Strip& strip : strips_) {
    const View from = part(call_.a, call_.storage, 0, strip.begin, n_, strip.width);
    const DeviceId device = share_of(strip).device;
    if (device != home)
      coming.push_back({home, block_of(from, call_.storage), device, strip.wide.data});
    else if (from.data != strip.wide.data)
      backend().transfer(device, strip.wide, home, from, bytes_of(call_.storage));
  }
  if (!coming.empty() && !copy_into_slots(on_.offloader, coming, on_.journal, on_.log))
    throw Error(Status::device_failed, "the matrix did not reach the devices");
}

void MixedFactors::narrow() {
  Launches launches;
  std::vector<bool> has_sizes(shares_.size(), false);
  for (const Strip& strip : strips_) {
    launches.push_back({share_of(strip).device,
                        {.kernel = Kernel::narrow,
                         .type = {.storage = call_.storage},
                         .beta = has_sizes[strip.share] ? 1.0 : 0.0,
                         .a = strip.wide,
                         .b = share_of(strip).sizes,
                         .c = strip.narrow}});
    has_sizes[strip.share] = true;
  }
  backend().compute(launches);
  const auto rows = static_cast<std::size_t>(n_);
  sums_.assign(rows, 0);
  largest_.assign(rows, 0);
  std::vector<double> sizes(rows * RowSizes::kColumns);
  const View on_host{.data = sizes.data(), .rows = n_, .cols = RowSizes::kColumns, .ld = n_};
  for (std::size_t s = 0; s < shares_.size(); ++s) {
    if (!has_sizes[s]) continue;
    backend().transfer(kHost, on_host, shares_[s].device, shares_[s].sizes, bytes_of(Storage::f64));
    for (std::size_t row = 0; row < rows; ++row) {
      sums_[row] += sizes[row + rows * RowSizes::kSum];
      largest_[row] = std::fmax(largest_[row], sizes[row + rows * RowSizes::kLargest]);
    }
  }
}

/// A power of two: the largest element is eight of it or more. So elements may grow more than 4000
/// times while they are factored, and much smaller ones than the largest have all bits of halves.
double MixedFactors::scale_of_halves() const {
  double most = 0;
  for (const double size : largest_) most = std::fmax(most, size);
  if (most == 0) return 1;
  // Its reciprocal is a float too.
  constexpr int kEight = 3, kMost = 120;
  return std::ldexp(1.0, std::clamp(std::ilogb(most) - kEight, -kMost, kMost));
}

bool MixedFactors::fits() const {
  constexpr double kMost = std::numeric_limits<float>::max();
  return std::ranges::none_of(largest_, [](double size) { return size > kMost; });
}

double MixedFactors::norm() const {
  double norm = 0;
  for (const double sum : sums_)
    if (norm < sum || std::isnan(sum)) norm = sum;
  return norm;
}

void MixedFactors::note_failure(const Error& error) const {
  on_.log.line(Log::kWarning, {call_.symbol, ": ", error.what(), "; refining on the host"});
}

bool MixedFactors::factor(CallRecord& record) {
  Offloader::Factored factored{.a = strips_.front().narrow.data,
                               .lda = n_,
                               .pivots = call_.pivots,
                               .scale_of_halves = scale_of_halves()};
  for (const Strip& strip : strips_)
    factored.strips.push_back({.data = strip.narrow.data, .ld = strip.narrow.ld});
  const auto outcome = on_.offloader.run(what_, factored, planned_, record, on_.journal, on_.log);
  if (outcome == Offloader::Outcome::not_possible) return false;
  info_ = factored.info;
  if (info_ == 0) prepare();
  return true;
}

void MixedFactors::prepare() {
  Launches launches;
  for (const Strip& strip : strips_)
    for (const Fill triangle : {Fill::lower, Fill::upper}) {
      const Launch solving = solution(strip, triangle);
      if (solving.b.data == nullptr) continue;
      launches.push_back({share_of(strip).device,
                          {.kernel = Kernel::prepare,
                           .type = solving.type,
                           .a = solving.a,
                           .c = solving.b,
                           .triangular = true,
                           .diag = solving.diag}});
    }
  if (!launches.empty()) backend().compute(launches);
}

/// Of the strip's own rows.
Launch MixedFactors::solution(const Strip& strip, Fill triangle) const {
  const bool is_lower = triangle == Fill::lower;
  return {
      .kernel = Kernel::solve,
      .type = {.storage = narrow_storage_},
      .beta = 1.0,
      .a = part(strip.narrow, narrow_storage_, strip.begin, 0, strip.width, strip.width, triangle),
      .b = is_lower ? strip.lower_inverses : strip.upper_inverses,
      .c = part(share_of(strip).right, narrow_storage_, strip.begin, 0, strip.width, call_.columns),
      .triangular = true,
      .diag = is_lower ? Diag::unit : Diag::non_unit,
      .side = Side::left};
}

/// Takes what is solved out of other rows.
void MixedFactors::update(Launches& launches, const Strip& strip, std::int64_t row,
                          std::int64_t rows) const {
  if (rows == 0) return;
  const Share& share = share_of(strip);
  const auto of_right = [&](std::int64_t from, std::int64_t count) {
    return part(share.right, narrow_storage_, from, 0, count, call_.columns);
  };
  launches.push_back(
      {share.device,
       product(narrow_storage_, -1, part(strip.narrow, narrow_storage_, row, 0, rows, strip.width),
               of_right(strip.begin, strip.width), 1, of_right(row, rows))});
}

/// Solves with one triangle. The right sides go from strip to strip, `at` being the share that has
/// them; those on the host are older but for shares_.size().
void MixedFactors::sweep(const View& right, Fill triangle, std::size_t& at) {
  const std::int64_t bytes = bytes_of(narrow_storage_);
  Launches launches;
  for (std::size_t i = 0; i < strips_.size(); ++i) {
    const bool is_lower = triangle == Fill::lower;
    const Strip& strip = strips_[is_lower ? i : strips_.size() - 1 - i];
    if (strip.share != at) {
      if (!launches.empty()) backend().compute(launches);
      launches.clear();
      const bool from_host = at == shares_.size();
      backend().transfer(share_of(strip).device, share_of(strip).right,
                         from_host ? DeviceId{kHost} : shares_[at].device,
                         from_host ? right : shares_[at].right, bytes);
      at = strip.share;
    }
    const std::int64_t end = strip.begin + strip.width;
    launches.push_back({share_of(strip).device, solution(strip, triangle)});
    is_lower ? update(launches, strip, end, n_ - end) : update(launches, strip, 0, strip.begin);
  }
  backend().compute(launches);
}

void MixedFactors::solve(const View& right) {
  if (call_.columns == 0) return;
  std::size_t at = shares_.size();
  sweep(right, Fill::lower, at);
  sweep(right, Fill::upper, at);
  backend().transfer(kHost, right, shares_[at].device, shares_[at].right,
                     bytes_of(narrow_storage_));
}

/// The first device begins with the target itself, and the others' products are added to it.
void MixedFactors::subtract_product(const View& x, const View& target) {
  if (call_.columns == 0) return;
  const std::int64_t bytes = bytes_of(call_.storage);
  const std::size_t first = strips_.front().share;
  Launches launches;
  std::vector<bool> is_there(shares_.size(), false);
  for (const Strip& strip : strips_) {
    const Share& share = share_of(strip);
    const bool is_new = !is_there[strip.share];
    if (is_new) backend().transfer(share.device, share.x, kHost, x, bytes);
    if (is_new && strip.share == first)
      backend().transfer(share.device, share.product, kHost, target, bytes);
    const View of_x = part(share.x, call_.storage, strip.begin, 0, strip.width, x.cols);
    const double beta = is_new && strip.share != first ? 0 : 1;
    launches.push_back(
        {share.device, product(call_.storage, -1, strip.wide, of_x, beta, share.product)});
    is_there[strip.share] = true;
  }
  backend().compute(launches);
  backend().transfer(kHost, target, shares_[first].device, shares_[first].product, bytes);
  products_.resize(static_cast<std::size_t>(n_ * x.cols * bytes));
  const View others{.data = products_.data(), .rows = n_, .cols = x.cols, .ld = n_};
  for (std::size_t s = 0; s < shares_.size(); ++s) {
    if (s == first || !is_there[s]) continue;
    backend().transfer(kHost, others, shares_[s].device, shares_[s].product, bytes);
    add_scaled({.kernel = Kernel::add,
                .type = {.storage = call_.storage},
                .beta = 1.0,
                .a = others,
                .c = target});
  }
}

}  // namespace fleet
