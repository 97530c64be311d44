// Which process this is. What a session's threads and locks are about does not come along into a child of fork.
#pragma once

namespace metac_python {

// Counts from 0 in the process that imported the module; one more in each child of fork.
unsigned process_generation();
void watch_forks();

}  // namespace metac_python
