#include "compiler/lazy/lazy_program.h"

#include <unistd.h>

#include <algorithm>

#include "compiler/jit/run_error.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/session/session_program.h"
#include "compiler/support/trace.h"

namespace metac::lazy {
namespace {

constexpr size_t most_programs = 4096;  // beyond, all are let go: a process that makes so many does not repeat itself

CompileOptions compile_options(const NextValues& next) {
  static const CpuTarget& cpu = *new CpuTarget(cpu_target("native"));
  CompileOptions options;
  options.cpu = cpu;
  options.next_values = next;
  return options;
}

}  // namespace

LazyProgram::LazyProgram(const Model& model, const NextValues& next, std::shared_ptr<rt::ThreadPool> threads,
                         std::shared_ptr<HostMemory> memory) {
  const CompileOptions compile = compile_options(next);
  const LowerOptions lower;
  const ProgramMaker maker{&lower, &compile, JitOptions{}, nullptr};
  program_ =
      std::make_unique<JitProgram>(maker.make(model, Reliance{}, nullptr)->code, std::move(threads), std::move(memory));
  overwrites_ = may_overwrite(program_->compiled(), next);
}

void LazyProgram::run(const std::vector<rt::InputView>& inputs, const std::vector<rt::OutputView>& outputs) {
  program_->run_views(inputs, outputs);
}

std::vector<Tensor> LazyProgram::run(const std::vector<Tensor>& inputs) { return program_->run(inputs); }

void LazyPrograms::start() {
  if (threads_) return;
  threads_ = started_threads(0);
  memory_ = std::make_shared<HostMemory>();
  process_ = getpid();
}

void LazyPrograms::check_process() const {
  if (threads_ && process_ != getpid())
    throw RunError(rt::Status::unsupported,
                   {"", "",
                    "Vars were computed before this process was forked, and the threads for that are not here: "
                    "compute in the parent, or start processes anew"});
}

std::shared_ptr<LazyProgram> LazyPrograms::kept(const StructureHash& key, const Model& model, const NextValues& next) {
  const trace::Span span("lazy", "compile a cut");
  start();
  auto made = std::make_shared<LazyProgram>(model, next, threads_, memory_);
  ++made_;
  if (programs_.size() >= most_programs) programs_.clear();
  programs_.emplace(key, made);
  return made;
}

std::shared_ptr<LazyProgram> LazyPrograms::find(const Cut& cut) {
  check_process();
  const StructureHash key = structure_of(cut);
  const auto found = programs_.find(key);
  return found != programs_.end() ? found->second : kept(key, model_of(cut), cut.next_values);
}

std::shared_ptr<LazyProgram> LazyPrograms::find(const Node& node) {
  StructureHash key;
  key.mix(~node.operation->number);
  key.mix(uint64_t{node.output_count} << 32 | node.input_count);
  for (uint32_t k = 0; k < node.input_count; ++k) {
    const Value* const operand = node.inputs()[k];
    key.mix(!operand ? 0 : operand->content ? ~operand->content : operand->type->number);
    // One value as two operands is one input of the program.
    key.mix(static_cast<uint64_t>(std::find(node.inputs(), node.inputs() + k, operand) - node.inputs()));
  }
  const auto found = programs_.find(key);
  if (found != programs_.end()) return found->second;
  return kept(key, model_of_node(*node.operation, node.inputs(), node.input_count, node.output_count), {});
}

}  // namespace metac::lazy
