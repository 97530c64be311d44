#include "compiler/session/session_program.h"

#include "compiler/ir/expr_table.h"
#include "compiler/session/given_inputs.h"
#include "compiler/session/naming_the_model.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/interruption.h"
#include "compiler/support/seconds.h"
#include "compiler/support/trace.h"
#include "compiler/target/target.h"

namespace metac {
PreparedWeights ProgramMaker::prepared(const CompiledModel& compiled, const std::vector<RawParameter>& parameters) const {
  const trace::Span span("session", "prepare weights");
  if (!weights) return run_prepare(compiled, parameters, compile->cpu, options());
  return weights->prepare(compiled, parameters, compile->cpu, options());
}

JitOptions ProgramMaker::options() const {
  JitOptions options = jit;
  if (Interruption::of_thread()) options.threads = 1;  // behind runs: the processors are theirs
  return options;
}

std::shared_ptr<SessionProgram> ProgramMaker::make(const Model& model, const Reliance& reliance,
                                                   SpecialisationTimes* times) const {
  return naming_the_model(model.path, [&] {
    const double begin = seconds();
    const ExprScope scope;
    std::unique_ptr<Graph> graph;
    {
      const trace::Span span("session", "lower");
      graph = lower_model(model, relying_on(*lower, model, reliance));
    }
    const double lowered = seconds();
    auto compiled = std::make_shared<CompiledModel>();
    {
      const trace::Span span("session", "passes");
      *compiled = compile_graph(*graph, *compile);
    }
    graph.reset();
    compiled->drop_expressions();
    const double made = seconds();
    PreparedWeights block = prepared(*compiled, compiled->parameters);
    const double prepared_at = seconds();
    for (RawParameter& parameter : compiled->parameters) {
      const Initializer* initializer = initializer_of(model, parameter.name);
      if (initializer && initializer->tensor.bytes == parameter.tensor.bytes)
        parameter.tensor.bytes.reset();  // the model has them
      else
        parameter.name.clear();  // of a subgraph, or folded
    }
    auto program = std::make_shared<SessionProgram>();
    program->reliance = reliance;
    program->compiled = compiled;
    for (const WeightSource& source : compiled->weights) program->weight_bytes += source.bytes;
    const trace::Span span("session", "kernels");
    program->code = std::make_shared<const JitCode>(std::shared_ptr<const CompiledProgram>(compiled, &compiled->run),
                                                    std::move(block), compile->cpu, options());
    if (times) *times = {lowered - begin, made - lowered, seconds() - prepared_at, prepared_at - made};
    return program;
  });
}

bool ProgramMaker::can_make(const Model& model, const Reliance& reliance) const {
  try {
    const ExprScope scope;
    const std::unique_ptr<Graph> graph = lower_model(model, relying_on(*lower, model, reliance));
    compile_graph(*graph, *compile);
    return true;
  } catch (const CompileError&) {
    return false;
  }
}

std::shared_ptr<const JitCode> ProgramMaker::with_weights(const SessionProgram& program, const JitCode& code,
                                                          const Model& model, const std::set<std::string>& changed) const {
  // Only floats are weights to all passes; other numbers may have become structure.
  for (const std::string& name : changed)
    if (!is_float(initializer_of(model, name)->tensor.dtype)) return nullptr;
  std::vector<RawParameter> parameters = program.compiled->parameters;
  for (RawParameter& parameter : parameters)
    if (!parameter.name.empty()) parameter.tensor = initializer_of(model, parameter.name)->tensor;
  return naming_the_model(
      model.path, [&] { return std::make_shared<const JitCode>(code, prepared(*program.compiled, parameters)); });
}

}  // namespace metac
