// libmetac destroys no statics when the process ends. Its host may end it while a thread compiles behind, and LLVM's statics
// (most of them made while it first compiles) would go under that thread; the library is never unloaded before that. All of
// libmetac, LLVM's archives included, registers destructors here and nowhere else: the symbol is not exported.
extern "C" __attribute__((visibility("hidden"))) int __cxa_atexit(void (*)(void*), void*, void*) noexcept { return 0; }
