#include "compiler/jit/kernel_linker.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/TargetSelect.h>

#include "compiler/support/diagnostic.h"

namespace metac {

using namespace llvm;
using namespace llvm::orc;

struct LinkedCode::Session {
  std::vector<std::string> objects;  // read when the first address is asked for
  std::unique_ptr<LLJIT> jit;
};

namespace {

template <typename T>
T value_of(Expected<T> expected, const char* what) {
  if (!expected) fail("cannot ", what, " machine code in memory: ", toString(expected.takeError()));
  return std::move(*expected);
}

std::unique_ptr<LLJIT> make_session() {
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

}  // namespace

LinkedCode::LinkedCode(std::vector<std::string> objects) : session_(std::make_unique<Session>()) {
  session_->objects = std::move(objects);
  session_->jit = make_session();
  for (const std::string& object : session_->objects)
    if (auto error = session_->jit->addObjectFile(MemoryBuffer::getMemBuffer(object, "kernels", false)))
      fail("cannot link machine code in memory: ", toString(std::move(error)));
}

LinkedCode::~LinkedCode() = default;

std::vector<void*> LinkedCode::addresses(const std::vector<std::string>& names) const {
  LLJIT& jit = *session_->jit;
  SymbolLookupSet wanted;
  for (const std::string& name : names) wanted.add(jit.mangleAndIntern(name));
  wanted.removeDuplicates();
  SymbolMap found = value_of(
      jit.getExecutionSession().lookup({{&jit.getMainJITDylib(), JITDylibLookupFlags::MatchAllSymbols}}, wanted), "link");
  std::vector<void*> result;
  for (const std::string& name : names) result.push_back(found.at(jit.mangleAndIntern(name)).getAddress().toPtr<void*>());
  return result;
}

}  // namespace metac
