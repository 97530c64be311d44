// One LLVM linker for the process, and a name space of its own for each LinkedCode: setting up a linker costs more than
// linking a kernel does.
#include "compiler/jit/kernel_linker.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/TargetSelect.h>

#include <atomic>

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
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
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

// Never destroyed: threads may still run kernels when a process ends.
LLJIT& linker() {
  static LLJIT& of_process = *make_linker().release();
  return of_process;
}

}  // namespace

struct LinkedCode::Space {
  std::vector<std::string> objects;  // read when the first address is asked for
  JITDylib* names = nullptr;
};

LinkedCode::LinkedCode(std::vector<std::string> objects) : space_(std::make_unique<Space>()) {
  static std::atomic<int64_t> count;
  space_->objects = std::move(objects);
  for (const std::string& object : space_->objects) bytes_ += static_cast<int64_t>(object.size());
  space_->names = &value_of(linker().createJITDylib("kernels " + std::to_string(count++)), "name");
  for (const std::string& object : space_->objects)
    if (auto error = linker().addObjectFile(*space_->names, MemoryBuffer::getMemBuffer(object, "kernels", false)))
      fail("cannot link machine code in memory: ", toString(std::move(error)));
}

LinkedCode::~LinkedCode() {
  if (auto error = linker().getExecutionSession().removeJITDylib(*space_->names)) consumeError(std::move(error));
}

std::vector<void*> LinkedCode::addresses(const std::vector<std::string>& names) const {
  SymbolLookupSet wanted;
  for (const std::string& name : names) wanted.add(linker().mangleAndIntern(name));
  wanted.removeDuplicates();
  SymbolMap found = value_of(linker().getExecutionSession().lookup(
                                 {{space_->names, JITDylibLookupFlags::MatchAllSymbols}}, wanted),
                             "link");
  std::vector<void*> result;
  for (const std::string& name : names)
    result.push_back(found.at(linker().mangleAndIntern(name)).getAddress().toPtr<void*>());
  return result;
}

}  // namespace metac
