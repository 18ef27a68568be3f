// SPDX-License-Identifier: BSD-3-Clause
// same_matrix.cpp: whether files that hpl_matrix.c kept have Linpack's matrix and right side bit
// for bit. It starts no ranks.
//
// usage: same_matrix N NB P Q PREFIX   (PREFIX.0, PREFIX.1, ...: ranks along the rows of the grid)
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "dist/fill.hpp"

namespace {

using fleet::lu::Share;

template <class T>
bool read(std::ifstream& file, T* to, std::int64_t count) {
  const auto bytes = static_cast<std::streamsize>(count * static_cast<std::int64_t>(sizeof(T)));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(to), bytes));
}

/// Whether the file has what `share` has; the first difference is printed.
bool same(const std::string& path, const Share& share) {
  const std::int64_t rows = share.rows.local_size(share.row),
                     cols = share.cols.local_size(share.col);
  std::ifstream file(path, std::ios::binary);
  std::int64_t size[2] = {};
  if (!read(file, size, 2) || size[0] != rows || size[1] != cols) {
    std::printf("%s: %lld x %lld instead of %lld x %lld\n", path.c_str(),
                static_cast<long long>(size[0]), static_cast<long long>(size[1]),
                static_cast<long long>(rows), static_cast<long long>(cols));
    return false;
  }

  const auto elements = static_cast<std::size_t>(rows * cols);
  std::vector<double> theirs(elements), ours(elements);
  if (!read(file, theirs.data(), rows * cols)) {
    std::printf("%s: too short\n", path.c_str());
    return false;
  }
  fill(share, 0, cols, ours.data(), rows);

  for (std::size_t i = 0; i < elements; ++i) {
    if (std::memcmp(&theirs[i], &ours[i], sizeof(double)) == 0) continue;
    std::printf("%s: local element %zu is %a instead of %a\n", path.c_str(), i, theirs[i], ours[i]);
    return false;
  }
  return true;
}

}  // namespace

int main(int count, char** words) {
  if (count != 6) return 2;
  const std::int64_t n = std::atoll(words[1]), nb = std::atoll(words[2]);
  const int grid_rows = std::atoi(words[3]), grid_cols = std::atoi(words[4]);
  bool all = true;
  for (int rank = 0; rank < grid_rows * grid_cols; ++rank) {
    const Share share{
        {n, nb, grid_rows}, rank / grid_cols, {n + 1, nb, grid_cols}, rank % grid_cols};
    all = same(words[5] + ("." + std::to_string(rank)), share) && all;
  }
  return all ? 0 : 1;
}
