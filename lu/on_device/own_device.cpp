// SPDX-License-Identifier: BSD-3-Clause
// own_device.cpp: what is worth a device, and one start of each thing.
#include "on_device/own_device.hpp"

#include <cstdio>

#include "work/context.hpp"

namespace fleet::lu {
namespace {

/// 4096^3: cores do them in 0.14 s at 1 TFLOPS, and the first such work starts the device, which
/// takes up to a second.
constexpr double kLeastMultiplyAdds = 4096.0 * 4096 * 4096;
/// In the time that one number takes to a device, half a nanosecond, cores do as many at 1 TFLOPS.
constexpr double kLeastPerNumber = 256;

/// The ranks of a row, numbered from one of them on.
class TurnedRow final : public DeviceRow {
 public:
  TurnedRow(std::shared_ptr<DeviceRow> row, int first, int ranks)
      : row_(std::move(row)), first_(first), ranks_(ranks) {}
  std::unique_ptr<Request> broadcast(double* data, std::int64_t count, int root) override {
    return row_->broadcast(data, count, (root + first_) % ranks_);
  }
  std::string name() const override { return row_->name(); }

 private:
  const std::shared_ptr<DeviceRow> row_;
  const int first_, ranks_;
};

}  // namespace

bool OwnDevice::is_worth(double multiply_adds, double numbers) const {
  if (means_.use != Use::where_it_pays) return means_.use == Use::always;
  return multiply_adds >= kLeastMultiplyAdds && multiply_adds >= kLeastPerNumber * numbers;
}

const Device* OwnDevice::start() {
  if (is_started_) return device_ ? &*device_ : nullptr;
  is_started_ = true;
  if (!means_.has_threads) {
    say_why_not("MPI was not initialized for threads that call it in turn (MPI_THREAD_SERIALIZED)");
    return nullptr;
  }
  try {
    const std::vector<int> numbers = Device::numbers(true);
    if (!numbers.empty())
      device_.emplace(numbers[static_cast<std::size_t>(means_.place_on_node) % numbers.size()]);
    else
      say_why_not("the library has no devices here");
  } catch (const Failure& failure) {
    say_why_not(failure.what());
  }
  return device_ ? &*device_ : nullptr;
}

void OwnDevice::say_why_not(const std::string& why) {
  if (has_said_why_ || option(nullptr, "log_level").value == "0") return;
  has_said_why_ = true;
  std::fprintf(stderr, "fleetblas: mpi.h: cores compute: %s\n", why.c_str());
}

std::unique_ptr<DeviceRow> OwnDevice::row(int first, const DeviceRow::Place& place) {
  std::string why;
  if (!row_is_sought_) row_ = DeviceRow::make(*grid_.row_ranks, place, means_.patience_s, why);
  row_is_sought_ = true;
  if (row_ == nullptr) return nullptr;
  return std::make_unique<TurnedRow>(row_, first, grid_.cols);
}

}  // namespace fleet::lu
