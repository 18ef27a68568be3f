// SPDX-License-Identifier: BSD-3-Clause
// costs.hpp: seconds of each piece of work and of each message. It knows no order of them.
#pragma once
#include "sim/cluster.hpp"

namespace fleet::lu {

/// Work that cores and GPUs share: the GPU's part is brought, computed and taken back.
struct SharedWork {
  double in_s = 0, gpu_s = 0, out_s = 0;
  double core_s = 0;  ///< the CPU's part, by one core
  double flops = 0;
};

/// C (m x n) -= A (m x k) * B (k x n), with `cpu_share` of C's rows on the CPU.
SharedWork product_work(const RankMeans& rank, double m, double n, double k, double cpu_share);
/// A triangle of order k is solved for `count` right sides, of which the CPU has `cpu_share`.
SharedWork solve_work(const RankMeans& rank, double k, double count, double cpu_share);
/// The CPU's part for which both end together when transfers are hidden, for large products.
double balanced_share(const RankMeans& rank, double cores);

/// A panel of rows x width without its messages, by halves down to a few columns.
double panel_s(const RankMeans& rank, double rows, double width, double cores);
/// The square of a panel by LU without pivots.
double square_s(const RankMeans& rank, double width, double cores);
double panel_flops(double rows, double width);
/// Bytes that are read and written once.
double copy_s(const RankMeans& rank, double bytes);
/// Bytes of rows that are packed or unpacked: read and written once.
double rows_s(const RankMeans& rank, double bytes);

/// All members of a group know the message of one of them.
double broadcast_s(const Link& link, int members, double bytes, const Chain& chain);
/// All members know what all of them say, `bytes` each: by doubling.
double gather_s(const Link& link, int members, double bytes);
/// The rows of a section, `bytes` in all: those that leave the square are scattered, those that
/// come into it are known to all afterwards.
double exchange_s(const Link& link, int members, double bytes, const Chain& chain);

}  // namespace fleet::lu
