/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recording_lapack.h: the LAPACK of the recording core, for recording_core.c alone: what a
 * fleet_dropin_lapack_call says, done by the reference LAPACK in the file RECORD_LAPACK, whose
 * integers have 32 bits. Sizes that do not fit are not looked for.
 */
#include <dlfcn.h>
#include <string.h>

typedef int Int;
typedef void Function();

static Function* lapack_function(const fleet_dropin_lapack_call* p) {
  static const char* const words[] = {"getrf", "potrf", "geqrf", "getrs",  "potrs", "gesv",
                                      "posv",  "getri", "potri", "trtri",  "trtrs", "lauum",
                                      "orgqr", "ormqr", "larfb", "dsgesv", "zcgesv"};
  const char* file = getenv("RECORD_LAPACK");
  void* library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
  const char* word = words[p->routine];
  const int complex = p->type == 'c' || p->type == 'z';
  if (complex && p->routine == fleet_dropin_orgqr) word = "ungqr";
  if (complex && p->routine == fleet_dropin_ormqr) word = "unmqr";
  const int mixed = p->routine == fleet_dropin_dsgesv || p->routine == fleet_dropin_zcgesv;
  char name[16];
  if (mixed)
    snprintf(name, sizeof name, "%s_", word);
  else
    snprintf(name, sizeof name, "%c%s_", p->type, word);
  return library ? (Function*)dlsym(library, name) : NULL;
}

/* The pivots of n rows as this LAPACK has them, and back. */
static void narrow(const fleet_dropin_lapack_call* p, Int* pivots) {
  for (int64_t i = 0; i < p->n; ++i)
    pivots[i] = p->int_bits == 64 ? (Int)((const int64_t*)p->ipiv)[i] : ((const Int*)p->ipiv)[i];
}
static void widen(const fleet_dropin_lapack_call* p, const Int* pivots, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (p->int_bits == 64)
      ((int64_t*)p->ipiv)[i] = pivots[i];
    else
      ((Int*)p->ipiv)[i] = pivots[i];
}

static int compute_lapack_call(const fleet_dropin_lapack_call* p, int64_t* info_out) {
  Function* f = lapack_function(p);
  if (!f) return 0;
  const Int m = (Int)p->m, n = (Int)p->n, k = (Int)p->k, nrhs = (Int)p->nrhs;
  const Int lda = (Int)p->lda, ldb = (Int)p->ldb, ldc = (Int)p->ldc;
  const Int room = 64 * (m + n + 1);
  const int64_t edge = m > n ? m : n;
  Int* pivots = calloc((size_t)edge + 1, sizeof *pivots);
  char* work = calloc((size_t)(room + edge * (nrhs + edge + 1)), 16);
  char* more = calloc((size_t)((edge + 1) * (edge + nrhs + 1)), 16);
  Int info = 0, iter = 0;
  switch (p->routine) {
    case fleet_dropin_getrf:
      f(&m, &n, p->a, &lda, pivots, &info);
      widen(p, pivots, m < n ? m : n);
      break;
    case fleet_dropin_geqrf:
      f(&m, &n, p->a, &lda, p->tau, work, &room, &info);
      break;
    case fleet_dropin_potrf:
    case fleet_dropin_potri:
    case fleet_dropin_lauum:
      f(&p->uplo, &n, p->a, &lda, &info, (size_t)1);
      break;
    case fleet_dropin_getrs:
      narrow(p, pivots);
      f(&p->trans, &n, &nrhs, p->a, &lda, pivots, p->b, &ldb, &info, (size_t)1);
      break;
    case fleet_dropin_potrs:
    case fleet_dropin_posv:
      f(&p->uplo, &n, &nrhs, p->a, &lda, p->b, &ldb, &info, (size_t)1);
      break;
    case fleet_dropin_gesv:
      f(&n, &nrhs, p->a, &lda, pivots, p->b, &ldb, &info);
      widen(p, pivots, n);
      break;
    case fleet_dropin_getri:
      narrow(p, pivots);
      f(&n, p->a, &lda, pivots, work, &room, &info);
      break;
    case fleet_dropin_trtri:
      f(&p->uplo, &p->diag, &n, p->a, &lda, &info, (size_t)1, (size_t)1);
      break;
    case fleet_dropin_trtrs:
      f(&p->uplo, &p->trans, &p->diag, &n, &nrhs, p->a, &lda, p->b, &ldb, &info, (size_t)1,
        (size_t)1, (size_t)1);
      break;
    case fleet_dropin_orgqr:
      f(&m, &n, &k, p->a, &lda, p->tau, work, &room, &info);
      break;
    case fleet_dropin_ormqr:
      f(&p->side, &p->trans, &m, &n, &k, p->a, &lda, p->tau, p->c, &ldc, work, &room, &info,
        (size_t)1, (size_t)1);
      break;
    case fleet_dropin_larfb: {
      const Int ldwork = m > n ? m : n;
      f(&p->side, &p->trans, &p->direct, &p->storev, &m, &n, &k, p->a, &lda, p->b, &ldb, p->c, &ldc,
        more, &ldwork, (size_t)1, (size_t)1, (size_t)1, (size_t)1);
      break;
    }
    case fleet_dropin_dsgesv:
    case fleet_dropin_zcgesv: {
      void* reals = calloc((size_t)n + 1, 8);
      if (p->type == 'd')
        f(&n, &nrhs, p->a, &lda, pivots, p->b, &ldb, p->c, &ldc, work, more, &iter, &info);
      else
        f(&n, &nrhs, p->a, &lda, pivots, p->b, &ldb, p->c, &ldc, work, more, reals, &iter, &info);
      free(reals);
      widen(p, pivots, n);
      if (p->int_bits == 64)
        *(int64_t*)p->iter = iter;
      else
        *(Int*)p->iter = iter;
      break;
    }
  }
  free(pivots);
  free(work);
  free(more);
  *info_out = info;
  return 1;
}
