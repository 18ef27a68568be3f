// SPDX-License-Identifier: BSD-3-Clause
// known_kernels.cpp: hashes of launches in a set of the process. It must not know who launches.
#include "backend/cuda/known_kernels.hpp"

#include <mutex>
#include <shared_mutex>
#include <unordered_set>
#include <utility>

namespace fleet::cuda {
namespace {

/// A program with ever other sizes begins anew after so many.
constexpr std::size_t kMostLaunches = std::size_t{1} << 16;
constexpr std::size_t kMostRefused = 64;

struct Launches {
  std::shared_mutex mutex;
  std::unordered_set<std::uint64_t> kernels;
  std::vector<std::pair<int, Launch>> wanted;
};

Launches& launches() {
  static auto& all = *new Launches;  // threads may outlive exit()
  return all;
}

class LaunchHash {
 public:
  LaunchHash& operator<<(std::uint64_t word) {
    // The step of MurmurHash3's 64-bit finalizer.
    constexpr std::uint64_t kFactor = 0xff51afd7ed558ccd;
    constexpr int kShift = 33;
    value_ = (value_ ^ word) * kFactor;
    value_ ^= value_ >> kShift;
    return *this;
  }
  /// Libraries choose by sizes and alignment.
  LaunchHash& operator<<(const View& view) {
    constexpr std::uintptr_t kAlignment = 16;
    return *this << static_cast<std::uint64_t>(view.rows) << static_cast<std::uint64_t>(view.cols)
                 << static_cast<std::uint64_t>(view.ld) << static_cast<std::uint64_t>(view.fill)
                 << (view.reversed ? 1U : 0U)
                 << reinterpret_cast<std::uintptr_t>(view.data) % kAlignment;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// Kernels of this library, of which there is one for each type.
bool is_our_own(Kernel kernel) {
  return kernel == Kernel::add || kernel == Kernel::scale || kernel == Kernel::narrow ||
         kernel == Kernel::pack || kernel == Kernel::unpack || kernel == Kernel::adopt;
}

}  // namespace

std::uint64_t kernels_of(const Launch& launch, int ordinal) {
  LaunchHash hash;
  hash << static_cast<std::uint64_t>(ordinal) << static_cast<std::uint64_t>(launch.kernel)
       << static_cast<std::uint64_t>(launch.type.storage)
       << static_cast<std::uint64_t>(launch.type.compute);
  if (is_our_own(launch.kernel)) return hash.value();
  // Each is done by another routine.
  const bool in_place = launch.a.data == launch.c.data || launch.b.data == launch.c.data;
  const bool by_itself = launch.a.data == launch.b.data;
  const bool is_read = launch.beta != 0.0;
  hash << static_cast<std::uint64_t>(launch.op_a) << static_cast<std::uint64_t>(launch.op_b)
       << static_cast<std::uint64_t>(launch.side) << static_cast<std::uint64_t>(launch.diag)
       << (launch.hermitian ? 1U : 0U) + (launch.triangular ? 2U : 0U) + (in_place ? 4U : 0U) +
              (is_read ? 8U : 0U) + (by_itself ? 16U : 0U);
  hash << launch.a << launch.b << launch.c << static_cast<std::uint64_t>(launch.offset);
  return hash.value();
}

std::uint64_t kernels_of(OtherKernels what, std::uint64_t which, int ordinal) {
  constexpr std::uint64_t kNoKernel = kKernels;  // of a Launch
  LaunchHash hash;
  hash << static_cast<std::uint64_t>(ordinal) << kNoKernel << static_cast<std::uint64_t>(what)
       << which;
  return hash.value();
}

bool are_known(std::uint64_t kernels) {
  const std::shared_lock lock(launches().mutex);
  return launches().kernels.contains(kernels);
}

void note_known(std::uint64_t kernels) {
  const std::lock_guard lock(launches().mutex);
  if (launches().kernels.size() >= kMostLaunches) launches().kernels.clear();
  launches().kernels.insert(kernels);
}

std::vector<Launch> take_wanted(int ordinal) {
  const std::lock_guard lock(launches().mutex);
  std::vector<Launch> found;
  std::erase_if(launches().wanted, [&](const std::pair<int, Launch>& one) {
    if (one.first == ordinal) found.push_back(one.second);
    return one.first == ordinal;
  });
  return found;
}

void want(const Launch& launch, int ordinal) {
  const std::lock_guard lock(launches().mutex);
  if (launches().wanted.size() < kMostRefused) launches().wanted.emplace_back(ordinal, launch);
}

}  // namespace fleet::cuda
