// Compiled programs on disk, in the cache that kernels lie in: a model that one process compiled, another one of the same
// build runs without lowering it again. docs/decisions/kernel_cache.md tells why.
//
// A program is found by the SHA-256 of all that decides it: the build, the options, and the model but for the elements of
// its large initialisers of floats, which programs take as they come. Where a compilation looked at such elements after
// all, the program says so (CompiledModel::relied_on), and is taken only where they are the same.
#pragma once
#include <optional>
#include <string>

#include "compiler/ops/lower_model.h"
#include "compiler/program/compile.h"

namespace metac {

class ObjectCache;

class ProgramCache {
 public:
  // What is compiled with these; `cache` must outlive it.
  ProgramCache(ObjectCache& cache, const Model& model, const LowerOptions& lower, const CompileOptions& compile);

  // Its parameters of which the model has the elements are without them.
  std::optional<CompiledModel> load() const;
  // `program`: of such parameters too.
  void store(const CompiledModel& program) const;

 private:
  ObjectCache& cache_;
  const Model& model_;
  std::string key_;  // empty: not to be cached
};

}  // namespace metac
