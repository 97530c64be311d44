// Ctrl-C and SIGTERM ask a run to write a checkpoint and stop. A second one stops it at once.
#pragma once
#include <csignal>

namespace metac::train {

inline volatile std::sig_atomic_t received_signal = 0;

extern "C" inline void note_signal(int number) {
  received_signal = number;
  std::signal(number, SIG_DFL);
}

inline void catch_signals() {
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction action = {};
    action.sa_handler = note_signal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
  }
}

}  // namespace metac::train
