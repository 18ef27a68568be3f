/* SPDX-License-Identifier: BSD-3-Clause
 *
 * illegal.c: makes illegal calls of every routine and prints who was told what: first with each
 * argument spoiled by itself, then with random ones spoiled. With -DOWN_XERBLA and
 * -DOWN_CBLAS_XERBLA the program brings error handlers of its own. It is linked to a BLAS and knows
 * nothing of the preload library: what it prints must be the same with and without.
 *
 * Usage: illegal fortran|cblas [gemmt]   with gemmt: that routine alone, which older BLAS lack
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { kEdge = 4, kSentinel = 7, kRandomCalls = 60 };

#ifdef OWN_XERBLA
void xerbla_(const char* name, const int* position, size_t length) {
  printf("  xerbla <%.*s> %d\n", (int)length, name, *position);
}
#endif
#ifdef OWN_CBLAS_XERBLA
void cblas_xerbla(int position, const char* name, const char* form, ...) {
  char text[80];
  va_list values;
  va_start(values, form);
  vsnprintf(text, sizeof text, form, values);
  va_end(values);
  text[strcspn(text, "\n")] = '\0';
  printf("  cblas_xerbla <%.*s> %d <%s>\n", (int)strcspn(name, " "), name, position, text);
}
#endif

/* The arguments of a routine by letters: S side, U uplo, A transa, B transb, D diag, m, n, k,
 * 1 alpha, a, x lda, b, y ldb, 2 beta, c, z ldc. */
struct Routine {
  const char *word, *types, *arguments;
};
static const struct Routine kRoutines[] = {
    {"gemm", "sdcz", "ABmnk1axby2cz"}, {"symm", "sdcz", "SUmn1axby2cz"},
    {"hemm", "cz", "SUmn1axby2cz"},    {"syrk", "sdcz", "UAnk1ax2cz"},
    {"herk", "cz", "UAnk1ax2cz"},      {"syr2k", "sdcz", "UAnk1axby2cz"},
    {"her2k", "cz", "UAnk1axby2cz"},   {"trmm", "sdcz", "SUADmn1axcz"},
    {"trsm", "sdcz", "SUADmn1axcz"},
};
static const struct Routine kGemmt[] = {
    {"gemmt", "sdcz", "UABnk1axby2cz"},
    {"gemmtr", "sdcz", "UABnk1axby2cz"},
};

struct Call {
  const struct Routine* routine;
  char type;
  int layout;
  char flags[6]; /* side, uplo, transa, transb, diag */
  int m, n, k, lda, ldb, ldc;
};
static const char kFlagLetters[] = "SUABD";

static int has(const struct Call* p, char argument) {
  return strchr(p->routine->arguments, argument) != NULL;
}
static int is(const struct Call* p, const char* word) { return !strcmp(p->routine->word, word); }

static double a[64], b[64], c[64];
static const double one[2] = {1, 0}, zero[2] = {0, 0};

/* The library is needed, whatever the linker thinks of one whose functions are all looked up. */
extern void dgemm_(void);
static void (*volatile keep)(void) = dgemm_;

/* By name, since gemmt is not in every BLAS; NULL there. */
typedef void (*Any)(void);
static Any function_of(const struct Call* p, int fortran) {
  char name[32];
  snprintf(name, sizeof name, fortran ? "%c%s_" : "cblas_%c%s", p->type, p->routine->word);
  void* symbol = keep ? dlsym(RTLD_DEFAULT, name) : NULL;
  Any function;
  memcpy(&function, &symbol, sizeof function);
  return function;
}

/* Everything by reference, then the lengths of the flags. */
static void call_fortran(const struct Call* p) {
  const void* values[17];
  int count = 0;
  for (const char* at = p->routine->arguments; *at; ++at) {
    const char* flag = strchr(kFlagLetters, *at);
    values[count++] = flag         ? (const void*)(p->flags + (flag - kFlagLetters))
                      : *at == 'm' ? &p->m
                      : *at == 'n' ? &p->n
                      : *at == 'k' ? &p->k
                      : *at == '1' ? (const void*)one
                      : *at == '2' ? (const void*)zero
                      : *at == 'a' ? (const void*)a
                      : *at == 'b' ? (const void*)b
                      : *at == 'c' ? (const void*)c
                      : *at == 'x' ? &p->lda
                      : *at == 'y' ? &p->ldb
                                   : (const void*)&p->ldc;
  }
  while (count < 17) values[count++] = (const void*)1;
  typedef void Fortran(const void*, const void*, const void*, const void*, const void*, const void*,
                       const void*, const void*, const void*, const void*, const void*, const void*,
                       const void*, const void*, const void*, const void*, const void*);
  ((Fortran*)function_of(p, 1))(values[0], values[1], values[2], values[3], values[4], values[5],
                                values[6], values[7], values[8], values[9], values[10], values[11],
                                values[12], values[13], values[14], values[15], values[16]);
}

/* A flag's number; letters that are no flag give numbers that are none. */
static int number(char flag, int which) {
  const char* const letters[] = {"lr", "ul", "ntc", "ntc", "nu"};
  const int first[] = {141, 121, 111, 111, 131};
  const char* found = strchr(letters[which], flag | 0x20);
  return found ? first[which] + (int)(found - letters[which]) : flag;
}

#define CALL(S, R, alpha, beta, real_alpha, real_beta)                                             \
  do {                                                                                             \
    typedef const void* V;                                                                         \
    if (is(p, "gemm"))                                                                             \
      ((void (*)(int, int, int, int, int, int, S, V, int, V, int, S, V, int))f)(                   \
          p->layout, ta, tb, p->m, p->n, p->k, alpha, a, p->lda, b, p->ldb, beta, c, p->ldc);      \
    else if (has(p, 'B'))                                                                          \
      ((void (*)(int, int, int, int, int, int, S, V, int, V, int, S, V, int))f)(                   \
          p->layout, uplo, ta, tb, p->n, p->k, alpha, a, p->lda, b, p->ldb, beta, c, p->ldc);      \
    else if (has(p, 'D'))                                                                          \
      ((void (*)(int, int, int, int, int, int, int, S, V, int, V, int))f)(                         \
          p->layout, side, uplo, ta, diag, p->m, p->n, alpha, a, p->lda, c, p->ldc);               \
    else if (is(p, "herk"))                                                                        \
      ((void (*)(int, int, int, int, int, R, V, int, R, V, int))f)(                                \
          p->layout, uplo, ta, p->n, p->k, real_alpha, a, p->lda, real_beta, c, p->ldc);           \
    else if (is(p, "her2k"))                                                                       \
      ((void (*)(int, int, int, int, int, S, V, int, V, int, R, V, int))f)(                        \
          p->layout, uplo, ta, p->n, p->k, alpha, a, p->lda, b, p->ldb, real_beta, c, p->ldc);     \
    else if (is(p, "syrk"))                                                                        \
      ((void (*)(int, int, int, int, int, S, V, int, S, V, int))f)(                                \
          p->layout, uplo, ta, p->n, p->k, alpha, a, p->lda, beta, c, p->ldc);                     \
    else                                                                                           \
      ((void (*)(int, int, int, int, int, S, V, int, V, int, S, V, int))f)(                        \
          p->layout, has(p, 'S') ? side : uplo, has(p, 'S') ? uplo : ta,                           \
          has(p, 'S') ? p->m : p->n, has(p, 'S') ? p->n : p->k, alpha, a, p->lda, b, p->ldb, beta, \
          c, p->ldc);                                                                              \
  } while (0)

static void call_cblas(const struct Call* p) {
  const int side = number(p->flags[0], 0), uplo = number(p->flags[1], 1),
            ta = number(p->flags[2], 2), tb = number(p->flags[3], 3), diag = number(p->flags[4], 4);
  const Any f = function_of(p, 0);
  if (p->type == 's')
    CALL(float, float, 1, 0, 1, 0);
  else if (p->type == 'd')
    CALL(double, double, 1, 0, 1, 0);
  else if (p->type == 'c')
    CALL(const void*, float, one, zero, 1, 0);
  else
    CALL(const void*, double, one, zero, 1, 0);
}

static int known(char flag, const char* letters) {
  return flag && strchr(letters, flag | 0x20) != NULL;
}

/* Calls that are legal are left out: they would rightly write C. */
static int legal(const struct Call* p) {
  const int by_rows = p->layout == 101, side = has(p, 'S');
  const int complex = p->type == 'c' || p->type == 'z', hermitian = p->routine->word[0] == 'h';
  const int by_itself = has(p, 'A') && !has(p, 'B') && !has(p, 'D');
  const char ta = p->flags[2] | 0x20, tb = p->flags[3] | 0x20, letter = p->flags[0] | 0x20;
  if (p->layout != 0 && p->layout != 101 && p->layout != 102) return 0;
  if (side && !known(p->flags[0], "lr")) return 0;
  if (has(p, 'U') && !known(p->flags[1], "lu")) return 0;
  if (has(p, 'A') && !known(p->flags[2], "ntc")) return 0;
  if (has(p, 'B') && !known(p->flags[3], "ntc")) return 0;
  if (has(p, 'D') && !known(p->flags[4], "nu")) return 0;
  /* The reference CBLAS takes either transpose in row-major calls. */
  if (by_itself && complex && ta == (hermitian ? 't' : 'c') && !by_rows) return 0;
  const int m = has(p, 'm') ? p->m : p->n, k = !side ? p->k : letter == 'l' ? p->m : p->n;
  if (m < 0 || p->n < 0 || k < 0) return 0;
  const int a_turned = (!side && ta != 'n') != by_rows;
  const int b_turned = (by_itself ? ta != 'n' : has(p, 'B') && tb != 'n') != by_rows;
  const int b_rows = has(p, 'B') ? k : m, b_columns = by_itself ? k : p->n;
  const int least[3] = {a_turned ? k
                        : side   ? k
                                 : m,
                        b_turned ? b_columns : b_rows, by_rows ? p->n : m};
  const int ld[3] = {p->lda, has(p, 'b') ? p->ldb : kEdge, p->ldc};
  for (int i = 0; i < 3; ++i)
    if (ld[i] < (least[i] > 1 ? least[i] : 1)) return 0;
  return 1;
}

static void make(const struct Call* p, const char* what) {
  if (legal(p) || !function_of(p, p->layout == 0)) return;
  printf("%s %c%s %s", p->layout ? "cblas" : "fortran", p->type, p->routine->word, what);
  if (p->layout) printf(" %d", p->layout);
  printf(" flags");
  for (int i = 0; i < 5; ++i) printf(" %d", p->flags[i]);
  printf(" sizes %d %d %d ld %d %d %d\n", p->m, p->n, p->k, p->lda, p->ldb, p->ldc);
  fflush(stdout);
  if (p->layout)
    call_cblas(p);
  else
    call_fortran(p);
  for (int i = 0; i < 64; ++i)
    if (c[i] != kSentinel) printf("  C was touched\n");
}

static void spoil_each(struct Call fine) {
  const char letters[] = "SUABDmnkxyz";
  for (const char* at = fine.routine->arguments; *at; ++at) {
    struct Call call = fine;
    const char what[] = {*at, '\0'};
    const char* flag = strchr(kFlagLetters, *at);
    if (!strchr(letters, *at)) continue;
    if (flag) call.flags[flag - kFlagLetters] = 'x';
    if (*at == 'm') call.m = -1;
    if (*at == 'n') call.n = -1;
    if (*at == 'k') call.k = -1;
    if (*at == 'x') call.lda = 1;
    if (*at == 'y') call.ldb = 1;
    if (*at == 'z') call.ldc = 1;
    make(&call, what);
  }
}

static unsigned state = 1;
static char one_of(const char* letters) {
  state = state * 1103515245u + 12345u;
  return letters[(state >> 16) % strlen(letters)];
}
static int size(void) { return one_of("/0122334") - '0'; }
static int leading(void) { return one_of("01234444") - '0'; }

/* Flags are wrong less often than sizes, or nobody would look at the sizes. */
static void spoil_at_random(struct Call call) {
  for (int i = 0; i < kRandomCalls; ++i) {
    call.flags[0] = one_of("lrLRlrLRlrLR/");
    call.flags[1] = one_of("luLUluLUluLU\x0c");
    call.flags[2] = one_of("ntcNTCntcNTC\x0e");
    call.flags[3] = one_of("ntcNTCntcNTCx");
    call.flags[4] = one_of("nuNUnuNUnuNUc");
    call.m = size(), call.n = size(), call.k = size();
    call.lda = leading(), call.ldb = leading(), call.ldc = leading();
    make(&call, "random");
  }
}

static void make_all(const struct Routine* routines, size_t count, int fortran) {
  for (size_t r = 0; r < count; ++r)
    for (const char* type = routines[r].types; *type; ++type) {
      struct Call fine = {&routines[r], *type, 0, "lunnn", 2, 3, 4, kEdge, kEdge, kEdge};
      if (!fortran) {
        fine.layout = 100;
        make(&fine, "layout");
      }
      for (int layout = fortran ? 0 : 101; layout <= (fortran ? 0 : 102); ++layout) {
        fine.layout = layout;
        spoil_each(fine);
        spoil_at_random(fine);
      }
    }
}

int main(int argc, char** argv) {
  const int fortran = argc < 2 || strcmp(argv[1], "cblas") != 0;
  for (int i = 0; i < 64; ++i) c[i] = kSentinel;
  if (argc > 2)
    make_all(kGemmt, 2, fortran);
  else
    make_all(kRoutines, sizeof kRoutines / sizeof *kRoutines, fortran);
  return 0;
}
