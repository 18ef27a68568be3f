/* SPDX-License-Identifier: BSD-3-Clause
 * no_threads.c: loaded before a program that says it has one thread: ends it if it starts another.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  (void)thread, (void)attributes, (void)run, (void)argument;
  fputs(
      "no_threads: a test in the list one_thread of tests/CMakeLists.txt starts a thread: it\n"
      "has to run under ThreadSanitizer, so take it from the list\n",
      stderr);
  _Exit(1);
}
