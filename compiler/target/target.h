// What a target is to the rest of the compiler: its own passes, the way kernels are lowered and printed, and what it can. Of
// each there is one object (cpu/target_cpu.cpp, gpu/target_gpu.cpp). Nothing outside asks which one it has before it: what
// differs is a question that the object answers.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/machine/chain_costs.h"
#include "compiler/printing/kernel_source.h"
#include "compiler/target/compile_options.h"
#include "compiler/target/project_parts.h"

namespace metac {

// What passes work on: a region of the graph and all that is decided about it so far.
struct RegionState {
  Graph& graph;
  FusedRegion& region;
  FusedRegion& prepare;  // what runs once, when the model is compiled
  Layouts& layouts;
  const Needed& needed;
  std::function<bool(const Var*)> is_constant;  // a parameter, a constant, or made by `prepare`
  const CompileOptions& options;
  bool top = true;  // the model's own steps, not those of a branch or loop
};

// A pass over the regions of a program, between fusion and the program: from definitions and groups to strategies, layouts
// and more kernels. `run` returns the Vars that `prepare` makes in addition.
struct TargetPass {
  std::string_view name, reason;
  std::function<std::vector<Var*>(RegionState&)> run;
};

// What one start of a kernel does: one group, or several that do the same to other values.
struct Launch {
  Kernel kernel;
  Group group;                  // what it computes; of several members: all of theirs
  std::vector<Kernel> members;  // empty: it is one group's
  int64_t pack = 1;             // of members: neighbouring elements that a thread does
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string_view name() const = 0;

  // ---- what it can ----
  // Operators whose body is the user's C++.
  virtual bool runs_users_code() const = 0;
  // Weights may be copied in while a model runs, where a budget of memory is less than they take.
  virtual bool copies_weights_in() const { return false; }
  // A process opens a device before it runs kernels, which takes longer than most kernels do.
  virtual bool opens_a_device() const { return false; }
  // What chains of launches are weighed by that its workers do side by side (compiler/program/place_chains.h); none: they
  // do one launch after the other.
  virtual std::optional<ChainCosts> chain_costs() const { return std::nullopt; }
  // Its strategies give schedules, which --tune measures and --tune-from brings back (target/choices.h).
  virtual bool takes_schedules() const = 0;

  // ---- projects ----
  // `architectures`: which of its devices machine code is for, in the target's own words (--arch); empty: its default.
  // Throws CompileError where they are none.
  virtual ProjectParts project_parts(const std::string& architectures) const;
  // The vendor's libraries that kernels ask first, by what people say of them (--external, --tf32); empty: the default.
  // Throws CompileError where the target has not these.
  virtual ExternalLibraries external_libraries(const std::string& asked, bool tf32) const;
  virtual std::string_view default_libraries() const { return "none"; }

  // ---- passes ----
  // Reading half types as float32 costs nothing: the conversion is a move.
  virtual bool widens_freely() const = 0;
  // Behind fusion, and before `prepare` is split off: what the target fuses further. `ops`: those that the region was made
  // of.
  virtual void fuse_further(RegionState& state, const std::vector<Op*>& ops) const = 0;
  // Once, for the top region as it stays; may make Vars.
  virtual void finish_fusion(RegionState& /*state*/, const std::vector<Op*>& /*ops*/) const {}
  // In order. Every pass goes over all regions before the next begins.
  virtual const std::vector<TargetPass>& passes() const = 0;

  // ---- kernels ----
  virtual LoweringContext lowering_context(const Graph& graph, const Layouts& layouts, const CompileOptions& options) const;
  // A group without a strategy.
  virtual Kernel lower_plainly(const Group& group, const LoweringContext& context) const = 0;
  virtual GatheredRegion gather(const FusedRegion& region, const LoweringContext& context) const = 0;
  // `count` items from `first` on that gather() has put together.
  virtual Launch lower_together(const std::vector<Item>& items, size_t first, int count,
                                const LoweringContext& context) const = 0;
  virtual KernelSource print(const Launch& launch, const std::vector<Symbol>& symbols,
                             const CompileOptions& options) const = 0;
};

// The group's strategy lowers it, or the target does.
Kernel lower(const Target& target, const Group& group, const LoweringContext& context);

// All there are, the first one is the default.
const std::vector<const Target*>& targets();
// Throws CompileError with their names.
const Target& target_named(std::string_view name);

}  // namespace metac
