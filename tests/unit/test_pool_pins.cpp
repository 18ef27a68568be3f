// SPDX-License-Identifier: BSD-3-Clause
// test_pool_pins.cpp: what devices use of the pool is pinned by and by, and nothing else; and what
// is freed goes back.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "pool/table.hpp"
#include "run/pool_pins.hpp"

namespace fleet {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

constinit pool::Blocks blocks;
constinit std::atomic<const void*> owner{nullptr};
const Pool* test_pool() { return &pool::kTable<blocks, owner>; }

/// Only pins, and counts them.
class PinningBackend final : public Backend {
 public:
  const Machine& machine() const override { return machine_; }
  std::unique_ptr<Execution> begin(const Plan&, const Binding&, std::uint64_t) override {
    throw Error(Status::unsupported, "it only pins");
  }
  void* allocate(DeviceId, std::int64_t) override { return nullptr; }
  void release(DeviceId, void*) override {}
  void transfer(DeviceId, const View&, DeviceId, const View&, std::int64_t) override {}
  void trim() override {}
  std::int64_t available_bytes(DeviceId) override { return 0; }

  bool pin(void* data, std::int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    ++pins;
    if (refuses) return false;
    return pinned_.emplace(data, bytes).second;
  }
  bool unpin(void* data) override {
    if (!may_unpin()) return false;
    const std::lock_guard lock(mutex_);
    pinned_.erase(data);
    return true;
  }
  bool may_unpin() const override { return !is_held; }
  std::int64_t pinned_bytes() {
    const std::lock_guard lock(mutex_);
    std::int64_t sum = 0;
    for (const auto& [data, bytes] : pinned_) sum += bytes;
    return sum;
  }

  std::atomic<bool> refuses{false};
  std::atomic<bool> is_held{false};  ///< a stream of the program
  std::atomic<int> pins{0};

 private:
  Machine machine_;
  std::mutex mutex_;
  std::map<void*, std::int64_t> pinned_;
};

class PinsOfThePool : public ::testing::Test {
 protected:
  PinsOfThePool() { EXPECT_TRUE(blocks.open(2048 * kMiB)); }
  ~PinsOfThePool() override { blocks.close(); }

  static char* allocate(std::size_t bytes) {
    return static_cast<char*>(blocks.allocate(bytes, pool::Blocks::Contents::any));
  }
  static bool comes(PoolPins& pins, const void* data, std::int64_t bytes, PoolState wanted) {
    for (int look = 0; look < 5000; ++look) {
      if (pins.state(data, bytes) == wanted) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  PinningBackend backend;
};

constexpr std::int64_t kBytes = std::int64_t{64} << 20;

TEST_F(PinsOfThePool, AreOfPiecesThatDevicesUse) {
  PoolPins pins(test_pool);
  char* const data = allocate(600 * kMiB);
  EXPECT_EQ(pins.state(data, kBytes), PoolState::plain);
  EXPECT_EQ(backend.pins, 0);

  pins.pin_soon(backend, data + 2 * kPoolPieceBytes, kBytes);

  EXPECT_TRUE(comes(pins, data + 2 * kPoolPieceBytes, kBytes, PoolState::pinned));
  EXPECT_EQ(backend.pinned_bytes(), static_cast<std::int64_t>(88 * kMiB));  // of the last piece
  EXPECT_EQ(pins.state(data, kBytes), PoolState::plain);
}

TEST_F(PinsOfThePool, AreNeverOfOtherMemory) {
  PoolPins pins(test_pool);
  std::vector<char> other(static_cast<std::size_t>(kBytes));

  pins.pin_soon(backend, other.data(), kBytes);

  EXPECT_EQ(pins.state(other.data(), kBytes), PoolState::elsewhere);
  EXPECT_EQ(owner.load(), nullptr);
}

TEST_F(PinsOfThePool, AreTriedOnceWhereTheyAreRefused) {
  backend.refuses = true;
  PoolPins pins(test_pool);
  char* const data = allocate(64 * kMiB);

  pins.pin_soon(backend, data, kBytes);

  EXPECT_TRUE(comes(pins, data, kBytes, PoolState::refused));
  pins.pin_soon(backend, data, kBytes);
  EXPECT_EQ(backend.pins, 1);
}

TEST_F(PinsOfThePool, OfFreedBlocksEndWithATrim) {
  PoolPins pins(test_pool);
  char* const data = allocate(64 * kMiB);
  pins.pin_soon(backend, data, kBytes);
  ASSERT_TRUE(comes(pins, data, kBytes, PoolState::pinned));
  pins.trim();
  EXPECT_EQ(backend.pinned_bytes(), kBytes);  // in use

  blocks.release(data);
  EXPECT_EQ(backend.pinned_bytes(), kBytes);
  pins.trim();

  EXPECT_EQ(backend.pinned_bytes(), 0);
  EXPECT_FALSE(blocks.has_pinned());
}

TEST_F(PinsOfThePool, StayWhileAStreamIsHeld) {
  char* const data = allocate(64 * kMiB);
  std::thread lets_go;
  {
    PoolPins pins(test_pool);
    pins.pin_soon(backend, data, kBytes);
    ASSERT_TRUE(comes(pins, data, kBytes, PoolState::pinned));
    blocks.release(data);
    backend.is_held = true;
    pins.trim();
    EXPECT_EQ(backend.pinned_bytes(), kBytes);
    lets_go = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      backend.is_held = false;
    });
  }  // which waits for the stream
  lets_go.join();

  EXPECT_EQ(backend.pinned_bytes(), 0);
}

TEST_F(PinsOfThePool, EndWithTheirOwnerWhateverTheProgramHas) {
  char* const data = allocate(300 * kMiB);
  char* const freed = allocate(64 * kMiB);
  {
    PoolPins pins(test_pool);
    pins.pin_soon(backend, data, 300 * kBytes / 64);
    pins.pin_soon(backend, freed, kBytes);
    ASSERT_TRUE(comes(pins, freed, kBytes, PoolState::pinned));
    blocks.release(freed);
    data[1] = 1;
  }

  EXPECT_EQ(backend.pinned_bytes(), 0);
  EXPECT_EQ(blocks.state(data, kBytes), PoolState::plain);
  EXPECT_EQ(data[1], 1);
  EXPECT_EQ(owner.load(), nullptr);
  blocks.release(data);
}

TEST_F(PinsOfThePool, AreOneContextsAffair) {
  PoolPins first(test_pool), second(test_pool);
  char* const data = allocate(64 * kMiB);
  first.pin_soon(backend, data, kBytes);

  EXPECT_EQ(second.state(data, kBytes), PoolState::elsewhere);

  ASSERT_TRUE(comes(first, data, kBytes, PoolState::pinned));
  PinningBackend other;
  second.pin_soon(other, data, kBytes);
  EXPECT_EQ(other.pins, 0);
}

TEST_F(PinsOfThePool, AreNoneWithoutAPool) {
  PoolPins pins([]() -> const Pool* { return nullptr; });
  char* const data = allocate(64 * kMiB);

  pins.pin_soon(backend, data, kBytes);

  EXPECT_EQ(pins.state(data, kBytes), PoolState::elsewhere);
  EXPECT_EQ(find_pool(), nullptr);  // this program has no preload library
}

}  // namespace
}  // namespace fleet
