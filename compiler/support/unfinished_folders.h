// Folders that must not outlive the work on them. An exception removes them by its way up the stack; this list is for the
// end by a signal, where nothing is unwound.
#pragma once
#include <string>

namespace metac {

void add_unfinished_folder(const std::string& path);
void forget_unfinished_folder(const std::string& path);

// Removes all that are on the list, from any thread, while others may still write there. No more can be added: a thread
// that tries to waits for the end of the process, which the caller brings about.
void remove_unfinished_folders();

}  // namespace metac
