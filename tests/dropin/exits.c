/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exits.c: ends the process while other threads are in the middle of calls. It knows nothing of the
 * preload library.
 *
 * Usage: exits main|thread|atexit|return EDGE; exits 0, silently, when all is well.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "product.h"

enum { kCallers = 4, kRunUs = 300 * 1000 };

static int edge;

static void* keep_calling(void* unused) {
  (void)unused;
  for (int seed = 0;; ++seed)
    if (wrong_elements(edge, seed % 5)) _exit(3);
  return NULL;
}

static void* end_process(void* unused) {
  (void)unused;
  exit(0);
}

static void call_once(void) {
  if (wrong_elements(edge, 1)) _exit(4);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  edge = atoi(argv[2]);
  if (wrong_elements(edge, 1)) return 5; /* all that is loaded lazily is there from here on */
  pthread_t thread;
  if (strcmp(argv[1], "atexit") == 0) atexit(call_once);
  for (int i = 0; i < kCallers; ++i) pthread_create(&thread, NULL, keep_calling, NULL);
  usleep(kRunUs);
  if (strcmp(argv[1], "return") == 0) return 0;
  if (strcmp(argv[1], "thread") == 0) {
    pthread_create(&thread, NULL, end_process, NULL);
    pause();
  }
  exit(0);
}
