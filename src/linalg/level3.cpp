// SPDX-License-Identifier: BSD-3-Clause
// level3.cpp: views as the arguments of calls. It knows no algorithm.
#include "linalg/level3.hpp"

#include <array>
#include <complex>

namespace fleet::linalg {
namespace {

constexpr std::size_t kTypes = 4;
/// By Storage.
using Names = std::array<const char*, kTypes>;
constexpr Names kGemm = {"fleet_sgemm", "fleet_dgemm", "fleet_cgemm", "fleet_zgemm"};
constexpr Names kTrmm = {"fleet_strmm", "fleet_dtrmm", "fleet_ctrmm", "fleet_ztrmm"};
constexpr Names kTrsm = {"fleet_strsm", "fleet_dtrsm", "fleet_ctrsm", "fleet_ztrsm"};
constexpr Names kRankK = {"fleet_ssyrk", "fleet_dsyrk", "fleet_cherk", "fleet_zherk"};
static_assert(static_cast<int>(Storage::f32) == 0 && static_cast<int>(Storage::f64) == 1 &&
              static_cast<int>(Storage::c32) == 2 && static_cast<int>(Storage::c64) == 3);

const char* name_of(const Names& names, Storage storage) {
  return names[static_cast<std::size_t>(storage)];
}

Uplo uplo_of(const View& triangle) {
  return triangle.fill == Fill::upper ? Uplo::upper : Uplo::lower;
}

std::int64_t ld_of(const View& view) { return std::max<std::int64_t>(1, view.ld); }

}  // namespace

void Level3::gemm(double alpha, Op op_a, const View& a, Op op_b, const View& b, double beta,
                  const View& c) const {
  if (is_empty(c)) return;
  Call call;
  call.type = {.storage = storage_};
  call.op_a = op_a;
  call.op_b = op_b;
  call.m = c.rows;
  call.n = c.cols;
  call.k = op_a == Op::none ? a.cols : a.rows;
  call.symbol = name_of(kGemm, storage_);
  call.arguments = {.data = {a.data, b.data, c.data}, .ld = {ld_of(a), ld_of(b), ld_of(c)}};
  call.arguments.alpha = alpha;
  call.arguments.beta = beta;
  complete(call);
  context_->compute(call);
}

void Level3::triangular(Routine routine, Triangular how, double alpha, const View& a,
                        const View& b) const {
  if (is_empty(b)) return;
  Call call;
  call.routine = routine;
  call.type = {.storage = storage_};
  call.side = how.side;
  call.uplo = uplo_of(a);
  call.diag = how.diag;
  call.op_a = how.op;
  call.m = b.rows;
  call.n = b.cols;
  call.symbol = name_of(routine == Routine::trmm ? kTrmm : kTrsm, storage_);
  call.arguments = {.data = {a.data, a.data, b.data}, .ld = {ld_of(a), ld_of(a), ld_of(b)}};
  call.arguments.alpha = alpha;
  call.arguments.beta = 0;
  complete(call);
  context_->compute(call);
}

void Level3::trmm(Triangular how, double alpha, const View& a, const View& b) const {
  triangular(Routine::trmm, how, alpha, a, b);
}

void Level3::trsm(Triangular how, double alpha, const View& a, const View& b) const {
  triangular(Routine::trsm, how, alpha, a, b);
}

void Level3::add_square(Op op, const View& a, const View& c) const {
  if (is_empty(c)) return;
  Call call;
  call.routine = is_complex(storage_) ? Routine::herk : Routine::syrk;
  call.type = {.storage = storage_};
  call.uplo = uplo_of(c);
  call.op_a = op == Op::none ? Op::none : turned();
  call.m = c.rows;
  call.n = c.cols;
  call.k = op == Op::none ? a.cols : a.rows;
  call.symbol = name_of(kRankK, storage_);
  call.arguments = {.data = {a.data, a.data, c.data}, .ld = {ld_of(a), ld_of(a), ld_of(c)}};
  call.arguments.alpha = 1.0;
  call.arguments.beta = 1.0;
  complete(call);
  context_->compute(call);
}

}  // namespace fleet::linalg
