// SPDX-License-Identifier: BSD-3-Clause
// host_matrix.cpp: copies of what lies on devices, rows that change places, and threads for that.
// It knows no algorithm.
#include "linalg/host_matrix.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/sizes.hpp"
#include "base/worker_crew.hpp"
#include "cpu/element.hpp"
#include "cpu/lapack.hpp"

namespace fleet::linalg {

Workspace::Workspace(Storage storage, std::int64_t rows, std::int64_t cols) {
  std::int64_t elements = 0, bytes = 0;
  const bool fits = !__builtin_mul_overflow(rows, cols, &elements) &&
                    !__builtin_mul_overflow(elements, bytes_of(storage), &bytes) &&
                    bytes <= PTRDIFF_MAX - kAlignmentBytes;
  if (fits)
    data_.reset(std::aligned_alloc(
        kAlignmentBytes, round_up(std::max<std::size_t>(1, static_cast<std::size_t>(bytes)),
                                  static_cast<std::size_t>(kAlignmentBytes))));
  if (data_ == nullptr) throw Error(Status::no_memory, "the host has no memory for a workspace");
}

void Workspace::Free::operator()(void* data) const { std::free(data); }

HostMatrix::HostMatrix(const Level3& on, const View& home, Access access)
    : on_(on), home_(home), view_(home) {
  if (on.context().bring_to_cpu(home, on.storage(), access)) return;
  copy_ = std::make_unique<Workspace>(on.storage(), home.rows, home.cols);
  view_ = copy_->view(home.rows, home.cols, home.fill);
  if (access != Access::write) on.context().copy(view_, home_, on.storage());
}

void HostMatrix::write_back() {
  if (copy_ != nullptr)
    on_.context().copy(home_, view_, on_.storage());
  else
    on_.context().note_cpu_wrote(home_, on_.storage());
}

void run_in_parallel(const Level3& on, std::int64_t items, std::int64_t bytes,
                     const PartOfWork& work) {
  // Starting a thread takes as long as copying about this.
  constexpr std::int64_t kBytesPerThread = std::int64_t{1} << 20;
  constexpr std::int64_t kMostThreads = 32;
  const std::int64_t threads = std::min(
      {items, kMostThreads, std::int64_t{on.context().cpu_threads()}, bytes / kBytesPerThread + 1});
  const auto begin_of = [&](std::int64_t part) { return items * part / threads; };
  if (threads <= 1) return work(0, items);
  std::vector<int> workers;
  std::optional<WorkerCrew> crew;
  try {
    for (int worker = 0; worker + 1 < threads; ++worker) workers.push_back(worker);
    crew.emplace(static_cast<int>(threads) - 1,
                 [&](int worker) { work(begin_of(worker), begin_of(worker + 1)); });
    if (!crew->hire(workers)) return work(0, items);
  } catch (const std::bad_alloc&) {
    return work(0, items);
  }
  crew->invite(workers);
  work(begin_of(threads - 1), items);
  crew->wait();
}

void exchange_rows(const Level3& on, const View& b, const std::int64_t* pivots, std::int64_t count,
                   Order order) {
  if (b.rows == 0 || b.cols == 0 || count == 0) return;
  HostMatrix on_host(on, b, Access::update);
  exchange_rows_here(on, on_host.view(), pivots, count, order);
  on_host.write_back();
}

void exchange_rows_here(const Level3& on, const View& b, const std::int64_t* pivots,
                        std::int64_t count, Order order) {
  const auto way = order == Order::forward ? lapack::Order::forward : lapack::Order::backward;
  in_parallel(on, b.cols, b.rows * b.cols * bytes_of(on.storage()),
              [&](std::int64_t first, std::int64_t end) {
                lapack::laswp(on.storage(), on.part_of(b, 0, first, b.rows, end - first), pivots,
                              count, way);
              });
}

std::int64_t first_zero(const Level3& on, const View& triangle) {
  // As a matrix of one row, whose columns are one element longer than the triangle's.
  const View diagonal{
      .data = triangle.data, .rows = 1, .cols = triangle.rows, .ld = triangle.ld + 1};
  const HostMatrix on_host(on, diagonal, Access::read);
  std::int64_t found = 0;
  with_wide_element(on.storage(), [&]<typename T>(T) {
    const T* data = static_cast<const T*>(on_host.view().data);
    for (std::int64_t i = 0; i < triangle.rows && found == 0; ++i)
      if (data[i * on_host.view().ld] == T(0)) found = i + 1;
  });
  return found;
}

}  // namespace fleet::linalg
