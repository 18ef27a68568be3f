/* SPDX-License-Identifier: BSD-3-Clause
 *
 * forks.c: forks before, after and during calls, and in a tree. Children set RECORD_FILE to
 * CHILD_FILE, so that a recording core shows what reaches it from a child. It knows nothing of the
 * preload library.
 *
 * Usage: forks EDGE [quiet]; exits 0 when every process had right results. quiet leaves out forks
 * while other threads call: the children of some BLAS hang after these now and then.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "product.h"

static int edge;
static atomic_int stop;

static int in_child(int depth) {
  const char* file = getenv("CHILD_FILE");
  if (file) setenv("RECORD_FILE", file, 1);
  alarm(60); /* a child that hangs is a failure, not a hanging test */
  if (wrong_elements(edge, depth)) return 1;
  if (depth == 0) return 0;
  const pid_t grandchild = fork();
  if (grandchild == 0) _exit(in_child(depth - 1));
  int status;
  return waitpid(grandchild, &status, 0) < 0 || status != 0;
}

static int child_fails(int depth) {
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) _exit(in_child(depth));
  int status;
  return waitpid(child, &status, 0) < 0 || status != 0;
}

static void* keep_calling(void* unused) {
  (void)unused;
  long wrong = 0;
  while (!atomic_load(&stop)) wrong += wrong_elements(edge, 3) != 0;
  return (void*)wrong;
}

static int fork_while_calling(void) {
  pthread_t thread[2];
  int failures = 0;
  for (int i = 0; i < 2; ++i) pthread_create(&thread[i], NULL, keep_calling, NULL);
  for (int i = 0; i < 5; ++i) failures += child_fails(0);
  atomic_store(&stop, 1);
  for (int i = 0; i < 2; ++i) {
    void* wrong;
    pthread_join(thread[i], &wrong);
    failures += wrong != NULL;
  }
  return failures;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int quiet = argc > 2 && strcmp(argv[2], "quiet") == 0;
  edge = atoi(argv[1]);
  int failures = child_fails(0); /* before the first call of the parent */
  failures += wrong_elements(edge, 1) != 0;
  failures += child_fails(2); /* after it, in a tree */
  failures += wrong_elements(edge, 2) != 0;
  if (!quiet) failures += fork_while_calling();
  failures += wrong_elements(edge, 4) != 0;
  printf("%d failures\n", failures);
  return failures != 0;
}
