#include "compiler/jit/clang_compiler.h"

#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/Version.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "compiler/codegen/cpp_kernel.h"
#include "compiler/jit/device_headers.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hashing.h"
#include "compiler/support/unfinished_folders.h"

namespace metac {

std::vector<std::string> compile_arguments(const CpuTarget& cpu) {
  std::vector<std::string> arguments = {
      "-triple", "x86_64-unknown-linux-gnu", "-target-cpu", cpu.name,
      "-x", "c++", "-std=c++17", "-w", "-emit-obj", "-O3",
      "-vectorize-loops", "-vectorize-slp",
      "-mrelocation-model", "pic", "-pic-level", "2",
      "-ffp-contract=off",      // bits must not depend on what an optimiser finds to contract
      "-mframe-pointer=none", "-fno-rtti", "-nostdsysteminc", "-nobuiltininc",
      "-fvisibility=hidden",    // of a library, kernels are no part of its interface
      "-I", "/metac", "-I", "/metac/runtime",
      "-ferror-limit", "5", "-fmessage-length=0",
  };
  if (cpu.has_vnni) arguments.insert(arguments.end(), {"-target-feature", "+avx512vnni"});
  if (cpu.vector_bytes == 64) arguments.push_back("-mprefer-vector-width=512");
  return arguments;
}

std::string compiler_identity(const CpuTarget& cpu) {
  std::string identity = "metac " METAC_VERSION "\n" + clang::getClangFullVersion() + "\n";
  for (const std::string& argument : compile_arguments(cpu)) identity += argument + "\n";
  for (const DeviceHeader& header : device_headers())
    identity += std::string(header.name) + " " + sha256_hex(std::string(header.text)) + "\n";
  return identity;
}

namespace {

// LLVM's own allocations fail where nothing can be unwound; without a handler they abort.
void end_without_memory(void*, const char*, bool) {
  remove_unfinished_folders();
  std::fputs("metac: out of memory\n", stderr);
  std::_Exit(1);
}

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_bad_alloc_error_handler(end_without_memory);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
}

llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> virtual_files(const std::string& source) {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  files->setCurrentWorkingDirectory("/metac");
  files->addFile("/metac/kernels.cpp", 0, llvm::MemoryBuffer::getMemBuffer(source));
  for (const DeviceHeader& header : device_headers())
    files->addFile("/metac/runtime/" + std::string(header.name), 0, llvm::MemoryBuffer::getMemBuffer(llvm::StringRef(header.text)));
  return files;
}

}  // namespace

std::string compile_object(const std::string& source, const CpuTarget& cpu) {
  initialise_llvm();
  std::string messages;
  llvm::raw_string_ostream message_stream(messages);
  auto context = std::make_unique<llvm::LLVMContext>();
  auto compiler = std::make_unique<clang::CompilerInstance>();
  auto action = std::make_unique<clang::EmitObjAction>(context.get());
  auto files = virtual_files(source);
  compiler->createDiagnostics(new clang::TextDiagnosticPrinter(message_stream, new clang::DiagnosticOptions), true);

  std::vector<std::string> arguments = compile_arguments(cpu);
  arguments.push_back("kernels.cpp");
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  bool good = clang::CompilerInvocation::CreateFromArgs(compiler->getInvocation(), pointers, compiler->getDiagnostics(), "metac");
  compiler->getFrontendOpts().DisableFree = false;
  compiler->setVerboseOutputStream(llvm::nulls());  // "1 error generated."
  compiler->createFileManager(files);

  llvm::SmallVector<char, 0> object;
  compiler->setOutputStream(std::make_unique<llvm::raw_svector_ostream>(object));
  try {
    good = good && compiler->ExecuteAction(*action) && !object.empty();
  } catch (const std::bad_alloc&) {
    // Clang is built without exceptions: nothing of it was unwound, and its destructors would meet what is half made.
    action.release(), compiler.release(), context.release();
    throw;
  }
  if (!good && source.find(users_code_mark) != std::string::npos) fail("the C++ of an operator code does not compile: ", message_stream.str());
  if (!good) throw KernelCompileError("a generated kernel does not compile: " + message_stream.str());
  return std::string(object.begin(), object.end());
}

}  // namespace metac
