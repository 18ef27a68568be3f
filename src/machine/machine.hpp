// SPDX-License-Identifier: BSD-3-Clause
// machine.hpp: the devices, links and ports of a node, and their rates. Measured by `probe`, stored
// as JSON, read-only afterwards. It knows no problem and no plan.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "problem/factorization.hpp"

namespace fleet {

using PortId = int;
using LinkId = int;

/// A capacity that several links (or the kernels of several devices) share: a GPU's outgoing or
/// incoming wire, a PCIe switch, host memory, the CPU's cores, the one thread of a virtual device.
/// Capacity is in units per second; the weights of its shares define the unit (bytes for memory and
/// wires, busy seconds for cores and threads).
struct Port {
  std::string name;
  double capacity = 0;
  double measured = 0;  ///< `capacity` before runs corrected it (corrections.hpp); 0: they did not
  friend bool operator==(const Port&, const Port&) = default;
};

/// The demand of one user on a port: units per byte for a link, units per second for kernels.
struct PortShare {
  PortId port = 0;
  double weight = 1;
  friend bool operator==(const PortShare&, const PortShare&) = default;
};

/// Rate of the multiply kernel on cubes of `edge`, with every device busy.
struct KernelRate {
  DataType type = DataType::f64;
  std::int64_t edge = 0;
  double flops_per_s = 0;
  double measured =
      0;  ///< `flops_per_s` before runs corrected it (corrections.hpp); 0: they did not
  friend bool operator==(const KernelRate&, const KernelRate&) = default;
};

/// The order of a device's rates.
inline std::pair<DataType, std::int64_t> type_and_edge(const KernelRate& rate) {
  return {rate.type, rate.edge};
}

/// Power of a device by what it does, in watts. Kernels, copies and exchanges that go on at once
/// each draw what they do beyond waiting. All are known, or none (0).
struct Watts {
  double idle = 0;      ///< takes no part in a call
  double wait = 0;      ///< takes part, and waits for others
  double copy = 0;      ///< copies from or to the host
  double exchange = 0;  ///< copies from or to another device
  double stream = 0;    ///< kernels that stream through memory: levels 1 and 2, adds, scalings
  double multiply = 0;  ///< products and solves
  bool known() const { return multiply > 0; }
  friend bool operator==(const Watts&, const Watts&) = default;
};

/// Columns of a panel that every device factors.
inline constexpr std::int64_t kWidestPanel = 1024;

/// What the panels of a factorization take beyond their multiply-adds at the rate of products: for
/// each column a search, an exchange or a norm, and for each element what streams it. With potrf
/// the elements are those of the square on the diagonal: what is below is a solve.
struct PanelTimes {
  double column_s = 0, element_s = 0;
  /// Columns up to which this holds, and which plans give a panel. More than kWidestPanel only with
  /// potrf, which needs no row exchanges, so that a library may factor squares of any order.
  std::int64_t widest = kWidestPanel;
  friend bool operator==(const PanelTimes&, const PanelTimes&) = default;
};

struct Device {
  std::string name;               ///< "host", "pageable", then "0", "1", ...: as in bytes_by_link
  std::int64_t memory_bytes = 0;  ///< total; plans use at most the cap in Tuning
  int lanes = 8;                  ///< compute queues (paper 1, III-B: 8 streams)
  double launch_s = 0;            ///< from issue to start of a kernel, on top of its arithmetic
  double memory_bytes_per_s = 0;  ///< bounds the add and scale kernels, on the host all; 0: unknown
  std::vector<KernelRate>
      kernels;  ///< sorted by (type, edge); a type without rates cannot be computed
  std::vector<PortShare> ports;  ///< taken while a kernel runs
  /// Elements of C that fill the device. A smaller product leaves processors idle; a second product
  /// beside a filling one costs power and cache and gains nothing (docs/performance/lessons.md: 7
  /// to 17 % on an H200, with tiles of 4096).
  std::int64_t filling_elements = std::int64_t{8} << 20;
  /// Products of other tiles that run beside the solve of a tile, which keeps few processors busy
  /// for long (gains 2 % of a trsm of 16384 on four H200).
  int lanes_beside_solves = 4;
  /// Triangles of at least this order are solved with inverses of their diagonal blocks, which are
  /// prepared once; 0: never.
  std::int64_t inverse_order = 0;
  /// Time of a product with a triangle as a share of the time of a full product of the same size;
  /// it has half as many multiply-adds.
  double triangle_share = 0.5;
  /// Seconds that a solve takes per row of the triangle on top of its multiply-adds, however narrow
  /// C is: its steps are sequential. Other kernels have the device meanwhile.
  double solve_row_s = 0;
  /// The same where a triangle is solved with as it is, without inverses; 0: as with them.
  double plain_row_s = 0;
  /// Seconds that a solve takes per element of C on top of its multiply-adds: its products have few
  /// rows and are slower than full ones. It keeps the device busy.
  double solve_element_s = 0;
  /// Seconds to invert the diagonal blocks of a triangle, which are all inverted concurrently.
  double prepare_s = 0;
  std::array<PanelTimes, kFactorings> panels{};  ///< by Factoring
  Watts watts;
  double memory_measured = 0;  ///< `memory_bytes_per_s` before runs corrected it; 0: they did not
  /// Of the host only: of its rates, on the cores that copies leave (Tuning::cpu_part), what its
  /// products reach beside devices. 1 until runs correct it.
  double beside = 1;
  /// Its kernels can use host memory in place, over its links with the host (GH200, GB200).
  bool shares_host = false;
  /// The part of the rate of copies at which they do. The default is the least that products on an
  /// H200 reached over PCI Express (docs/performance/lessons.md).
  double in_place_share = 0.5;
  friend bool operator==(const Device&, const Device&) = default;
};

/// The columns of a matrix that a copy moves, as a link sees them.
struct Cargo {
  std::int64_t bytes = 0;
  std::int64_t columns = 1;
  /// Length of a column if the columns are strided at `home`, where the matrix lies; 0: they are
  /// contiguous there, as they are in every other place.
  std::int64_t column_bytes = 0;
  /// From the beginning of a column to that of the next one at home, where they are strided, as if
  /// the matrix were not a part of a larger one: programs know no leading dimensions.
  std::int64_t apart_bytes = 0;
  int copies = 1;  ///< that it takes, each with the link's latency in simulations
  DeviceId home = kHost;
};

/// The share of a link's rate that strided columns reach while products keep its ends busy. It
/// looks as if a GPU had to find each 64 KiB of host memory anew, so columns are fast where several
/// begin in one of these.
struct ColumnRate {
  std::int64_t bytes = 0;  ///< of a column
  double share = 1;        ///< of the link's bytes_per_s
  friend bool operator==(const ColumnRate&, const ColumnRate&) = default;
};

/// Distances in bytes between the beginnings of columns: `columns` of a link is of those that lie
/// at least so far apart.
inline constexpr std::int64_t kNearColumns = std::int64_t{32} << 10, kFarColumns = 2 * kNearColumns;

/// A directed connection. Two devices without a link cannot copy to each other directly.
struct Link {
  DeviceId source = kHost;
  DeviceId target = kHost;
  double latency_s = 0;    ///< per copy (per chunk, in a chunked one), on top of bytes/rate
  double bytes_per_s = 0;  ///< of contiguous memory, with the machine otherwise idle
  std::vector<PortShare> ports;
  std::vector<ColumnRate> columns;  ///< sorted by bytes; none: strided columns cost nothing
  /// The same of columns that begin kNearColumns apart; none: not known, they are as the others.
  std::vector<ColumnRate> near_columns;
  double measured = 0;  ///< `bytes_per_s` before runs corrected it; 0: they did not
  /// The latency of copies that the source sends (Queue::in_turn). 0: not known, latency_s is
  /// taken.
  double sent_latency_s = 0;

  /// Bytes per second of this cargo with the machine otherwise idle. The share is interpolated
  /// linearly between known column lengths, where a column shorter than the shortest known one
  /// takes as long as that one, and then between the distances 0, at which nothing is lost,
  /// kNearColumns and kFarColumns.
  double rate(const Cargo& cargo) const {
    const bool apart = cargo.column_bytes > 0 && (cargo.home == source || cargo.home == target);
    return apart && !columns.empty()
               ? bytes_per_s * column_share(cargo.column_bytes, cargo.apart_bytes)
               : bytes_per_s;
  }
  double column_share(std::int64_t column_bytes, std::int64_t apart_bytes) const;
  double latency(bool in_turn) const {
    return in_turn && sent_latency_s > 0 ? sent_latency_s : latency_s;
  }
  friend bool operator==(const Link&, const Link&) = default;
};

struct Machine {
  std::string name;
  std::string source;  ///< origin of the numbers: a measurement, a paper, assumptions
  /// Seconds that one thread spends on issuing a task: task i of a plan starts no earlier than i
  /// * issue_s, so that many small tasks are not free. Each chunk of a copy counts as one task.
  double issue_s = 0;
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<Port> ports;

  int device_count() const { return static_cast<int>(devices.size()) - kFirstDevice; }

  /// Whether the watts of every device are known.
  bool knows_watts() const;

  /// Id of the link source -> target, or -1.
  LinkId find_link(DeviceId source, DeviceId target) const;

  /// By device: whether its links to other devices share a port of which each alone takes two
  /// thirds or more. Copies to several are then no faster side by side than in turn, and to a
  /// single one they are faster sent than fetched (docs/performance/lessons.md).
  std::vector<char> sends_in_turn() const;

  /// Seconds of one unchunked copy on an idle machine.
  double copy_s(LinkId link, std::int64_t bytes) const {
    const Link& l = links[static_cast<std::size_t>(link)];
    return l.latency_s + static_cast<double>(bytes) / l.bytes_per_s;
  }

  bool can_compute(DeviceId device, DataType type) const { return best_rate(device, type) > 0; }

  /// The type whose rates apply to `type` on this device: `type` itself if it has rates; else f32
  /// for tf32, since tf32 only permits faster products; on the host also f32 for f16 and bf16,
  /// whose products the CPU computes in f32.
  DataType rated_as(DeviceId device, DataType type) const;

  /// Highest flops_per_s over all edges; 0 if the device cannot compute this type.
  double best_rate(DeviceId device, DataType type) const;

  /// Rate for an m x n x k product: the table interpolated (linearly in log2(edge)) at the edge
  /// cbrt(m*n*k), held constant beyond its ends.
  double rate(DeviceId device, DataType type, double m, double n, double k) const;

  /// Seconds of C += A*B on tiles of this shape with the device otherwise idle, launch included: by
  /// the rate; on the host by its memory, if that takes longer for what is read and written beyond
  /// the bytes of a cube of the same volume, which the rate contains.
  double multiply_s(DeviceId device, DataType type, std::int64_t m, std::int64_t n,
                    std::int64_t k) const;

  /// Seconds of a kernel that only streams `bytes` through the device's memory (add, scale).
  double stream_s(DeviceId device, std::int64_t bytes) const;

  friend bool operator==(const Machine&, const Machine&) = default;
};

/// find_link for hot loops (planner, simulator): the link of every pair, built once per machine.
class LinkTable {
 public:
  explicit LinkTable(const Machine& machine);
  /// Id of the link source -> target, or -1. Both must be devices of the machine.
  LinkId at(DeviceId source, DeviceId target) const {
    return ids_[static_cast<std::size_t>(source) * devices_ + static_cast<std::size_t>(target)];
  }

 private:
  std::size_t devices_;
  std::vector<LinkId> ids_;
};

inline constexpr int kMachineSchema = 2;

/// JSON with "schema": 2. parse_machine(to_json(m)) == m, with every number bit for bit.
std::string to_json(const Machine& machine);
/// Reads schema 1 too, whose devices have `busy_watts` for all that they do and `idle_watts`.
/// Throws Error(bad_file) with one line that names the fault and its place: damaged JSON, another
/// schema, a link to a device that does not exist, a capacity that is not positive.
Machine parse_machine(std::string_view json);

/// Reads a shipped machine by its name ("h200x8": `shipped_folder`/h200x8.json), or else a file. A
/// name that contains '/' or ends in ".json" is always a file. Throws Error(bad_file) naming the
/// file.
Machine load_machine(const std::string& file_or_name, const std::string& shipped_folder);

/// The machine with only these user-facing devices (0, 1, ...), renumbered in the given order but
/// keeping their names. Host and pageable stay, and so do all ports. Throws Error(bad_argument) if
/// a device does not exist or is named twice.
Machine sub_machine(const Machine& machine, const std::vector<int>& user_devices);

}  // namespace fleet
