// SPDX-License-Identifier: BSD-3-Clause
// mixed_factors.cpp: strips in two precisions: how they come to devices, and the products with
// those in double.
#include "core/mixed_factors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/slot_copies.hpp"
#include "cpu/blas.hpp"

namespace fleet {

MixedFactors::MixedFactors(HeldFactors::On on, const HeldCall& call, DeviceId home, bool own_copies,
                           std::shared_ptr<const PlannedFactors> planned)
    : on_(on),
      call_(call),
      n_(call.a.rows),
      factors_(on, call.symbol, call.columns, std::move(planned)),
      memory_(on.offloader, on.memory) {
  take_memory(home, own_copies);
  bring(home);
  narrow();
}

/// The strips of a device lie side by side. Those of a matrix that is there already are in place.
void MixedFactors::take_memory(DeviceId home, bool own_copies) {
  const std::vector<Strip>& strips = factors_.strips();
  const std::vector<DeviceId>& devices = factors_.devices();
  std::vector<std::int64_t> columns(devices.size(), 0);
  for (const Strip& strip : strips) columns[strip.share] += strip.width;
  wide_.resize(strips.size());
  for (std::size_t s = 0; s < devices.size(); ++s) {
    const DeviceId device = devices[s];
    const bool in_place = device == home && !own_copies;
    const View wide = in_place ? View{} : memory_.take(device, call_.storage, n_, columns[s]);
    shares_.push_back({.x = memory_.take(device, call_.storage, n_, call_.columns),
                       .product = memory_.take(device, call_.storage, n_, call_.columns),
                       .sizes = memory_.take(device, Storage::f64, n_, RowSizes::kColumns)});
    std::int64_t before = 0;
    for (std::size_t j = 0; j < strips.size(); ++j) {
      if (strips[j].share != s) continue;
      wide_[j] = in_place ? part(call_.a, call_.storage, 0, strips[j].begin, n_, strips[j].width)
                          : part(wide, call_.storage, 0, before, n_, strips[j].width);
      before += strips[j].width;
    }
  }
}

void MixedFactors::bring(DeviceId home) {
  std::vector<SlotCopy> coming;
  for (std::size_t j = 0; j < wide_.size(); ++j) {
    const Strip& strip = factors_.strips()[j];
    const View from = part(call_.a, call_.storage, 0, strip.begin, n_, strip.width);
    const DeviceId device = device_of(strip);
    if (device != home)
      coming.push_back({home, block_of(from, call_.storage), device, wide_[j].data});
    else if (from.data != wide_[j].data)
      backend().transfer(device, wide_[j], home, from, bytes_of(call_.storage));
  }
  if (!coming.empty() && !copy_into_slots(on_.offloader, coming, on_.journal, on_.log))
    throw Error(Status::device_failed, "the matrix did not reach the devices");
}

void MixedFactors::narrow() {
  Launches launches;
  std::vector<bool> has_sizes(shares_.size(), false);
  for (std::size_t j = 0; j < wide_.size(); ++j) {
    const Strip& strip = factors_.strips()[j];
    launches.push_back({device_of(strip),
                        {.kernel = Kernel::narrow,
                         .type = {.storage = call_.storage},
                         .beta = has_sizes[strip.share] ? 1.0 : 0.0,
                         .a = wide_[j],
                         .b = shares_[strip.share].sizes,
                         .c = strip.elements}});
    has_sizes[strip.share] = true;
  }
  backend().compute(launches);
  const auto rows = static_cast<std::size_t>(n_);
  sums_.assign(rows, 0);
  largest_.assign(rows, 0);
  std::vector<double> sizes(rows * RowSizes::kColumns);
  const View on_host{.data = sizes.data(), .rows = n_, .cols = RowSizes::kColumns, .ld = n_};
  for (std::size_t s = 0; s < shares_.size(); ++s) {
    backend().transfer(kHost, on_host, factors_.devices()[s], shares_[s].sizes,
                       bytes_of(Storage::f64));
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

bool MixedFactors::factor(CallRecord& record) {
  return factors_.factor({.pivots = call_.pivots, .scale_of_halves = scale_of_halves()}, record);
}

/// The first device begins with the target itself, and the others' products are added to it.
void MixedFactors::subtract_product(const View& x, const View& target) {
  if (call_.columns == 0) return;
  const std::int64_t bytes = bytes_of(call_.storage);
  const std::vector<DeviceId>& devices = factors_.devices();
  for (std::size_t s = 0; s < shares_.size(); ++s)
    backend().transfer(devices[s], shares_[s].x, kHost, x, bytes);
  backend().transfer(devices.front(), shares_.front().product, kHost, target, bytes);
  Launches launches;
  std::vector<bool> has_product(shares_.size(), false);
  has_product.front() = true;
  for (std::size_t j = 0; j < wide_.size(); ++j) {
    const Strip& strip = factors_.strips()[j];
    const Share& share = shares_[strip.share];
    const View of_x = part(share.x, call_.storage, strip.begin, 0, strip.width, x.cols);
    const double beta = has_product[strip.share] ? 1 : 0;
    launches.push_back({device_of(strip), product_of(call_.storage, -1, Op::none, wide_[j], of_x,
                                                     beta, share.product)});
    has_product[strip.share] = true;
  }
  backend().compute(launches);
  backend().transfer(kHost, target, devices.front(), shares_.front().product, bytes);
  products_.resize(static_cast<std::size_t>(n_ * x.cols * bytes));
  const View others{.data = products_.data(), .rows = n_, .cols = x.cols, .ld = n_};
  for (std::size_t s = 1; s < shares_.size(); ++s) {
    backend().transfer(kHost, others, devices[s], shares_[s].product, bytes);
    add_scaled({.kernel = Kernel::add,
                .type = {.storage = call_.storage},
                .beta = 1.0,
                .a = others,
                .c = target});
  }
}

}  // namespace fleet
