#include "frontends/cpp/parse_source.h"

#include <clang/AST/ASTContext.h>
#include <clang/Basic/Diagnostic.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Sema/Sema.h>
#include <clang/Sema/SemaConsumer.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>

#include <exception>
#include <optional>

#include "frontends/cpp/mathematics.h"
#include "frontends/cpp/source_error.h"

namespace metac {
namespace {

constexpr const char* header_folder = "/metac-operators";

// Clang's words, the first error's alone.
class FirstError : public clang::DiagnosticConsumer, public CppMessages {
 public:
  void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic& info) override {
    clang::DiagnosticConsumer::HandleDiagnostic(level, info);
    if (level < clang::DiagnosticsEngine::Error || error_) return;
    llvm::SmallString<256> text;
    info.FormatDiagnostic(text);
    const std::string place =
        info.hasSourceManager() && info.getLocation().isValid() ? place_of(info.getSourceManager(), info.getLocation()) : "";
    error_ = Diagnostic{place, "", std::string(text)};
  }
  bool take_error(std::string* place, std::string* message) override {
    if (!error_) return false;
    *place = error_->file;
    *message = error_->message;
    error_.reset();
    return true;
  }
  void throw_error(const std::string& path) {
    std::string place, message;
    if (take_error(&place, &message)) throw CompileError(Diagnostic{place.empty() ? path : place, "", message});
  }

 private:
  std::optional<Diagnostic> error_;
};

// Clang is built without exceptions: what `use` throws waits until Clang has returned.
class UseTree : public clang::SemaConsumer {
 public:
  UseTree(const std::function<void(ParsedSource&)>& use, FirstError& messages, std::exception_ptr& thrown)
      : use_(use), messages_(messages), thrown_(thrown) {}
  void InitializeSema(clang::Sema& sema) override { sema_ = &sema; }
  void ForgetSema() override { sema_ = nullptr; }
  void HandleTranslationUnit(clang::ASTContext& context) override {
    if (context.getDiagnostics().hasErrorOccurred() || !sema_) return;
    try {
      ParsedSource parsed{context, *sema_, messages_};
      use_(parsed);
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }

 private:
  const std::function<void(ParsedSource&)>& use_;
  FirstError& messages_;
  std::exception_ptr& thrown_;
  clang::Sema* sema_ = nullptr;
};

class UseTreeAction : public clang::ASTFrontendAction {
 public:
  UseTreeAction(const std::function<void(ParsedSource&)>& use, FirstError& messages, std::exception_ptr& thrown)
      : use_(use), messages_(messages), thrown_(thrown) {}
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance&, llvm::StringRef) override {
    return std::make_unique<UseTree>(use_, messages_, thrown_);
  }

 private:
  const std::function<void(ParsedSource&)>& use_;
  FirstError& messages_;
  std::exception_ptr& thrown_;
};

}  // namespace

void parse_source(const std::string& text, const std::string& path, const std::function<void(ParsedSource&)>& use) {
  auto headers = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  for (const auto& [name, declarations] : mathematics_headers())
    headers->addFile(std::string(header_folder) + "/" + name, 0, llvm::MemoryBuffer::getMemBuffer(declarations));
  headers->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(text, path));
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::OverlayFileSystem>(llvm::vfs::getRealFileSystem());
  files->pushOverlay(headers);
  if (const auto folder = llvm::vfs::getRealFileSystem()->getCurrentWorkingDirectory()) {
    headers->setCurrentWorkingDirectory(*folder);
    headers->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(text, path));
  }
  FirstError messages;
  clang::CompilerInstance compiler;
  compiler.createDiagnostics(&messages, false);
  const char* arguments[] = {"-triple",
                             "x86_64-unknown-linux-gnu",
                             "-x",
                             "c++",
                             "-std=c++17",
                             "-fsyntax-only",
                             "-nostdsysteminc",
                             "-nobuiltininc",
                             "-isystem",
                             header_folder,
                             "-w",
                             "-fno-builtin",
                             "-ferror-limit",
                             "0",
                             "-fbracket-depth",
                             "256",
                             path.c_str()};
  const bool good =
      clang::CompilerInvocation::CreateFromArgs(compiler.getInvocation(), arguments, compiler.getDiagnostics(), "metac");
  compiler.getFrontendOpts().DisableFree = false;
  compiler.setVerboseOutputStream(llvm::nulls());
  compiler.createFileManager(files);
  std::exception_ptr thrown;
  UseTreeAction action(use, messages, thrown);
  if (good) compiler.ExecuteAction(action);
  if (thrown) std::rethrow_exception(thrown);
  messages.throw_error(path);
}

}  // namespace metac
