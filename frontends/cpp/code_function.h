// Functions over whole tensors: what the JSON IR's operator `code` is, written as C++ that any compiler reads.
//
//   void running_sum(const float* x, const int64_t* x_shape, float* sums);
//
// Operands are pointers to const, row-major; the last parameter is the result, of the shape of the first operand, every
// element of which is written. A parameter NAME_shape behind one of them points to its dims.
#pragma once
#include <clang/AST/Decl.h>

#include <optional>
#include <string>

#include "compiler/ops/model.h"
#include "frontends/cpp/source_error.h"

namespace metac {

// Is it one of these, and no element-wise operator?
bool is_code_function(const clang::FunctionDecl& function);

// By the operand of this name: the gradient that the file gives, NAME_gradient_OPERAND(operands..., result, its adjoint,
// out).
struct CodeGradient {
  std::string operand;
  const clang::FunctionDecl* function;
};

// A function of the model whose node is a `code`. Its text is compiled as it stands, and only with --allow-code.
ModelFunction function_of_code(const clang::FunctionDecl& function, const std::string& domain,
                               const std::vector<CodeGradient>& gradients, const clang::SourceManager& sources,
                               const clang::LangOptions& language);

}  // namespace metac
