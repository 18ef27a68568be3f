// SPDX-License-Identifier: BSD-3-Clause
// device.cpp: calls of the public headers, and their statuses as failures.
#include "on_device/device.hpp"

#include <cstdint>
#include <sstream>
#include <string>

#include "work/context.hpp"

namespace fleet::lu {
namespace {

std::size_t bytes_of(std::int64_t count) {
  return static_cast<std::size_t>(count) * sizeof(double);
}

/// A context starts its devices when they are first needed.
void start(fleet_context* context) {
  constexpr std::size_t kFew = 256;
  void* data = nullptr;
  check(fleet_alloc(context, FLEET_HOST, kFew, &data));
  check(fleet_free(context, data));
}

Context started(int number) {
  Context context = make_context("offload=always;devices=" + std::to_string(number) + ",");
  start(context.get());
  return context;
}

}  // namespace

std::vector<int> Device::numbers(bool only_a_part) {
  if (option(nullptr, "offload").value == "never") return {};
  Context part;
  // What the user says of devices is meant for all processes.
  if (only_a_part && !option(nullptr, "devices").is_set) part = make_context("devices=split");
  start(part.get());
  std::vector<int> found;
  std::istringstream list(config_value(part.get(), "devices"));
  for (int number = 0; list >> number; list.ignore()) found.push_back(number);
  return found;
}

Device::Device(int number) : number_(number), context_(started(number)), panels_(started(number)) {}

std::optional<Device::Memory> Device::take(int location, std::int64_t count) const {
  if (count > INT64_MAX / static_cast<std::int64_t>(sizeof(double))) return {};
  void* data = nullptr;
  const fleet_status status = fleet_alloc(context_.get(), location, bytes_of(count), &data);
  if (status == FLEET_NO_MEMORY) return {};
  check(status);
  return Memory(context_.get(), data);
}

std::optional<Device::Memory> Device::take(std::int64_t count) const {
  return take(number_, count);
}

std::optional<Device::Memory> Device::take_on_host(std::int64_t count) const {
  return take(FLEET_HOST, count);
}

void Device::copy(double* to, const double* from, std::int64_t count) const {
  check(fleet_copy(context_.get(), to, from, bytes_of(count)));
}

void Device::copy_panel(double* to, const double* from, std::int64_t count) const {
  check(fleet_copy(panels_.get(), to, from, bytes_of(count)));
}

void Device::fetch(double* to, const double* from, std::int64_t count) const {
  // The default context has all devices.
  check(fleet_copy(nullptr, to, from, bytes_of(count)));
}

std::int64_t Device::panel_size(std::int64_t rows, std::int64_t cols) {
  std::int64_t bytes = 0;
  check(fleet_getrf_panel_bytes(FLEET_F64, rows, cols, &bytes));
  return bytes / static_cast<std::int64_t>(sizeof(double));
}

void Device::factor(const Part& columns, double* panel) const {
  check(fleet_dgetrf_panel(panels_.get(), columns.rows, columns.cols, columns.data, columns.ld,
                           panel));
}

std::int64_t Device::pivots(std::int64_t rows, std::int64_t cols, const double* panel,
                            std::int64_t* pivots) const {
  std::int64_t info = 0;
  check(fleet_dgetrf_pivots(panels_.get(), rows, cols, panel, pivots, &info));
  return info;
}

void Device::apply(const double* panel, std::int64_t width, const Part& columns) const {
  check(fleet_dgetrf_apply(context_.get(), columns.rows, width, panel, columns.cols, columns.data,
                           columns.ld));
}

void Device::fetch_part(const Part& from, double* to, std::int64_t ld) const {
  check(fleet_dlacpy(panels_.get(), from.rows, from.cols, from.data, from.ld, to, legal(ld)));
}

void Device::put_part(const double* from, std::int64_t ld, const Part& to) const {
  check(fleet_dlacpy(panels_.get(), to.rows, to.cols, from, legal(ld), to.data, to.ld));
}

void Device::pack_rows(const Rows& rows, const Part& from, double* packed, double* to) const {
  if (rows.count == 0) return;
  check(fleet_dpack_rows(panels_.get(), rows.count, rows.numbers, from.rows, from.cols, from.data,
                         from.ld, packed, from.cols));
  copy_panel(to, packed, rows.count * from.cols);
}

void Device::unpack_rows(const Rows& rows, const double* from, double* packed,
                         const Part& to) const {
  if (rows.count == 0) return;
  copy(packed, from, rows.count * to.cols);
  check(fleet_dunpack_rows(context_.get(), rows.count, rows.numbers, to.rows, to.cols, to.data,
                           to.ld, packed, to.cols));
}

void Device::copy_numbers(std::int64_t* to, const std::vector<std::int64_t>& from) const {
  check(fleet_copy(panels_.get(), to, from.data(), from.size() * sizeof(std::int64_t)));
}

void Device::update(const Part& panel, const Part& upper, const Part& below) const {
  check(fleet_dgetrf_update(context_.get(), panel.rows, panel.cols, panel.data, panel.ld,
                            upper.cols, upper.data, upper.ld, below.data, below.ld));
}

void Device::multiply(const Product& product, const Part& c) const {
  const auto& [alpha, left, right, depth, beta] = product;
  check(fleet_dgemm(context_.get(), left.op, right.op, c.rows, c.cols, depth, alpha, left.data,
                    left.ld, right.data, right.ld, beta, c.data, c.ld));
}

void Device::solve_upper(const Part& square, double* x) const {
  check(fleet_dtrsm(context_.get(), FLEET_LEFT, FLEET_UPPER, FLEET_NO_TRANS, FLEET_NON_UNIT,
                    square.rows, 1, 1, square.data, square.ld, x, square.rows));
}

void Device::subtract_product(const Part& a, const double* x, double* y) const {
  if (a.rows == 0) return;
  check(
      fleet_dgemv(context_.get(), FLEET_NO_TRANS, a.rows, a.cols, -1, a.data, a.ld, x, 1, 1, y, 1));
}

}  // namespace fleet::lu
