// Whose process this is. The program metac speaks on standard error, and ends itself where it is at fault; libmetac is a
// guest in somebody else's process and does neither: METAC_ASSERT throws InternalError there, and notices go to the trace.
#pragma once
#include <string>

namespace metac {

// From now on this process is somebody else's. Called once, before anything else of metac runs.
void become_guest();
// It is the program metac's own after all: that may lie in libmetac, which makes a guest of every process that loads it.
void become_host();
bool is_guest();

// What people should know although the work goes on: a line on standard error, "metac: " before it.
void notice(const std::string& text);

}  // namespace metac
