#include "compiler/program/program_work.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "compiler/ir/expr_table.h"
#include "compiler/ir/hints.h"
#include "compiler/tensor/counts.h"

namespace metac {
namespace {

class Counts {
 public:
  Counts(const CompiledModel& model, const CompiledProgram& program)
      : model_(model), program_(program), counts_(program.steps.size()) {}

  std::vector<std::optional<int64_t>> run() {
    walk(0, program_.top_level_steps, 1);
    return std::move(counts_);
  }

 private:
  using Count = std::optional<int64_t>;
  static Count times(Count a, Count b) { return a && b ? checked_mul(*a, *b) : std::nullopt; }

  void walk(int begin, int end, Count each) {
    for (int i = begin; i < end; ++i) {
      const rt::Step& s = program_.steps[static_cast<size_t>(i)];
      counts_[static_cast<size_t>(i)] = each;
      if (s.kind == rt::StepKind::repeat)
        for (int k = s.then_begin; k < i; ++k)
          counts_[static_cast<size_t>(k)] =
              times(counts_[static_cast<size_t>(k)], s.parallel.length == 0 ? Count(s.parallel.value) : std::nullopt);
      if (s.kind == rt::StepKind::loop) walk(s.then_begin, s.then_end, times(each, trips_of(s)));
      if (s.kind != rt::StepKind::branch) continue;
      walk(s.then_begin, s.then_end, std::nullopt);
      walk(s.else_begin, s.else_end, std::nullopt);
    }
  }

  // Iterations of a loop that nothing but a constant ends.
  Count trips_of(const rt::Step& loop) const {
    const int32_t* operands = program_.operands.data() + loop.first;
    const int32_t next_condition = operands[2 + 4 * loop.carried];
    if (operands[0] < 0 || (operands[1] >= 0 && constant_at(operands[1]) != 1)) return std::nullopt;
    if (next_condition >= 0 && constant_at(next_condition) != 1) return std::nullopt;
    const Count trips = constant_at(operands[0]);
    return trips && *trips < 0 ? Count(0) : trips;
  }

  // The first element of a buffer that is a parameter or constant of the model, as the file has it.
  Count constant_at(int32_t buffer) const {
    while (program_.buffers[static_cast<size_t>(buffer)].kind == rt::BufferKind::view)
      buffer = program_.buffers[static_cast<size_t>(buffer)].index;
    const rt::Buffer& b = program_.buffers[static_cast<size_t>(buffer)];
    if (b.kind != rt::BufferKind::weight || &program_ != &model_.run) return std::nullopt;
    for (const WeightSource& source : model_.weights) {
      if (source.offset != b.offset || source.parameter < 0) continue;
      const Tensor& tensor = model_.parameters[static_cast<size_t>(source.parameter)].tensor;
      if (is_float(tensor.dtype) || tensor.element_count() != 1) return std::nullopt;
      return integer_at(tensor, 0);
    }
    return std::nullopt;
  }

  const CompiledModel& model_;
  const CompiledProgram& program_;
  std::vector<Count> counts_;
};

// Is it the same at every launch: made of dims of inputs alone?
bool is_of_inputs(Expr e, const std::set<int>& symbols) {
  return !any_of(e, [&](Expr n) { return n->kind == ExprKind::symbol && !symbols.count(n->id); });
}

// What a step does in all: rounds that do unevenly much do a part that grows with their length, and one that does not.
Expr of_all_rounds(Expr one, std::optional<int64_t> count, const UnevenRounds* uneven) {
  if (!one) return {};
  if (!uneven) return count ? times(*count, one) : Expr();
  const auto with_length = [&](Expr length) {
    return rewrite(one, [&](Expr n) { return n == symbol(uneven->length) ? length : Expr(); });
  };
  return plus(with_length(uneven->whole), times(with_length(0), uneven->count - Expr(1)));
}

void add(Expr& sum, Expr all, const std::set<int>& symbols) {
  if (bool(all) && all.is_int(0)) return;
  sum = bool(all) && is_of_inputs(all, symbols) ? plus(sum, all) : Expr();
}

}  // namespace

std::vector<std::optional<int64_t>> step_counts(const CompiledModel& model, const CompiledProgram& program) {
  return Counts(model, program).run();
}

std::vector<KernelWork> kernel_works(const CompiledModel& model, const CompiledProgram& program) {
  const ExprScope scope(model.expressions);
  std::set<int> symbols;
  for (const rt::SymbolSource& source : program.sources) symbols.insert(source.symbol);
  std::vector<KernelWork> works(program.kernels.size());
  const std::vector<std::optional<int64_t>> counts = step_counts(model, program);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const rt::Step& s = program.steps[i];
    if (s.kind != rt::StepKind::launch) continue;
    KernelWork& kernel = works[static_cast<size_t>(s.kernel)];
    const std::optional<int64_t> launches = kernel.launches;
    kernel.launches = launches && counts[i] ? checked_add(*launches, *counts[i]) : std::nullopt;
    if (s.parallel.length == 0 && s.parallel.value <= 0) continue;  // it is not started
    const UnevenRounds* uneven = nullptr;
    for (const UnevenRounds& u : program.uneven)
      if (u.begin <= static_cast<int32_t>(i) && static_cast<int32_t>(i) < u.end) uneven = &u;
    add(kernel.work.operations, of_all_rounds(program.work[i].operations, counts[i], uneven), symbols);
    add(kernel.work.bytes, of_all_rounds(program.work[i].bytes, counts[i], uneven), symbols);
  }
  return works;
}

std::optional<double> share_of(Expr part, Expr whole) {
  if (!part || !whole || whole.is_int(0)) return std::nullopt;
  if (part.is_int(0)) return 0.0;
  const Linear a = linear_form(part), b = linear_form(whole);
  if (a.terms.empty() && b.terms.empty()) return static_cast<double>(a.constant) / static_cast<double>(b.constant);
  if (a.constant != 0 || b.constant != 0 || a.terms.size() != 1 || b.terms.size() != 1 ||
      a.terms[0].first != b.terms[0].first)
    return std::nullopt;
  return static_cast<double>(a.terms[0].second) / static_cast<double>(b.terms[0].second);
}

Expr cost_by_size(int64_t cost, const Work& work, Expr tasks, const std::optional<ChainCosts>& costs,
                  const std::vector<Symbol>& symbols) {
  if (!costs || !work.operations || !work.bytes || cost <= 0) return {};
  const Expr all = work.operations + work.bytes * Expr(costs->byte_operations);
  std::set<int> open;
  for (Expr e : {all, tasks})
    visit(e, [&](Expr n) {
      if (n->kind == ExprKind::symbol) open.insert(n->id);
    });
  const auto of_a_task = [&](const std::vector<Symbol>& sizes) {
    return static_cast<double>(hinted_value(all, sizes)) /
           static_cast<double>(std::max<int64_t>(1, hinted_value(tasks, sizes)));
  };
  const double usual = of_a_task(symbols);
  bool changes = false;
  for (const int id : open)
    for (const double times : {1.0 / 16, 16.0}) {
      std::vector<Symbol> sizes = symbols;
      Symbol& s = sizes[static_cast<size_t>(id)];
      const int64_t hint = s.hint > 0 ? s.hint : std::max<int64_t>(s.min, 1);
      s.hint =
          std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(hint) * times), std::max<int64_t>(s.min, 1), s.max);
      const double here = of_a_task(sizes);
      changes |= here > 2 * usual || 2 * here < usual;
    }
  // In eighths, so that little is lost where a task does less than an operation in a nanosecond.
  const int64_t in_a_nanosecond = static_cast<int64_t>(8 * usual / static_cast<double>(cost));
  if (!changes || in_a_nanosecond <= 0) return {};
  return max(Expr(1), floor_div(floor_div(all * Expr(8), max(Expr(1), tasks)), Expr(in_a_nanosecond)));
}

Work host_work(const Op& op) {
  std::vector<const Var*> moved(op.inputs.begin(), op.inputs.end());
  moved.insert(moved.end(), op.outputs.begin(), op.outputs.end());
  return moving_work(moved);
}

}  // namespace metac
