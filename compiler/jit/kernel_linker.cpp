// One LLVM linker for the process, and a name space of its own for each LinkedCode: setting up a linker costs more than
// linking a kernel does.
#include "compiler/jit/kernel_linker.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <new>

#include "compiler/jit/clang_compiler.h"
#include "compiler/support/diagnostic.h"

namespace metac {

using namespace llvm;
using namespace llvm::orc;

namespace {

template <typename T>
T value_of(Expected<T> expected, const char* what) {
  if (!expected) fail("cannot ", what, " machine code in memory: ", toString(expected.takeError()));
  return static_cast<T&&>(*expected);
}

std::unique_ptr<LLJIT> make_linker() {
  initialise_llvm();
  JITTargetMachineBuilder target{Triple("x86_64-unknown-linux-gnu")};
  LLJITBuilder builder;
  builder.setJITTargetMachineBuilder(target);
  // Kernels have no constructors and throw nothing: no platform, no unwind tables to register.
  builder.setPlatformSetUp(setUpInactivePlatform);
  builder.setObjectLinkingLayerCreator(
      [](ExecutionSession& session, const Triple&) -> Expected<std::unique_ptr<ObjectLayer>> {
        auto memory = jitlink::InProcessMemoryManager::Create();
        if (!memory) return memory.takeError();
        return std::make_unique<ObjectLinkingLayer>(session, std::move(*memory));
      });
  return value_of(builder.create(), "set up");
}

// LLVM is built without exceptions: one that passes through it, for want of memory, leaves its locks taken and its tables as
// they were at that moment. The linker is lost then: nothing asks it again, what it has linked stays where it is, and who
// links next makes another one. So that nobody waits for a lock that LLVM never gives back, one asks at a time.
struct Linker {
  std::unique_ptr<LLJIT> jit = make_linker();
  std::mutex mutex;
  bool lost = false;

  // f(jit), of which CompileErrors alone are our own.
  template <class F>
  auto ask(F f) {
    try {
      return f(*jit);
    } catch (const CompileError&) {
      throw;
    } catch (...) {
      lost = true;
      throw;
    }
  }
};

// Never destroyed: threads may still run kernels when a process ends.
Linker& linker_of_now() {
  static std::mutex mutex;
  static Linker* now = nullptr;
  const std::lock_guard lock(mutex);
  const auto is_lost = [] {
    const std::lock_guard lock(now->mutex);
    return now->lost;
  };
  if (!now || is_lost()) now = new Linker;
  return *now;
}

}  // namespace

struct LinkedCode::Space {
  Linker& linker;
  std::vector<std::string> objects;  // read when the first address is asked for
  JITDylib* names = nullptr;
};

LinkedCode::LinkedCode(std::vector<std::string> objects)
    : space_(std::make_unique<Space>(Space{linker_of_now(), std::move(objects)})) {
  static std::atomic<int64_t> count;
  for (const std::string& object : space_->objects) bytes_ += static_cast<int64_t>(object.size());
  const std::lock_guard lock(space_->linker.mutex);
  if (space_->linker.lost) throw std::bad_alloc();  // just now, in another thread
  space_->linker.ask([&](LLJIT& jit) {
    space_->names = &value_of(jit.createJITDylib("kernels " + std::to_string(count++)), "name");
    for (const std::string& object : space_->objects)
      if (auto error = jit.addObjectFile(*space_->names, MemoryBuffer::getMemBuffer(object, "kernels", false)))
        fail("cannot link machine code in memory: ", toString(std::move(error)));
  });
}

LinkedCode::~LinkedCode() {
  const std::lock_guard lock(space_->linker.mutex);
  if (space_->linker.lost) {
    static_cast<void>(space_.release());  // LLVM may hold on to the objects
    return;
  }
  try {
    space_->linker.ask([&](LLJIT& jit) {
      if (auto error = jit.getExecutionSession().removeJITDylib(*space_->names)) consumeError(std::move(error));
    });
  } catch (const std::exception&) {
  }
}

bool LinkedCode::is_lost() const {
  const std::lock_guard lock(space_->linker.mutex);
  return space_->linker.lost;
}

std::vector<void*> LinkedCode::addresses(const std::vector<std::string>& names) const {
  const std::lock_guard lock(space_->linker.mutex);
  if (space_->linker.lost) throw std::bad_alloc();
  return space_->linker.ask([&](LLJIT& jit) {
    SymbolLookupSet wanted;
    for (const std::string& name : names) wanted.add(jit.mangleAndIntern(name));
    wanted.removeDuplicates();
    SymbolMap found = value_of(jit.getExecutionSession().lookup({{space_->names, JITDylibLookupFlags::MatchAllSymbols}},
                                                                wanted),
                               "link");
    std::vector<void*> result;
    for (const std::string& name : names)
      result.push_back(found.at(jit.mangleAndIntern(name)).getAddress().toPtr<void*>());
    return result;
  });
}

}  // namespace metac
