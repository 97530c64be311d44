// Result<T>: a value, or the Diagnostic that says why there is none. The public API returns these; inside the compiler
// diagnostics travel as the exception CompileError, and capture() is the one place where the one becomes the other.
#pragma once
#include <utility>
#include <variant>

#include "compiler/support/diagnostic.h"

namespace metac {

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Diagnostic diagnostic) : state_(std::move(diagnostic)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return checked(), std::get<0>(state_); }
  const T& value() const& { return checked(), std::get<0>(state_); }
  T&& value() && { return checked(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  T* operator->() { return &value(); }

  const Diagnostic& diagnostic() const {
    METAC_ASSERT(!ok(), "a Result with a value has no diagnostic");
    return std::get<1>(state_);
  }

 private:
  void checked() const { METAC_ASSERT(ok(), ok() ? "" : diagnostic().text()); }
  std::variant<T, Diagnostic> state_;
};

// Runs `f`; a CompileError it throws becomes the Result's diagnostic.
template <typename F>
auto capture(F&& f) -> Result<decltype(f())> {
  try {
    return std::forward<F>(f)();
  } catch (const CompileError& error) {
    return error.diagnostic;
  }
}

}  // namespace metac
