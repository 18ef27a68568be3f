// SPDX-License-Identifier: BSD-3-Clause
// test_cuda_pieces.cpp: memory whose pieces are pinned one by one is copied as if it were one, to
// GPUs and from them.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "gpu/gpus.hpp"
#include "pool/pool.hpp"

namespace fleet {
namespace {

constexpr std::int64_t kPieces = 3;
constexpr auto kPiece = static_cast<std::int64_t>(kPoolPieceBytes);

/// Pieces side by side, at a multiple of their size, pinned one by one.
class PinnedPieces {
 public:
  explicit PinnedPieces(Backend& backend) : backend_(backend) {
    map_ =
        mmap(nullptr, bytes_of_map(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const auto at = reinterpret_cast<std::uintptr_t>(map_);
    data_ = static_cast<char*>(map_) + (kPoolPieceBytes - at % kPoolPieceBytes) % kPoolPieceBytes;
    for (std::int64_t piece = 0; piece < kPieces; ++piece)
      EXPECT_TRUE(backend_.pin_piece(data_ + piece * kPiece, kPiece));
  }
  ~PinnedPieces() {
    for (std::int64_t piece = 0; piece < kPieces; ++piece) backend_.unpin(data_ + piece * kPiece);
    munmap(map_, bytes_of_map());
  }
  PinnedPieces(const PinnedPieces&) = delete;
  PinnedPieces& operator=(const PinnedPieces&) = delete;

  double* numbers() const { return reinterpret_cast<double*>(data_); }
  static std::int64_t count() { return kPieces * kPiece / std::int64_t{sizeof(double)}; }

 private:
  static std::size_t bytes_of_map() { return (kPieces + 1) * kPoolPieceBytes; }
  Backend& backend_;
  void* map_;
  char* data_;
};

/// Rows `first` to `first` + `rows` of the first columns that fit with the leading dimension `ld`.
View part_of(double* numbers, std::int64_t first, std::int64_t rows, std::int64_t ld) {
  return {
      .data = numbers + first, .rows = rows, .cols = (PinnedPieces::count() - ld) / ld, .ld = ld};
}

/// To the first GPU and back into zeros: true if all of the part came back and nothing else.
bool comes_back(Backend& backend, double* numbers, std::int64_t first, std::int64_t rows,
                std::int64_t ld) {
  constexpr std::int64_t kElement = sizeof(double);
  const View part = part_of(numbers, first, rows, ld);
  for (std::int64_t i = 0; i < PinnedPieces::count(); ++i) numbers[i] = static_cast<double>(i);
  const std::int64_t bytes = part.rows * part.cols * kElement;
  const View there{.data = backend.allocate(kFirstDevice, bytes),
                   .rows = part.rows,
                   .cols = part.cols,
                   .ld = part.rows};
  backend.transfer(kFirstDevice, there, kHost, part, kElement);
  std::memset(numbers, 0, static_cast<std::size_t>(PinnedPieces::count() * kElement));
  backend.transfer(kHost, part, kFirstDevice, there, kElement);
  backend.release(kFirstDevice, there.data);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < PinnedPieces::count(); ++i) {
    const std::int64_t row = i % ld - first;
    const bool is_of_it = row >= 0 && row < rows && i / ld < part.cols;
    wrong += numbers[i] == (is_of_it ? static_cast<double>(i) : 0.0) ? 0 : 1;
  }
  return wrong == 0;
}

TEST(PinnedPieces, AreCopiedOverTheirBorders) {
  const auto backend = test::gpus();
  const PinnedPieces pieces(*backend);
  EXPECT_EQ(backend->locate(pieces.numbers(), kPieces * kPiece), kHost);

  // Borders between columns, in them, and in the gaps; columns without gaps.
  EXPECT_TRUE(comes_back(*backend, pieces.numbers(), 0, 4096, 16384));
  EXPECT_TRUE(comes_back(*backend, pieces.numbers(), 3, 9000, 9999));
  EXPECT_TRUE(comes_back(*backend, pieces.numbers(), 7, 100, 10007));
  EXPECT_TRUE(comes_back(*backend, pieces.numbers(), 0, 10007, 10007));
}

}  // namespace
}  // namespace fleet
