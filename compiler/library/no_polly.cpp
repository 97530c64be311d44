// Clang asks the extensions that its LLVM was configured with for their passes. Debian's has Polly, whose archive is a
// package of its own; no kernel asks for its passes, and this says that there are none.
#include <llvm/Config/llvm-config.h>
#include <llvm/Passes/PassPlugin.h>

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Polly", LLVM_VERSION_STRING, [](llvm::PassBuilder&) {}};
}
