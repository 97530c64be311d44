#include "compiler/jit/clang_compiler.h"

#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/Version.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/FrontendActions.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Lex/PreprocessorOptions.h>
#include <clang/Serialization/ASTWriter.h>
#include <clang/Serialization/ModuleFileExtension.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "compiler/jit/device_headers.h"
#include "compiler/jit/precompiled_prelude.h"
#include "compiler/printing/kernel_source.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hashing.h"
#include "compiler/support/host_process.h"
#include "compiler/support/unfinished_folders.h"

namespace metac {

std::vector<std::string> compile_arguments(const CpuTarget& cpu) {
  std::vector<std::string> arguments = {
      "-triple",
      "x86_64-unknown-linux-gnu",
      "-target-cpu",
      std::string(cpu.instructions().march),
      "-x",
      "c++",
      "-std=c++17",
      "-w",
      "-emit-obj",
      "-O3",
      "-vectorize-loops",
      "-vectorize-slp",
      "-mrelocation-model",
      "pic",
      "-pic-level",
      "2",
      "-ffp-contract=off",                   // bits must not depend on what an optimiser finds to contract
      "-fdenormal-fp-math=dynamic,dynamic",  // not so, but LLVM 17 to 19 join two tests of a class of floats only where
                                             // denormals are denormals, and take |x| > 0 for x > 0 on the way: Relu(Abs(x))
                                             // was 0 for x < 0
      "-mframe-pointer=none",
      "-fno-rtti",
      "-nostdsysteminc",
      "-nobuiltininc",
      "-fvisibility=hidden",  // of a library, kernels are no part of its interface
      "-I",
      "/metac",
      "-I",
      "/metac/runtime",
      "-disable-llvm-verifier",
      "-discard-value-names",  // as every release of a compiler: they check and name for people
      "-ferror-limit",
      "5",
      "-fmessage-length=0",
  };
  for (std::string_view flag : cpu.instructions().flags)  // -mNAME is a feature to the compiler proper
    if (flag.find('=') == std::string_view::npos)
      arguments.insert(arguments.end(), {"-target-feature", concat("+", flag.substr(2))});
    else
      arguments.emplace_back(flag);
  return arguments;
}

std::string compiler_version() { return "LLVM " LLVM_VERSION_STRING; }

std::string compiler_identity(const CpuTarget& cpu) {
  // The headers never change in a process, and hashing them takes longer than all else that looking a kernel up does.
  static const std::string& headers = *new std::string([] {
    std::string hashes;
    for (const DeviceHeader& header : device_headers())
      hashes += std::string(header.name) + " " + sha256_hex(std::string(header.text)) + "\n";
    return hashes;
  }());
  std::string identity = "metac " METAC_VERSION "\n" + clang::getClangFullVersion() + "\n";
  for (const std::string& argument : compile_arguments(cpu)) identity += argument + "\n";
  return identity + headers;
}

namespace {

// LLVM's own allocations fail where no destructor runs on the way out; without a handler they abort. In somebody else's
// process what LLVM held is lost then.
void end_without_memory(void*, const char*, bool) {
  if (is_guest()) throw std::bad_alloc();
  remove_unfinished_folders();
  std::fputs("metac: out of memory\n", stderr);
  std::_Exit(1);
}

// Defects of LLVM, or of what it was given; its own handler prints and ends the process.
void throw_internal_error(void*, const char* reason, bool) { throw InternalError(concat("LLVM: ", reason)); }

}  // namespace

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_bad_alloc_error_handler(end_without_memory);
    if (is_guest()) llvm::install_fatal_error_handler(throw_internal_error);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
}

namespace {

llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> virtual_files(const std::string& source) {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  files->setCurrentWorkingDirectory("/metac");
  files->addFile("/metac/kernels.cpp", 0, llvm::MemoryBuffer::getMemBuffer(source));
  for (const DeviceHeader& header : device_headers())
    files->addFile("/metac/runtime/" + std::string(header.name), 0,
                   llvm::MemoryBuffer::getMemBuffer(llvm::StringRef(header.text)));
  return files;
}

// A compiler of one text with what it needs around it.
class Compilation {
 public:
  Compilation(std::string source, const CpuTarget& cpu)
      : source_(std::move(source)), files_(virtual_files(source_)), arguments_(compile_arguments(cpu)) {
    compiler_->createDiagnostics(new clang::TextDiagnosticPrinter(message_stream_, new clang::DiagnosticOptions), true);
  }

  clang::CompilerInstance& compiler() { return *compiler_; }
  llvm::LLVMContext& context() { return *context_; }
  std::string messages() { return message_stream_.str(); }
  void add(std::initializer_list<const char*> arguments) {
    arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
  }
  void replace(const char* argument, const char* by) {
    std::replace(arguments_.begin(), arguments_.end(), std::string(argument), std::string(by));
  }
  void add_file(const char* path, const std::string& bytes) {
    files_->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(bytes, "", false));
  }

  template <typename Action>
  bool run(std::unique_ptr<Action> action) {
    arguments_.push_back("kernels.cpp");
    std::vector<const char*> pointers;
    for (const std::string& argument : arguments_) pointers.push_back(argument.c_str());
    const bool good = clang::CompilerInvocation::CreateFromArgs(compiler_->getInvocation(), pointers,
                                                                compiler_->getDiagnostics(), "metac");
    compiler_->getFrontendOpts().DisableFree = false;
    compiler_->setVerboseOutputStream(llvm::nulls());  // "1 error generated."
    compiler_->createFileManager(files_);
    try {
      return good && compiler_->ExecuteAction(*action);
    } catch (const std::bad_alloc&) {
      // Clang is built without exceptions: nothing of it was unwound, and its destructors would meet what is half made.
      action.release(), compiler_.release(), context_.release();
      throw;
    }
  }

 private:
  std::string source_, messages_;
  llvm::raw_string_ostream message_stream_{messages_};
  std::unique_ptr<llvm::LLVMContext> context_ = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<clang::CompilerInstance> compiler_ = std::make_unique<clang::CompilerInstance>();
  llvm::IntrusiveRefCntPtr<llvm::vfs::InMemoryFileSystem> files_;
  std::vector<std::string> arguments_;
};

// Keeps the tree in memory; Clang's own action writes a file.
class KeepTree : public clang::ASTFrontendAction {
 public:
  explicit KeepTree(std::shared_ptr<clang::PCHBuffer> tree) : tree_(std::move(tree)) {}
  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance& compiler, llvm::StringRef) override {
    return std::make_unique<clang::PCHGenerator>(compiler.getPreprocessor(), compiler.getModuleCache(), "", "", tree_,
                                                 compiler.getFrontendOpts().ModuleFileExtensions);
  }

 private:
  std::shared_ptr<clang::PCHBuffer> tree_;
};

}  // namespace

std::string compile_prelude(const CpuTarget& cpu) {
  initialise_llvm();
  Compilation compilation(prelude_line, cpu);
  compilation.replace("-emit-obj", "-emit-pch");
  compilation.add({"-fpch-instantiate-templates"});
  auto tree = std::make_shared<clang::PCHBuffer>();
  if (!compilation.run(std::make_unique<KeepTree>(tree)) || !tree->IsComplete)
    throw KernelCompileError("the device headers do not compile: " + compilation.messages());
  return std::string(tree->Data.begin(), tree->Data.end());
}

std::string compile_object(const std::string& source, const CpuTarget& cpu) {
  initialise_llvm();
  const bool has_prelude = source.starts_with(prelude_line);
  Compilation compilation(has_prelude ? source.substr(std::strlen(prelude_line) - 1) : source, cpu);
  if (has_prelude) {
    compilation.add_file("/metac/prelude.pch", precompiled_prelude(cpu));
    compilation.add({"-include-pch", "/metac/prelude.pch",
                     "-fno-validate-pch"});  // its files are those of this process: its key says so
  }
  llvm::SmallVector<char, 0> object;
  compilation.compiler().setOutputStream(std::make_unique<llvm::raw_svector_ostream>(object));
  const bool good = compilation.run(std::make_unique<clang::EmitObjAction>(&compilation.context())) && !object.empty();
  if (!good && source.find(users_code_mark) != std::string::npos)
    fail("the C++ of an operator code does not compile: ", compilation.messages());
  if (!good) throw KernelCompileError("a generated kernel does not compile: " + compilation.messages());
  return std::string(object.begin(), object.end());
}

}  // namespace metac
