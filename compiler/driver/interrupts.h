// SIGINT and SIGTERM: children are killed, temporary folders removed, the exit status is 130 or 143.
#pragma once

namespace metac {

// Once, at the start of main, before any other thread exists.
void watch_for_interrupts();
// In a forked worker: signals act as usual again.
void stop_watching_for_interrupts();

}  // namespace metac
