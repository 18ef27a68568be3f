// SPDX-License-Identifier: BSD-3-Clause
// held_factors.cpp: strips in memory that outlives their plan, and the kernels that solve with
// them.
#include "core/held_factors.hpp"

#include <algorithm>
#include <cstring>

#include "base/sizes.hpp"
#include "core/slot_copies.hpp"

namespace fleet {
namespace {

/// From one right side for so many rows of the matrix on, all devices solve at a time.
constexpr std::int64_t kRowsPerRightSide = 64;

/// A column as kernels for vectors take it.
View as_vector(const View& column) {
  return {.data = column.data, .rows = 1, .cols = column.rows, .ld = 1};
}

}  // namespace

Launch product_of(Storage storage, double alpha, Op op, const View& a, const View& b, double beta,
                  const View& c) {
  Launch launch{.type = {.storage = storage}, .op_a = op, .alpha = alpha, .beta = beta, .a = a};
  const bool is_vector = c.cols == 1;
  launch.kernel = is_vector ? Kernel::gemv : Kernel::multiply;
  launch.b = is_vector ? as_vector(b) : b;
  launch.c = is_vector ? as_vector(c) : c;
  return launch;
}

HeldFactors::HeldFactors(On on, const char* symbol, std::int64_t columns,
                         std::shared_ptr<const PlannedFactors> planned)
    : on_(on),
      symbol_(symbol),
      planned_(std::move(planned)),
      all_(*plan().program->strips),
      storage_(all_.what.storage),
      n_(all_.what.n),
      columns_(columns),
      by_columns_(deals_columns()),
      memory_(on.offloader, on.memory) {
  take_memory();
}

/// Only if every strip would begin at an aligned address in one n x n matrix. Devices that refine
/// have the matrix in double precision beside their strips, and seldom room for all of these.
bool HeldFactors::deals_columns() const {
  if (!all_.what.kept) return false;
  if (columns_ <= std::max<std::int64_t>(1, n_ / kRowsPerRightSide)) return false;
  for (int j = 0; j + 1 < all_.count(); ++j)
    if (n_ * all_.width_of(j) * bytes_of(storage_) % kAlignmentBytes != 0) return false;
  return true;
}

/// All columns to each device, unless they are dealt.
std::vector<std::int64_t> HeldFactors::columns_of_shares() const {
  const auto shares = static_cast<std::int64_t>(devices_.size());
  std::vector<std::int64_t> columns(devices_.size(), columns_);
  if (by_columns_)
    for (std::int64_t s = 0; s < shares; ++s)
      columns[static_cast<std::size_t>(s)] = columns_ * (s + 1) / shares - columns_ * s / shares;
  return columns;
}

/// Where the plan leaves it.
DeviceId HeldFactors::place_of(int strip) const {
  return all_.what.kept ? plan().kept[index(strip)].where.device : all_.home_of(strip);
}

/// The strips of a device share one piece, in which each begins where a slot may.
void HeldFactors::take_memory() {
  const std::int64_t element = bytes_of(storage_);
  const std::int64_t aligned = kAlignmentBytes / element;
  std::vector<std::int64_t> elements;  ///< by device, so far
  for (int j = 0; j < all_.count(); ++j) {
    const auto found = std::ranges::find(devices_, place_of(j));
    const auto share = static_cast<std::size_t>(found - devices_.begin());
    if (found == devices_.end()) {
      devices_.push_back(place_of(j));
      elements.push_back(0);
    }
    strips_.push_back({.share = share, .begin = all_.begin_of(j), .width = all_.width_of(j)});
    elements[share] += round_up(n_ * all_.width_of(j), aligned);
  }
  const std::vector<std::int64_t> columns = columns_of_shares();
  for (std::size_t s = 0; s < devices_.size(); ++s) {
    const DeviceId device = devices_[s];
    if (by_columns_) elements[s] = n_ * n_;
    char* next = static_cast<char*>(memory_.take(device, storage_, elements[s], 1).data);
    right_.push_back(memory_.take(device, storage_, n_, columns[s]));
    if (by_columns_) whole_.push_back({.data = next, .rows = n_, .cols = n_, .ld = n_});
    for (Strip& strip : strips_) {
      if (strip.share != s) continue;
      if (by_columns_) {
        strip.elements = part(whole_[s], storage_, 0, strip.begin, n_, strip.width);
        continue;
      }
      strip.elements = {.data = next, .rows = n_, .cols = strip.width, .ld = n_};
      next += round_up(n_ * strip.width, aligned) * element;
      take_inverses(strip);
    }
  }
}

void HeldFactors::take_inverses(Strip& strip) {
  const DeviceId device = device_of(strip);
  if (on_.offloader.model()->devices[index(device)].inverse_order == 0 || columns_ == 0) return;
  const std::int64_t edge = inverse_block(storage_);
  for (View* inverses : {&strip.lower_inverses, &strip.upper_inverses})
    *inverses = memory_.take(device, storage_, edge, round_up(strip.width, edge));
}

bool HeldFactors::factor(Offloader::Factored factored, CallRecord& record) {
  if (all_.what.kept) {
    for (const auto& slots : plan().slots) factored.slots.emplace_back(slots.size(), nullptr);
    for (std::size_t j = 0; j < strips_.size(); ++j) {
      const Where& where = plan().kept[j].where;
      factored.slots[index(where.device)][index(where.slot)] = strips_[j].elements.data;
    }
  } else {
    for (const Strip& strip : strips_)
      factored.strips.push_back({.data = strip.elements.data, .ld = strip.elements.ld});
  }
  const auto outcome =
      on_.offloader.run(all_.what, factored, planned_, record, on_.journal, on_.log);
  if (outcome == Offloader::Outcome::not_possible) return false;
  info_ = factored.info;
  if (info_ == 0 && columns_ > 0) by_columns_ ? collect() : prepare();
  return true;
}

/// All strips to all devices.
void HeldFactors::collect() {
  std::vector<SlotCopy> coming;
  for (std::size_t s = 0; s < devices_.size(); ++s)
    for (const Strip& strip : strips_)
      if (strip.share != s)
        coming.push_back({device_of(strip), block_of(strip.elements, storage_), devices_[s],
                          part(whole_[s], storage_, 0, strip.begin, n_, strip.width).data});
  if (!coming.empty() && !copy_into_slots(on_.offloader, coming, on_.journal, on_.log))
    throw Error(Status::device_failed, "the factors did not reach all devices");
}

void HeldFactors::prepare() {
  Launches launches;
  for (const Strip& strip : strips_)
    for (const Fill triangle : {Fill::lower, Fill::upper}) {
      const Launch solving = solution(strip, triangle, Op::none);
      if (solving.b.data == nullptr) continue;
      launches.push_back({device_of(strip),
                          {.kernel = Kernel::prepare,
                           .type = solving.type,
                           .a = solving.a,
                           .c = solving.b,
                           .triangular = true,
                           .diag = solving.diag}});
    }
  if (!launches.empty()) backend().compute(launches);
}

View HeldFactors::right_of(const Strip& strip, std::int64_t row, std::int64_t rows) const {
  return part(right_[strip.share], storage_, row, 0, rows, columns_);
}

/// Of the strip's own rows.
Launch HeldFactors::solution(const Strip& strip, Fill triangle, Op op) const {
  const bool is_lower = triangle == Fill::lower;
  return {.kernel = Kernel::solve,
          .type = {.storage = storage_},
          .op_a = op,
          .beta = 1.0,
          .a = part(strip.elements, storage_, strip.begin, 0, strip.width, strip.width, triangle),
          .b = is_lower ? strip.lower_inverses : strip.upper_inverses,
          .c = right_of(strip, strip.begin, strip.width),
          .triangular = true,
          .diag = is_lower ? Diag::unit : Diag::non_unit,
          .side = Side::left};
}

/// Takes the strip's unknowns out of other rows or, turned round, those of other rows out of the
/// strip's equations.
void HeldFactors::eliminate(Launches& launches, const Strip& strip, Op op, std::int64_t row,
                            std::int64_t rows) const {
  if (rows == 0) return;
  const View factor = part(strip.elements, storage_, row, 0, rows, strip.width);
  const View own = right_of(strip, strip.begin, strip.width), other = right_of(strip, row, rows);
  const View &known = op == Op::none ? own : other, &unknown = op == Op::none ? other : own;
  launches.push_back({device_of(strip), product_of(storage_, -1, op, factor, known, 1, unknown)});
}

/// Solves with one triangle. The right sides go from strip to strip, `at` being the share that has
/// them; those on the host are older but for devices_.size().
void HeldFactors::sweep(const View& right, Fill triangle, Op op, std::size_t& at) {
  const std::int64_t bytes = bytes_of(storage_);
  const bool is_lower = triangle == Fill::lower, goes_down = is_lower == (op == Op::none);
  Launches launches;
  for (std::size_t i = 0; i < strips_.size(); ++i) {
    const Strip& strip = strips_[goes_down ? i : strips_.size() - 1 - i];
    if (strip.share != at) {
      if (!launches.empty()) backend().compute(launches);
      launches.clear();
      const bool from_host = at == devices_.size();
      backend().transfer(device_of(strip), right_[strip.share],
                         from_host ? DeviceId{kHost} : devices_[at], from_host ? right : right_[at],
                         bytes);
      at = strip.share;
    }
    const std::int64_t end = strip.begin + strip.width;
    const auto others = [&] {
      is_lower ? eliminate(launches, strip, op, end, n_ - end)
               : eliminate(launches, strip, op, 0, strip.begin);
    };
    if (op != Op::none) others();
    launches.push_back({device_of(strip), solution(strip, triangle, op)});
    if (op == Op::none) others();
  }
  backend().compute(launches);
}

void HeldFactors::solve(Op op, const View& right) {
  if (columns_ == 0) return;
  by_columns_ ? solve_by_columns(op, right) : solve_by_strips(op, right);
}

void HeldFactors::solve_by_columns(Op op, const View& right) {
  std::vector<SlotCopy> copies;
  Launches launches;
  std::int64_t first = 0;
  for (std::size_t s = 0; s < devices_.size(); ++s) {
    const View& own = right_[s];
    if (own.cols == 0) continue;
    const Block block = block_of(part(right, storage_, 0, first, n_, own.cols), storage_);
    first += own.cols;
    copies.push_back({backend().locate(right.data, block.bytes).value_or(kPageable), block,
                      devices_[s], own.data});
    const bool is_turned = op != Op::none;
    for (const bool is_lower : {!is_turned, is_turned})
      launches.push_back(
          {devices_[s],
           {.kernel = Kernel::solve,
            .type = {.storage = storage_},
            .op_a = op,
            .beta = 1.0,
            .a = part(whole_[s], storage_, 0, 0, n_, n_, is_lower ? Fill::lower : Fill::upper),
            .c = own,
            .triangular = true,
            .diag = is_lower ? Diag::unit : Diag::non_unit,
            .side = Side::left}});
  }
  if (!copy_into_slots(on_.offloader, copies, on_.journal, on_.log))
    throw Error(Status::device_failed, "the right sides did not reach the devices");
  backend().compute(launches);
  if (!copy_from_slots(on_.offloader, copies, on_.journal, on_.log))
    throw Error(Status::device_failed, "the solution did not come back");
}

void HeldFactors::solve_by_strips(Op op, const View& right) {
  std::size_t at = devices_.size();
  const bool is_turned = op != Op::none;
  sweep(right, is_turned ? Fill::upper : Fill::lower, op, at);
  sweep(right, is_turned ? Fill::lower : Fill::upper, op, at);
  backend().transfer(kHost, right, devices_[at], right_[at], bytes_of(storage_));
}

/// By the squares that it is in: links are slow to copy single elements.
void HeldFactors::diagonal(void* to) {
  const auto bytes = static_cast<std::size_t>(bytes_of(storage_));
  std::vector<char> square;
  for (const Strip& strip : strips_) {
    square.resize(static_cast<std::size_t>(strip.width * strip.width) * bytes);
    const View here{
        .data = square.data(), .rows = strip.width, .cols = strip.width, .ld = strip.width};
    backend().transfer(kHost, here, device_of(strip),
                       part(strip.elements, storage_, strip.begin, 0, strip.width, strip.width),
                       bytes_of(storage_));
    for (std::int64_t i = 0; i < strip.width; ++i)
      std::memcpy(static_cast<char*>(to) + static_cast<std::size_t>(strip.begin + i) * bytes,
                  part(here, storage_, i, i, 1, 1).data, bytes);
  }
}

void HeldFactors::note_failure(const Error& error) const {
  on_.log.line(Log::kWarning, {symbol_, ": ", error.what(), "; the host goes on"});
}

}  // namespace fleet
