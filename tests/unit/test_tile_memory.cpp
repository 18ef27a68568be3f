// SPDX-License-Identifier: BSD-3-Clause
// test_tile_memory.cpp: how large the chunks are that memory of tiles is cut from.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "backend/host/backend.hpp"
#include "backend/host/machine.hpp"
#include "core/tile_memory.hpp"
#include "support/cpu_blas.hpp"
#include "support/wrapped_backend.hpp"

namespace fleet {
namespace {

constexpr std::int64_t kMi = std::int64_t{1} << 20;

/// Notes how many bytes are asked for each time, and touches no memory.
class NotingBackend final : public test::WrappedBackend {
 public:
  explicit NotingBackend(std::int64_t bytes)
      : WrappedBackend(
            make_host_backend(host_machine(1, 1, bytes), test::shared_cpu_blas(), Options{})),
        left_(bytes) {}

  void* allocate(DeviceId, std::int64_t bytes) override {
    allocated.push_back(bytes);
    left_ -= bytes;
    next_ += bytes;
    return reinterpret_cast<void*>(next_ - bytes);
  }
  void release(DeviceId, void*) override {}
  std::int64_t available_bytes(DeviceId) override { return left_; }

  std::vector<std::int64_t> allocated;

 private:
  std::int64_t left_;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

TEST(TileMemory, GrowsByAsMuchAsThereIsWithinBounds) {
  NotingBackend backend(std::int64_t{64} << 30);
  TileMemory memory;

  memory.take(backend, kFirstDevice, 1000);
  EXPECT_EQ(backend.allocated, (std::vector<std::int64_t>{4 * kMi}));
  for (int piece = 0; piece < 900; ++piece) memory.take(backend, kFirstDevice, kMi);

  EXPECT_EQ(backend.allocated,
            (std::vector<std::int64_t>{4 * kMi, 4 * kMi, 8 * kMi, 16 * kMi, 32 * kMi, 64 * kMi,
                                       128 * kMi, 256 * kMi, 256 * kMi, 256 * kMi}));
}

TEST(TileMemory, TakesLargePiecesAsTheyAreAndLittleOfSmallDevices) {
  NotingBackend backend(32 * kMi);
  TileMemory memory;

  memory.take(backend, kFirstDevice, kMi);
  memory.take(backend, kFirstDevice, 20 * kMi);

  EXPECT_EQ(backend.allocated, (std::vector<std::int64_t>{2 * kMi, 20 * kMi}));
}

TEST(TileMemory, BeginsAnewAfterAllWasGivenBack) {
  NotingBackend backend(std::int64_t{64} << 30);
  TileMemory memory;
  std::vector<void*> pieces;
  for (int piece = 0; piece < 100; ++piece)
    pieces.push_back(memory.take(backend, kFirstDevice, kMi));
  for (void* const piece : pieces) memory.give_back(kFirstDevice, piece);
  memory.trim(backend);
  backend.allocated.clear();

  memory.take(backend, kFirstDevice, kMi);

  EXPECT_EQ(backend.allocated, (std::vector<std::int64_t>{4 * kMi}));
}

}  // namespace
}  // namespace fleet
