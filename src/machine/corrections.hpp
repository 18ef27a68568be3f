// SPDX-License-Identifier: BSD-3-Clause
// corrections.hpp: a machine with some of its rates changed by what runs have shown. Pure; it knows
// no run.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace fleet {

/// A rate of a machine that runs can show to be wrong.
struct RateId {
  enum class Kind {
    products,  ///< of `type` on device `index`, at all edges
    beside,    ///< of the host beside devices: Device::beside
    streams,   ///< kernels that stream through the memory of device `index`
    link,      ///< the rate of link `index`
    port,      ///< the capacity of port `index`
  };
  Kind kind = Kind::products;
  int index = 0;
  DataType type = DataType::f64;  ///< products only
  friend bool operator==(const RateId&, const RateId&) = default;
};

/// A rate is `factor` times what the machine says: 0.8 of a device that is slower.
struct Correction {
  RateId rate;
  double factor = 1;
  friend bool operator==(const Correction&, const Correction&) = default;
};

/// No rate moves further than this from its measurement, in either direction. What other processes
/// leave of a device is rarely less than a quarter; a rate that is off by more was measured on
/// another machine, or the run was stopped by a debugger or a swap.
inline constexpr double kMostCorrection = 4;
/// Differences below this are noise: they change no machine, no plan and no file.
inline constexpr double kNoise = 1.05;
/// A prediction, or a rate, that is off by more than this is contradicted.
inline constexpr double kFarOff = 1.25;

/// How far a factor is from 1, in either direction: 2 for 0.5 and for 2.
inline double distance(double factor) { return factor < 1 ? 1 / factor : factor; }

/// The machine with these corrections on top of those that it has. Each rate stays within
/// kMostCorrection of its measurement. The result is a machine like any other: written and read
/// back, it gives the same plans.
Machine corrected(Machine machine, std::span<const Correction> corrections);

/// The machine as it was measured.
Machine uncorrected(Machine machine);

/// Each rate as it was measured, or as runs have shown it where that is faster. Bounds are of this
/// machine: what slows a device down for a while does not change what it can do.
Machine at_best(Machine machine);

/// A rate has changed if its factor differs by more than this from the factor of another rate of
/// its kind, or if the mean factor of the kind is that far from 1. Less may come from what the
/// model leaves out: what rates are left of products beside copies, or of copies beside others,
/// differs by a quarter between plans.
inline constexpr double kChanged = 1.5;

/// The machine that plans are made for: of the corrections only those that hold for every plan.
/// They are the ones of products, of streams and of links with the host, if one of the kind has
/// changed (kChanged), and of what the CPU reaches beside devices. What GPUs get from each other,
/// and what ports give, holds for one pattern of copies: it corrects predictions, and so whether a
/// call goes to devices, but no plan (docs/performance/lessons.md).
Machine for_plans(Machine machine);

/// Gives rates of one kind that are equal, and were found off by about as much (kNoise), the mean
/// of their factors. So devices that are alike stay alike, and are one class for the tuner.
std::vector<Correction> evened(const Machine& machine, std::vector<Correction> corrections);

/// All corrections that the machine has, against its measurement, in the order of devices, links
/// and ports.
std::vector<Correction> corrections_of(const Machine& machine);

/// "products d of device 0", "products of device host beside others", "streams of device 0", "link
/// host->0", "port host memory".
std::string rate_name(const Machine& machine, const RateId& rate);

}  // namespace fleet
