// The text of a kernel, and what printers of loop trees have in common.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/schedule.h"

namespace metac {

struct KernelSource {
  std::string name;                    // of our own words: "k017_conv3x3_add_relu"
  std::string text;                    // a head comment and the definition: extern "C" void k017_...(void* const* b, const
                                       // int64_t* s, void* scratch, int64_t begin, int64_t end) { ... }
                                       // includes nothing; needs "device/prelude.h" (runtime/device/) before it
  std::vector<int> nodes;              // indices of the model nodes that all its launches implement, ascending
  std::vector<std::string> schedule;   // the transforms applied, for the manifest and for people
  std::string subject;                 // a contraction: of decisions about it (compiler/target/choices.h)
  Schedule decisions;                  // and what was decided
  std::vector<std::string> libraries;  // of the vendor, asked first, in this order: "cublasLt", "cudnn"
  std::vector<int> symbols;            // that it reads, ascending
  // Names of the types that it reads and writes, and of those whose products it adds up (on a GPU "tf32" too), ascending.
  std::vector<std::string> reads, writes, multiplies;
};

// A kernel's text, once it is printed, with what its loop tree says of it; its subject and libraries are for others to add.
KernelSource source_of(const Kernel& kernel, std::string text, const std::set<int>& symbols);

struct KernelPrinting {
  const std::vector<Symbol>* symbols = nullptr;
  int vector_bytes = 64;  // of the CPU
  bool tf32 = false;      // of vendor libraries: float32 operands may be rounded to 10 bits of mantissa
};

// The text of a kernel under another name and without comments of ours: kernels that agree in it do the same.
std::string text_named(const KernelSource& kernel, const std::string& name);
// An op that is the user's C++ as a kernel of one task (cpp_code.cpp). `name` is the kernel's; buffers are the op's inputs,
// then its output, all row-major.
KernelSource print_code(const Op& op, const std::string& name, const std::vector<Symbol>& symbols);
// What stands before the user's text in such a kernel, and in no other: a text that does not compile is then the user's.
extern const char* const users_code_mark;
// Bytes of scratch that one worker needs, as an Expr over symbols.
Expr scratch_bytes(const Kernel& kernel);

}  // namespace metac
