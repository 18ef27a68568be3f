// SPDX-License-Identifier: BSD-3-Clause
// routines.cpp: the functions of mpi.h that are BLAS's and LAPACK's, as calls of the rooms below.

#include "mpi_api/grid.hpp"
#include "routines/cholesky.hpp"
#include "routines/equations.hpp"
#include "routines/product.hpp"
#include "routines/solution.hpp"

namespace fleet::lu {
namespace {

void need(bool is_legal, const std::string& what) {
  if (!is_legal) throw Refusal(FLEET_BAD_ARGUMENT, what);
}
void check_op(fleet_op op, const char* name) {
  need(op == FLEET_NO_TRANS || op == FLEET_TRANS || op == FLEET_CONJ_TRANS,
       std::string(name) + " is no fleet_op");
}
void check_uplo(fleet_uplo uplo) {
  need(uplo == FLEET_LOWER || uplo == FLEET_UPPER, "uplo is no fleet_uplo");
}
void check_size(std::int64_t size, const char* name) {
  need(size >= 0, std::string(name) + " = " + std::to_string(size) + " is negative");
}
/// Of real numbers.
fleet_op plain(fleet_op op) { return op == FLEET_NO_TRANS ? FLEET_NO_TRANS : FLEET_TRANS; }

/// Pivots go to the local rows of the whole matrix, of which A begins at row `ia`.
void put_pivots(const Grid& grid, const Dimension& rows, const std::vector<std::int64_t>& pivots,
                std::int64_t ia, const int* desca, int* ipiv) {
  const Dimension whole{{desca[2], desca[4], grid.rows}, desca[6]};
  for (std::int64_t i = 0; i < rows.size(); ++i)
    if (rows.owner(i) == grid.row)
      ipiv[whole.local(ia - 1 + i)] =
          static_cast<int>(pivots[static_cast<std::size_t>(i)] + ia - 1);
}

void need_pivots(const Grid& grid, const Dealt& a, const int* ipiv) {
  need(ipiv != nullptr || a.rows.local_size(grid.row) == 0, "ipiv is null");
}

void check_messages(const Grid& grid, std::int64_t most) {
  if (most > grid.all.longest_message())
    throw Refusal(FLEET_UNSUPPORTED,
                  "messages of up to " + std::to_string(most) +
                      " numbers are longer than MPI allows: smaller blocks or more ranks help");
}

void multiply(fleet_mpi_grid& grid, const Product& product) {
  lu::multiply(*grid.grid, product, grid.workshop->rank(), grid.overlap, &*grid.device);
}

/// Takes the memory of a factorization first.
Steps by_equations(fleet_mpi_grid& grid, const Dealt& a,
                   const std::function<void(Equations&)>& run) {
  const auto equations = std::make_shared<std::optional<Equations>>();
  return {[=] { run(**equations); },
          [=, &grid] {
            equations->emplace(*grid.grid, a, grid.workshop->rank(), grid.overlap, &*grid.device);
          }};
}

}  // namespace
}  // namespace fleet::lu

using namespace fleet::lu;

fleet_status fleet_mpi_dgemm(fleet_mpi_grid* grid, fleet_op transa, fleet_op transb, int64_t m,
                             int64_t n, int64_t k, double alpha, const double* a, int64_t ia,
                             int64_t ja, const int* desca, const double* b, int64_t ib, int64_t jb,
                             const int* descb, double beta, double* c, int64_t ic, int64_t jc,
                             const int* descc) {
  return call(
      grid, "fleet_mpi_dgemm",
      {word(transa), word(transb), word(m), word(n), word(k), word(alpha), word(ia), word(ja),
       word(desca), word(ib), word(jb), word(descb), word(beta), word(ic), word(jc), word(descc)},
      [&]() -> Steps {
        check_op(transa, "transa");
        check_op(transb, "transb");
        check_size(m, "m");
        check_size(n, "n");
        check_size(k, "k");
        const bool a_is_plain = transa == FLEET_NO_TRANS, b_is_plain = transb == FLEET_NO_TRANS;
        const Grid& on = *grid->grid;
        const Product product{
            .op_a = plain(transa),
            .op_b = plain(transb),
            .alpha = alpha,
            .a = described(on, {"a", a_is_plain ? m : k, a_is_plain ? k : m, a, ia, ja, desca}),
            .b = described(on, {"b", b_is_plain ? k : n, b_is_plain ? n : k, b, ib, jb, descb}),
            .beta = beta,
            .c = described(on, {"c", m, n, c, ic, jc, descc}, c),
            .depth = k};
        check_blocks({product.a, product.b, product.c});
        check_messages(on, most_numbers(on, product));
        return {[=] { multiply(*grid, product); }};
      });
}

fleet_status fleet_mpi_dsyrk(fleet_mpi_grid* grid, fleet_uplo uplo, fleet_op trans, int64_t n,
                             int64_t k, double alpha, const double* a, int64_t ia, int64_t ja,
                             const int* desca, double beta, double* c, int64_t ic, int64_t jc,
                             const int* descc) {
  return call(
      grid, "fleet_mpi_dsyrk",
      {word(uplo), word(trans), word(n), word(k), word(alpha), word(ia), word(ja), word(desca),
       word(beta), word(ic), word(jc), word(descc)},
      [&]() -> Steps {
        check_uplo(uplo);
        check_op(trans, "trans");
        check_size(n, "n");
        check_size(k, "k");
        const bool is_plain = trans == FLEET_NO_TRANS;
        const ConstDealt of_a =
            described(*grid->grid, {"a", is_plain ? n : k, is_plain ? k : n, a, ia, ja, desca});
        const Product product{.which = uplo == FLEET_LOWER ? Elements::lower : Elements::upper,
                              .op_a = plain(trans),
                              .op_b = is_plain ? FLEET_TRANS : FLEET_NO_TRANS,
                              .alpha = alpha,
                              .a = of_a,
                              .b = of_a,
                              .beta = beta,
                              .c = described(*grid->grid, {"c", n, n, c, ic, jc, descc}, c),
                              .depth = k};
        check_blocks({product.a, product.c});
        check_messages(*grid->grid, most_numbers(*grid->grid, product));
        return {[=] { multiply(*grid, product); }};
      });
}

fleet_status fleet_mpi_dtrsm(fleet_mpi_grid* grid, fleet_side side, fleet_uplo uplo,
                             fleet_op transa, fleet_diag diag, int64_t m, int64_t n, double alpha,
                             const double* a, int64_t ia, int64_t ja, const int* desca, double* b,
                             int64_t ib, int64_t jb, const int* descb) {
  return call(
      grid, "fleet_mpi_dtrsm",
      {word(side), word(uplo), word(transa), word(diag), word(m), word(n), word(alpha), word(ia),
       word(ja), word(desca), word(ib), word(jb), word(descb)},
      [&]() -> Steps {
        need(side == FLEET_LEFT || side == FLEET_RIGHT, "side is no fleet_side");
        check_uplo(uplo);
        check_op(transa, "transa");
        need(diag == FLEET_UNIT || diag == FLEET_NON_UNIT, "diag is no fleet_diag");
        check_size(m, "m");
        check_size(n, "n");
        const std::int64_t order = side == FLEET_LEFT ? m : n;
        const Solution solution{side,
                                uplo,
                                plain(transa),
                                diag,
                                alpha,
                                described(*grid->grid, {"a", order, order, a, ia, ja, desca}),
                                described(*grid->grid, {"b", m, n, b, ib, jb, descb}, b)};
        check_blocks({solution.a, solution.b});
        return {[=] { solve(*grid->grid, solution, grid->workshop->rank(), grid->overlap); }};
      });
}

fleet_status fleet_mpi_dpotrf(fleet_mpi_grid* grid, fleet_uplo uplo, int64_t n, double* a,
                              int64_t ia, int64_t ja, const int* desca, int64_t* info) {
  return call(grid, "fleet_mpi_dpotrf", {word(uplo), word(n), word(ia), word(ja), word(desca)},
              [&]() -> Steps {
                check_uplo(uplo);
                check_size(n, "n");
                need(info != nullptr, "info is null");
                const Dealt of_a = described(*grid->grid, {"a", n, n, a, ia, ja, desca}, a);
                check_messages(*grid->grid, most_numbers_of_cholesky(*grid->grid, of_a));
                return {[=] {
                  *info = cholesky(*grid->grid, uplo, of_a, grid->workshop->rank(), grid->overlap);
                }};
              });
}

fleet_status fleet_mpi_dgetrf(fleet_mpi_grid* grid, int64_t m, int64_t n, double* a, int64_t ia,
                              int64_t ja, const int* desca, int* ipiv, int64_t* info) {
  return call(grid, "fleet_mpi_dgetrf", {word(m), word(n), word(ia), word(ja), word(desca)},
              [&]() -> Steps {
                check_size(m, "m");
                check_size(n, "n");
                need(info != nullptr, "info is null");
                const Dealt of_a = described(*grid->grid, {"a", m, n, a, ia, ja, desca}, a);
                need_pivots(*grid->grid, of_a, ipiv);
                if (m != n) throw Refusal(FLEET_UNSUPPORTED, "only squares are supported");
                check_messages(*grid->grid, most_numbers_of_equations(*grid->grid, of_a));
                return by_equations(*grid, of_a, [=](Equations& equations) {
                  const Factored factored = equations.factor();
                  put_pivots(*grid->grid, of_a.rows, factored.pivots, ia, desca, ipiv);
                  *info = factored.info;
                });
              });
}

fleet_status fleet_mpi_dgesv(fleet_mpi_grid* grid, int64_t n, int64_t nrhs, double* a, int64_t ia,
                             int64_t ja, const int* desca, int* ipiv, double* b, int64_t ib,
                             int64_t jb, const int* descb, int64_t* info) {
  return call(
      grid, "fleet_mpi_dgesv",
      {word(n), word(nrhs), word(ia), word(ja), word(desca), word(ib), word(jb), word(descb)},
      [&]() -> Steps {
        check_size(n, "n");
        check_size(nrhs, "nrhs");
        need(info != nullptr, "info is null");
        const Dealt of_a = described(*grid->grid, {"a", n, n, a, ia, ja, desca}, a);
        const Dealt of_b = described(*grid->grid, {"b", n, nrhs, b, ib, jb, descb}, b);
        check_blocks({of_a, of_b});
        need_pivots(*grid->grid, of_a, ipiv);
        return by_equations(*grid, of_a, [=](Equations& equations) {
          const Factored factored = equations.factor();
          put_pivots(*grid->grid, of_a.rows, factored.pivots, ia, desca, ipiv);
          *info = factored.info;
          if (factored.info == 0 && n > 0 && nrhs > 0)
            solve_equations(*grid->grid, of_a, factored.pivots, of_b, grid->workshop->rank(),
                            grid->overlap);
        });
      });
}
