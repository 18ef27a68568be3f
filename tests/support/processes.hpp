// SPDX-License-Identifier: BSD-3-Clause
// processes.hpp: runs part of a test as a separate program or in a forked child, with a time limit.
// It knows no library.
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace fleet::test {

struct Ended {
  int code = -1;  ///< exit status; 128 + N: ended by signal N; -1: killed at the time limit
  double seconds = 0;
  std::string output;  ///< its stderr
};

/// Runs `program` in a forked process, which then calls exit() with its result.
template <typename Program>
Ended run_program(Program&& program, double limit_s = 120) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    std::exit(program());
  }
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  Ended ended;
  int status = 0;
  const auto read_output = [&] {
    char piece[4096];
    for (ssize_t got; (got = read(ends[0], piece, sizeof piece)) > 0;)
      ended.output.append(piece, static_cast<std::size_t>(got));
  };
  while (waitpid(child, &status, WNOHANG) == 0) {
    read_output();
    if (elapsed_s() > limit_s) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      close(ends[0]);
      ended.output += "\n(killed after " + std::to_string(limit_s) + " s)";
      return ended;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  read_output();
  close(ends[0]);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.seconds = elapsed_s();
  return ended;
}

/// Forks; the child exits with 0 if `work` returns true there. True if that happens in time.
template <typename Work>
bool child_succeeds(Work&& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = 0;
  constexpr int kMilliseconds = 60000;
  for (int waited = 0; waited < kMilliseconds; ++waited) {
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) && WEXITSTATUS(status) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return false;
}

}  // namespace fleet::test
