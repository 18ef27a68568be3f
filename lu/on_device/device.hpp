// SPDX-License-Identifier: BSD-3-Clause
// device.hpp: one device of the library, memory on it, and the steps of LU there. It knows no
// ranks.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "fleetblas/lapack.h"
#include "work/context.hpp"

namespace fleet::lu {

/// Where a rank computes that keeps its matrix off the host. All calls wait until they are done.
/// All throw Failure.
class Device {
 public:
  /// Numbers of those that the library may use here, or of this process's part of those of its
  /// node; empty where it computes on the CPU alone. Starts them.
  static std::vector<int> numbers(bool only_a_part = false);
  explicit Device(int number);
  int number() const { return number_; }
  /// Memory of the host, from now on.
  Pinned pin(const std::vector<Pinned::Memory>& memory) const { return {context_.get(), memory}; }

  /// Memory of a context of the library; empty at first.
  class Memory {
   public:
    Memory() : Memory(nullptr, nullptr) {}
    Memory(fleet_context* context, void* data) : data_(data, Free{context}) {}
    double* data() const { return static_cast<double*>(data_.get()); }

   private:
    struct Free {
      fleet_context* context;
      void operator()(void* data) const { fleet_free(context, data); }
    };
    std::unique_ptr<void, Free> data_;
  };
  /// So many numbers on the device, or nothing: there is too little.
  std::optional<Memory> take(std::int64_t count) const;
  /// The same on the host, for copies to and from the device.
  std::optional<Memory> take_on_host(std::int64_t count) const;
  /// Between any memory of the host and the device.
  void copy(double* to, const double* from, std::int64_t count) const;
  /// The same of a panel, while another thread has the device do something else.
  void copy_panel(double* to, const double* from, std::int64_t count) const;
  /// From any device of the process.
  void fetch(double* to, const double* from, std::int64_t count) const;

  /// Rows or leading dimensions, rounded up so that columns begin where the device reads best.
  static constexpr std::int64_t aligned(std::int64_t rows) { return (rows + 31) / 32 * 32; }

  struct Part {
    double* data;
    std::int64_t rows, cols, ld;
  };
  /// Numbers that the panel of so many rows and columns takes.
  static std::int64_t panel_size(std::int64_t rows, std::int64_t cols);
  /// As getrf, in the place of `columns`, and its panel. May be called while another thread has the
  /// device do something else, which it goes before.
  void factor(const Part& columns, double* panel) const;
  /// 1-based, within the panel; returns getrf's info.
  std::int64_t pivots(std::int64_t rows, std::int64_t cols, const double* panel,
                      std::int64_t* pivots) const;
  /// A part, to and from the host; as copy_panel.
  void fetch_part(const Part& from, double* to, std::int64_t ld) const;
  void put_part(const double* from, std::int64_t ld, const Part& to) const;

  /// Rows of a part by their numbers, from 1 on, which are on the device too. There are so many.
  struct Rows {
    const std::int64_t* numbers;
    std::int64_t count;
  };
  /// The rows, one after another, to the host by way of `packed` on the device; as copy_panel.
  void pack_rows(const Rows& rows, const Part& from, double* packed, double* to) const;
  /// The same from the host; goes with the updates.
  void unpack_rows(const Rows& rows, const double* from, double* packed, const Part& to) const;
  /// Numbers of rows; as copy_panel.
  void copy_numbers(std::int64_t* to, const std::vector<std::int64_t>& from) const;
  /// What a panel does to columns whose rows have been exchanged: those of U, and those below.
  void update(const Part& panel, const Part& upper, const Part& below) const;
  /// What a panel of so many columns does to those beside it.
  void apply(const double* panel, std::int64_t width, const Part& columns) const;
  /// A matrix as a factor of a product.
  struct Factor {
    fleet_op op;
    const double* data;
    std::int64_t ld;
  };
  struct Product {
    double alpha;
    Factor left, right;
    std::int64_t depth;  ///< what is summed over
    double beta;
  };
  /// c := alpha*left*right + beta*c; goes with the updates.
  void multiply(const Product& product, const Part& c) const;
  /// x = U^-1 x, with the upper triangle of a square.
  void solve_upper(const Part& square, double* x) const;
  /// y -= a*x.
  void subtract_product(const Part& a, const double* x, double* y) const;

 private:
  std::optional<Memory> take(int location, std::int64_t count) const;

  const int number_;
  const Context context_;
  const Context panels_;  ///< of the same device: calls of one context take turns
};

}  // namespace fleet::lu
