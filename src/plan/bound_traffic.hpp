// SPDX-License-Identifier: BSD-3-Clause
// bound_traffic.hpp: what must cross ports and cuts whatever the plan, as a function of how much a
// place computes itself. Used by bound only; it knows no plan and no tuning.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "problem/problem.hpp"

namespace fleet {

/// Something with a capacity that links use by the byte and kernels by the second: a port, several
/// ports taken as one, or all links out of (into) a place.
struct Meter {
  std::string name;
  double capacity = 0;
  std::vector<double> per_byte;    ///< index LinkId
  std::vector<double> per_busy_s;  ///< index DeviceId
};

/// One per port of the machine.
std::vector<Meter> port_meters(const Machine& machine);

/// The ports that belong to the kernels of one device each (threads of virtual devices), taken
/// together: what one of them cannot do for another. Empty unless every one of `devices` has one.
std::optional<Meter> pooled_meter(const Machine& machine, const std::vector<DeviceId>& devices);

/// The least of sum cost_i * x_i over fractions x_i <= 1 with product >= s*s (Loomis-Whitney: what
/// has to be seen of the operands for a share s of the products).
class LeastTraffic {
 public:
  LeastTraffic() = default;
  /// `whole_items`: independent products, so that a share may also be whole items of them. `ease`:
  /// the product of the fractions need be (ease * s)^2 only, but all is seen for all of it.
  LeastTraffic(std::array<double, 3> costs, bool whole_items, double ease = 1);
  /// In how many products each element of an operand has a part: in as many as any other, give or
  /// take one in `order`; or in one to all of them, as the rows of a triangle have.
  enum class Use { even, triangle };
  /// What is not seen of an operand leaves its products to the home: of a share s, at least s of
  /// what is used evenly is seen, and 1 - sqrt(1 - s) of what is used as a triangle.
  void note_use(std::array<Use, 3> uses, std::array<double, 3> costs, std::int64_t order);
  double units(double share) const;

 private:
  double of_one_product(double share) const;
  double by_use(double share) const;

  std::array<double, 3> costs_{};  ///< the positive ones, ascending
  int count_ = 0;
  double chord_end_ = 0;  ///< below this share whole items are cheaper
  double chord_ = 0;      ///< units per share there
  double ease_ = 1;
  double even_ = 0, triangle_ = 0;  ///< units of the operands used so
  double slack_ = 0;                ///< one row's part of all
};

/// The time that one meter needs when a place computes a share of the products itself.
struct Term {
  std::string name;
  double capacity = 0;
  double always = 0;       ///< units, whatever the share
  double own_kernels = 0;  ///< units of the place's kernels if it computed everything
  double all_kernels = 0;  ///< units that kernels take at least, whoever computes
  LeastTraffic away;       ///< for what the others compute
  LeastTraffic here;       ///< for what the place itself computes
  /// No share between `low` and `high` takes less; exact where they are the same.
  double least_seconds(double low, double high) const;
};

/// Bytes of a matrix that leave its home, and that come back.
struct Moved {
  DeviceId home = kHost;
  double out = 0, in = 0;
};

/// Makes the terms of the places of one problem, or of several one after another, on one machine.
class TermMaker {
 public:
  /// `workers`: all that compute. All must outlive it.
  TermMaker(std::span<const Problem> problems, const Machine& machine,
            const std::vector<DeviceId>& workers);

  /// What moves of the operands if their home computes nothing: all go out and C comes back.
  std::vector<Moved> all_moved() const;
  /// The host, pinned and pageable, computes nothing.
  std::vector<Term> host_terms(const std::vector<Meter>& meters,
                               std::span<const Moved> moved) const;
  /// Of a place that computes: a device, or the host with its CPU. For one problem.
  std::vector<Term> device_terms(DeviceId device, const std::vector<Meter>& meters) const;

 private:
  struct Place {
    std::string name;
    std::vector<LinkId> out, in;
  };
  Place place_of(DeviceId device) const;
  Meter cut_meter(const Place& place, bool out) const;
  double kernel_units(const Meter& meter) const;
  bool leaves(int operand) const;
  std::vector<Meter> with_cuts(const Place& place, const std::vector<Meter>& meters) const;

  const std::span<const Problem> problems_;
  const Problem& problem_;  ///< the first
  const Machine& machine_;
  const std::vector<DeviceId>& workers_;
  std::array<double, 3> bytes_{};
};

}  // namespace fleet
