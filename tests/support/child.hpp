// Runs something in a forked child, which a defect may crash or hang without taking the test with it.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace testing {

// "" if body returned true; else what became of the child: "failed", "hung" or "signal 11".
template <typename Body>
std::string outcome_in_child(Body body, unsigned seconds = 10) {
  const pid_t child = fork();
  if (child < 0) return "no child";
  if (child == 0) {
    for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, SIG_DFL);
    alarm(seconds);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return "lost";
  if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? "" : "failed";
  return WTERMSIG(status) == SIGALRM ? "hung" : "signal " + std::to_string(WTERMSIG(status));
}

}  // namespace testing
