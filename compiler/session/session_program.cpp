#include "compiler/session/session_program.h"

#include "compiler/ir/expr_table.h"
#include "compiler/session/given_inputs.h"
#include "compiler/session/naming_the_model.h"
#include "compiler/session/program_cache.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/interruption.h"
#include "compiler/support/seconds.h"
#include "compiler/support/trace.h"
#include "compiler/target/target.h"

namespace metac {
namespace {

// The parameters that the model has the elements of get them from there.
std::vector<RawParameter> with_elements(std::vector<RawParameter> parameters, const Model& model) {
  for (RawParameter& parameter : parameters)
    if (!parameter.name.empty()) parameter.tensor = initializer_of(model, parameter.name)->tensor;
  return parameters;
}

// The model keeps what it has the elements of; what else there is has no name.
void leave_elements_to(const Model& model, std::vector<RawParameter>& parameters) {
  for (RawParameter& parameter : parameters) {
    const Initializer* initializer = initializer_of(model, parameter.name);
    if (initializer && initializer->tensor.bytes == parameter.tensor.bytes)
      parameter.tensor.bytes.reset();
    else
      parameter.name.clear();  // of a subgraph, or folded
  }
}

}  // namespace

std::shared_ptr<const CompiledModel> ProgramMaker::compiled_model(const Model& model, const LowerOptions& options,
                                                                  SpecialisationTimes* took) const {
  const double begin = seconds();
  const ProgramCache cache(jit.kernels().cache(), model, options, *compile);
  {
    const trace::Span span("session", "look for the program");
    if (std::optional<CompiledModel> found = cache.load()) {
      trace::instant("session", "the program is on disk", {});
      took->compile = seconds() - begin;
      return std::make_shared<const CompiledModel>(std::move(*found));
    }
  }
  const ExprScope scope;
  std::unique_ptr<Graph> graph;
  {
    const trace::Span span("session", "lower");
    graph = lower_model(model, options);
  }
  const double lowered = seconds();
  auto compiled = std::make_shared<CompiledModel>();
  {
    const trace::Span span("session", "passes");
    *compiled = compile_graph(*graph, *compile);
  }
  graph.reset();
  compiled->drop_expressions();
  leave_elements_to(model, compiled->parameters);
  cache.store(*compiled);
  *took = {lowered - begin, seconds() - lowered};
  return compiled;
}

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
    SpecialisationTimes took;
    const std::shared_ptr<const CompiledModel> compiled = compiled_model(model, relying_on(*lower, model, reliance), &took);
    const double made = seconds();
    PreparedWeights block = prepared(*compiled, with_elements(compiled->parameters, model));
    took.prepare = seconds() - made;
    auto program = std::make_shared<SessionProgram>();
    program->reliance = reliance;
    program->compiled = compiled;
    for (const WeightSource& source : compiled->weights) program->weight_bytes += source.bytes;
    const trace::Span span("session", "kernels");
    program->code = std::make_shared<const JitCode>(std::shared_ptr<const CompiledProgram>(compiled, &compiled->run),
                                                    std::move(block), compile->cpu, options());
    took.kernels = seconds() - made - took.prepare;
    if (times) *times = took;
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
  // Integers are structure; floats are where the compiler looked at their values.
  for (const std::string& name : changed)
    if (!is_float(initializer_of(model, name)->tensor.dtype) || program.compiled->relied_on.count(name)) return nullptr;
  return naming_the_model(model.path, [&] {
    const CompiledModel& compiled = *program.compiled;
    return std::make_shared<const JitCode>(code, prepared(compiled, with_elements(compiled.parameters, model)));
  });
}

}  // namespace metac
