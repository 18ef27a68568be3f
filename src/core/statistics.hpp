// SPDX-License-Identifier: BSD-3-Clause
// statistics.hpp: the outcome of each call, singly and summed up. It knows no backend and no clock;
// its owner locks.
#pragma once
#include <array>
#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/phases.hpp"
#include "core/corrections_text.hpp"
#include "core/factor_call.hpp"
#include "machine/machine.hpp"
#include "pool/pool.hpp"
#include "problem/factorization.hpp"
#include "problem/problem.hpp"
#include "tune/considered.hpp"

namespace fleet {

/// The kind of link that bytes crossed.
enum class LinkKind { host_to_device, device_to_device, device_to_host, host_to_host };
inline constexpr int kLinkKinds = 4;
const char* to_string(LinkKind kind);  ///< "h2d", "p2p", "d2h", "h2h"
LinkKind kind_of(const Link& link);

enum class Ran { devices, cpu, nowhere };
const char* to_string(Ran ran);  ///< "devices", "cpu", "nowhere"

/// A Call as the books keep it: its shape, where it ran and why, and what it cost.
struct CallRecord : CallShape {
  /// A factorization: of the shape its type, uplo, m and n count, and the first of `ld`.
  std::optional<Factoring> factoring = {};
  const char* symbol = "";  ///< the name that was called; never freed
  std::array<std::int64_t, 3> ld{};
  std::complex<double> alpha;
  std::complex<double> beta;
  std::string place;  ///< "h,p,0"
  Ran ran = Ran::nowhere;
  const char* reason = "";  ///< one of a few, so that calls can be counted by it
  std::string detail;       ///< more of it, for people
  int workers = 0;          ///< devices
  double cpu_share = 0;     ///< of the work, computed by the CPU beside them
  std::int64_t tile = 0;
  /// Devices, by user-facing number, that the plan did without; null: none.
  std::shared_ptr<const std::vector<LeftOut>> left_out = {};
  /// Of the machine that predicted the call; null: none.
  std::shared_ptr<const NamedCorrections> corrections = {};
  double seconds = 0;
  double prepare_s = 0;    ///< of `seconds`, before the first task: start-up, waiting, planning
  double plan_s = 0;       ///< 0 when the plan was there already
  double predicted_s = 0;  ///< 0 when nothing was planned
  std::vector<Phase> phases = {};  ///< of what was done once, since the call before
  bool is_planned_ahead = false;   ///< the plan was made while the devices ran something else
  bool is_at_once = false;         ///< it began while others were on devices of their own
  Status status = Status::ok;
  std::map<std::string, std::int64_t> bytes_by_link;
  std::array<std::int64_t, kLinkKinds> bytes_by_kind{};
};

double flops_of(const CallRecord& record);

/// Notes what `bytes` (index LinkId) say about `record`.
void add_bytes(CallRecord& record, const Machine& machine, const std::vector<std::int64_t>& bytes);

/// `dgemm(N,N,m,n,k,alpha,A,lda,B,ldb,beta,C,ldc) 4.7ms predicted 4.5ms gpus:8 tile:2048
/// 0.27/1.88/0.13GB h2d/p2p/d2h 29.2TFLOPS devices (reason)`; `fleet_gemm_ex:h(...)` for types that
/// no symbol names. If the plan was made for this call, `4.7ms (2.1ms to prepare)`: the prediction
/// does not include preparation. `started: contexts 812ms, handles 45ms`: what was done once, since
/// the call before. `predicted 4.5ms (corrected x0.75)`: runs have corrected the
/// machine, by this factor at most. Calls that devices did not do have no prediction.
std::string verbose_line(const CallRecord& record);

/// A call of LAPACK that the drop-in was given.
struct LapackRecord {
  const char* symbol = "";       ///< the name that was called; never freed
  const char* reason = nullptr;  ///< why the LAPACK behind did it; nullptr: it was done here
  double flops = 0;
  double seconds = 0;
};

/// `dgesv_ 4.7ms 0.1TFLOPS by the LAPACK behind (below min_flops)`, or `by its parts`, each of
/// which has a line before.
std::string verbose_line(const LapackRecord& record);

/// Sums over calls.
class Statistics {
 public:
  /// `symbol` and `reason` must outlive the statistics.
  void add(CallRecord&& record);
  /// Adds a call that the CPU did on pageable memory. It needs no record: programs make millions of
  /// such small calls.
  void add_on_cpu(const char* symbol, const CallShape& shape, const char* reason, double seconds);
  /// Adds a call of LAPACK. Those done here are counted by their parts too, each as a call.
  void add(const LapackRecord& record);
  /// Adds the bytes that the record has, of copies that belong to no call.
  void add_bytes(const CallRecord& record);
  void merge(const Statistics& other);

  /// `pool`: of the process.
  std::string json(const PoolCounters& pool = {}) const;
  std::string text(const PoolCounters& pool = {}) const;  ///< a few lines for people

 private:
  struct Tally {
    std::int64_t calls = 0;
    double seconds = 0;
    double flops = 0;
    void add(const Tally& other);
  };
  /// All calls that ran in one place for one reason: equal words, mostly at equal addresses.
  struct Group {
    Ran ran = Ran::nowhere;
    const char* reason = "";
    Tally tally = {};
  };

  Tally& tally_of(Ran ran, const char* reason);
  Tally total() const;
  std::map<std::pair<Ran, std::string>, Tally> sorted() const;

  std::int64_t failed_ = 0;
  std::int64_t planned_ahead_ = 0;    ///< programs of queued calls
  std::int64_t at_once_ = 0;          ///< calls
  std::vector<Group> where_and_why_;  ///< a handful
  /// By device: the calls that did without it, and why the last of them did.
  struct Idle {
    std::int64_t calls = 0;
    std::shared_ptr<const std::vector<LeftOut>> last = {};
  };
  static const std::string& why(int device, const Idle& idle);
  std::map<int, Idle> left_out_;
  std::shared_ptr<const NamedCorrections> corrections_;  ///< of the last call that had a plan
  /// Calls of which the CPU computed a part beside the devices.
  struct Beside {
    std::int64_t calls = 0;
    double flops = 0, cpu_flops = 0;
    double share() const { return flops > 0 ? cpu_flops / flops : 0; }
  };
  Beside beside_;
  /// By the name that was called.
  struct Lapack {
    Tally all;
    std::int64_t behind = 0;  ///< calls
  };
  std::map<std::string, Lapack> lapack_;
  std::map<std::string, std::int64_t> bytes_by_link_;
  std::array<std::int64_t, kLinkKinds> bytes_by_kind_{};
  CallRecord last_;
  bool last_is_on_cpu_ = false;  ///< last_ has only the members that add_on_cpu sets
};

}  // namespace fleet
