// SPDX-License-Identifier: BSD-3-Clause
// level3.hpp: the calls that the routines of this room are made of, on views of one element type.
// It knows no algorithm.
#pragma once
#include <cstdint>

#include "core/context.hpp"

namespace fleet::linalg {

inline bool is_empty(const View& view) { return view.rows == 0 || view.cols == 0; }

/// Level 3 on a context. Calls without elements are left out. A view's `fill` is the uplo of a
/// triangle.
class Level3 {
 public:
  /// `symbol`: the name that the program called; never freed.
  Level3(Context& context, Storage storage, const char* symbol)
      : context_(&context), storage_(storage), symbol_(symbol) {}

  Context& context() const { return *context_; }
  Storage storage() const { return storage_; }
  const char* symbol() const { return symbol_; }
  /// The operation that a real matrix is turned by is a transposition.
  Op turned() const { return is_complex(storage_) ? Op::conjugate : Op::transpose; }
  View part_of(const View& x, std::int64_t row, std::int64_t col, std::int64_t rows,
               std::int64_t cols, Fill fill = Fill::full) const {
    return part(x, storage_, row, col, rows, cols, fill);
  }

  /// c = alpha*op(a)*op(b) + beta*c.
  void gemm(double alpha, Op op_a, const View& a, Op op_b, const View& b, double beta,
            const View& c) const;
  /// How the triangle of a triangular call is read, and on which side it stands.
  struct Triangular {
    Side side;
    Op op = Op::none;
    Diag diag = Diag::non_unit;
  };
  /// b = alpha*op(a)*b or alpha*b*op(a).
  void trmm(Triangular how, double alpha, const View& a, const View& b) const;
  /// b = x, with op(a)*x = alpha*b or x*op(a) = alpha*b.
  void trsm(Triangular how, double alpha, const View& a, const View& b) const;
  /// c += a*a^H, or a^H*a where `op` is not none, in c's triangle.
  void add_square(Op op, const View& a, const View& c) const;

 private:
  void triangular(Routine routine, Triangular how, double alpha, const View& a,
                  const View& b) const;

  Context* context_;
  Storage storage_;
  const char* symbol_;
};

}  // namespace fleet::linalg
