// SPDX-License-Identifier: BSD-3-Clause
// equations.cpp: Linpack's factorization on a copy of A, which leaves rows of L where their panel
// had them: on their way back to A they take the places that later pivots give them.
#include "routines/equations.hpp"

#include <optional>

#include "on_device/equations.hpp"
#include "routines/row_order.hpp"
#include "routines/solution.hpp"

namespace fleet::lu {

/// Where a rank's part of A is factored, with a right side that is zero: there is none.
class Place {
 public:
  virtual ~Place() = default;
  virtual void fill(const Dealt& a, std::int64_t rows, std::int64_t cols) = 0;
  virtual Factored factor() = 0;
  /// Of the local columns from one on, on the host until the next ones.
  virtual LocalColumns<const double> columns(std::int64_t first, std::int64_t count) = 0;
  /// After a failure: its memory stays for messages under way, and nothing else uses it.
  virtual void give_up() {}
};

namespace {

class OnHost final : public Place {
 public:
  OnHost(const Grid& grid, const Dealt& a, const Rank& rank, Overlap overlap)
      : grid_(grid),
        rank_(rank),
        overlap_(overlap),
        system_(grid, a.rows.size(), a.rows.blocks.nb) {
    workspace_.touch(grid, system_, overlap);
  }
  void fill(const Dealt& a, std::int64_t rows, std::int64_t cols) override {
    for (std::int64_t c = 0; c < cols; ++c) std::copy_n(a.at(0, c), rows, system_.at(0, c));
    for (std::int64_t c = cols; c < system_.local_cols; ++c)
      std::fill_n(system_.at(0, c), rows, 0.0);
  }
  Factored factor() override {
    return lu::factor(grid_, system_, workspace_, rank_, {.overlap = overlap_});
  }
  LocalColumns<const double> columns(std::int64_t first, std::int64_t count) override {
    return {system_.at(0, first), system_.ld, count};
  }

 private:
  const Grid& grid_;
  const Rank& rank_;
  const Overlap overlap_;
  System system_;
  Workspace workspace_;
};

class OnDevice final : public Place {
 public:
  /// Nothing on all ranks alike where one has no device, or no room.
  static std::unique_ptr<OnDevice> make(const Grid& grid, const Dealt& a, const Rank& rank,
                                        Overlap overlap, OwnDevice& own) {
    std::unique_ptr<OnDevice> made;
    // Why one of them leaves it to the cores.
    const std::string elsewhere = "another rank has no device with room";
    const auto works = [&](const std::function<void()>& take) {
      const std::string why = grid.all.try_on_all(take, elsewhere);
      if (!why.empty()) own.say_why_not(why);
      return why.empty();
    };
    if (!works([&] {
          const Device* const device = own.start();
          if (device == nullptr) throw Failure("there is no device");
          made.reset(new OnDevice(grid, a, rank, overlap, *device));
          if (!made->equations_.take_memory() || !made->equations_.has_room_for_panels())
            throw Failure("the device has no room for the rank's part of the matrix");
        }))
      return nullptr;
    std::unique_ptr<DeviceRow> between;
    if (made->equations_.sends_panels_between_processes())
      between = own.row(a.cols.first, made->equations_.place());
    if (!works([&] { made->take_host_memory(between.get()); })) return nullptr;
    made->equations_.connect(rank, std::move(between));
    return made;
  }

  void fill(const Dealt& a, std::int64_t rows, std::int64_t cols) override {
    const DeviceSystem& system = equations_.system();
    if (rows == 0) return;
    if (cols > 0) device_.put_part(a.at(0, 0), a.ld, system.part(0, 0, rows, cols));
    const std::vector<double> zeros(static_cast<std::size_t>(rows));
    for (std::int64_t c = cols; c < system.local_cols; ++c)
      device_.copy(system.part(0, c, rows, 1).data, zeros.data(), rows);
  }
  Factored factor() override { return equations_.factor(rank_, Kept::both); }
  LocalColumns<const double> columns(std::int64_t first, std::int64_t count) override {
    const std::int64_t rows = equations_.system().local_rows;
    if (rows > 0)
      device_.fetch_part(equations_.system().part(0, first, rows, count), way_.data(), rows);
    return {way_.data(), rows, count};
  }
  void give_up() override { equations_.withdraw(); }

 private:
  OnDevice(const Grid& grid, const Dealt& a, const Rank& rank, Overlap overlap,
           const Device& device)
      : grid_(grid),
        rank_(rank),
        device_(device),
        equations_(grid, a.rows.size(), a.rows.blocks.nb, device, overlap) {}

  /// Throws where there is too little.
  void take_host_memory(const DeviceRow* between) {
    if (between == nullptr && equations_.sends_panels_between_processes() &&
        equations_.place().count > grid_.all.longest_message())
      throw Failure("panels are longer than a message may be");
    equations_.take_host_memory(between);
    const DeviceSystem& system = equations_.system();
    auto way = device_.take_on_host(
        std::max<std::int64_t>(1, system.local_rows * std::min(system.cols.nb, system.local_cols)));
    if (!way) throw Failure("the host has no memory for columns on their way from a device");
    way_ = std::move(*way);
  }

  const Grid& grid_;
  const Rank& rank_;
  const Device& device_;
  DeviceEquations equations_;
  Device::Memory way_;  ///< of a block of columns on its way back
};

/// For so many multiply-adds of a rank its part goes to the device and comes back, and with blocks
/// panels go there and rows that pivots move go both ways: by the sizes of the whole, so that all
/// ranks decide alike.
bool is_worth_devices(const Grid& grid, const Dealt& a, const OwnDevice& own) {
  const auto n = static_cast<double>(a.rows.size());
  const double share = 1.0 / (static_cast<double>(grid.rows) * grid.cols);
  double numbers = share * 2 * n * n;
  if (grid.rows > 1) numbers += n * n / (2.0 * grid.rows) + n * n / grid.cols;
  return own.is_worth(share * n * n * n / 3, numbers);
}

}  // namespace

struct Equations::Copy {
  /// The same ranks, with the first block of A on the first one: Linpack's matrices begin there.
  struct TurnedGrid {
    TurnedGrid(const Grid& grid, const Dealt& a) {
      if (a.rows.first == 0 && a.cols.first == 0) return;
      const int row = (grid.row - a.rows.first + grid.rows) % grid.rows;
      const int col = (grid.col - a.cols.first + grid.cols) % grid.cols;
      ranks = grid.all.split(0, row * grid.cols + col);
      turned.emplace(*ranks, grid.rows, grid.cols);
    }
    const Grid& or_else(const Grid& grid) const { return turned ? *turned : grid; }

    std::unique_ptr<Comm> ranks;
    std::optional<Grid> turned;
  };

  Copy(const Grid& grid, const Dealt& a, const Rank& rank, Overlap overlap, OwnDevice* own)
      : turned(grid, a) {
    const Grid& on = turned.or_else(grid);
    if (own != nullptr && is_worth_devices(grid, a, *own))
      place = OnDevice::make(on, a, rank, overlap, *own);
    is_on_devices = place != nullptr;
    if (!is_on_devices) place = std::make_unique<OnHost>(on, a, rank, overlap);
  }
  TurnedGrid turned;
  std::unique_ptr<Place> place;
  bool is_on_devices = false;
};

Equations::Equations(const Grid& grid, const Dealt& a, const Rank& rank, Overlap overlap,
                     OwnDevice* own)
    : grid_(grid), a_(a), rank_(rank), own_(own) {
  if (a.rows.size() > 0) copy_ = std::make_unique<Copy>(grid, a, rank, overlap, own);
}

Equations::~Equations() = default;

bool Equations::is_on_devices() const { return copy_ != nullptr && copy_->is_on_devices; }

Factored Equations::factor() {
  const Grid& grid = grid_;
  const Dealt& a = a_;
  const std::int64_t n = a.rows.size(), nb = a.rows.blocks.nb;
  if (n == 0) return {};
  Place& place = *copy_->place;
  const std::int64_t rows = a.rows.local_size(grid.row), cols = a.cols.local_size(grid.col);
  Factored result;
  try {
    place.fill(a, rows, cols);
    result = place.factor();
  } catch (...) {
    copy_->place->give_up();
    if (own_ != nullptr) own_->drop_row();
    keep_for_ever(std::shared_ptr<Copy>(std::move(copy_)));
    throw;
  }
  for (std::int64_t block = 0; block < a.cols.blocks.count(); ++block) {
    const std::int64_t begin = block * nb, end = std::min(n, begin + nb);
    if (a.cols.owner(begin) != grid.col) continue;
    const std::int64_t local = a.cols.local(begin), above = a.rows.local_begin(end, grid.row);
    const LocalColumns<const double> from = place.columns(local, end - begin);
    for (std::int64_t c = 0; c < from.count; ++c)
      std::copy_n(from.elements + c * from.ld, above, a.at(0, local + c));
    const Range below{end, n};
    take_rows(grid, rank_, a.rows, below, sources_of(result.pivots, below, n), from,
              {a.at(0, local), a.ld, end - begin}, block);
  }
  copy_.reset();
  return result;
}

void solve_equations(const Grid& grid, const ConstDealt& a, std::span<const std::int64_t> pivots,
                     const Dealt& b, const Rank& rank, Overlap overlap) {
  const std::int64_t n = b.rows.size(), cols = b.cols.local_size(grid.col);
  take_rows(grid, rank, b.rows, {0, n}, sources_of(pivots, {0, n}, n), {b.elements, b.ld, cols},
            {b.elements, b.ld, cols}, 0);
  solve(grid, {FLEET_LEFT, FLEET_LOWER, FLEET_NO_TRANS, FLEET_UNIT, 1, a, b}, rank, overlap);
  solve(grid, {FLEET_LEFT, FLEET_UPPER, FLEET_NO_TRANS, FLEET_NON_UNIT, 1, a, b}, rank, overlap);
}

std::int64_t most_numbers_of_equations(const Grid& grid, const Dealt& a) {
  // Of a panel and its pivots, and of its rows in all columns; the right side's column is one more.
  const std::int64_t width = std::min(a.rows.blocks.nb, a.rows.size());
  return 1 +
         width * (width + 2 + std::max(a.rows.local_size(grid.row), a.cols.local_size(grid.col)));
}

}  // namespace fleet::lu
