#include "compiler/program/build_program.h"

#include <algorithm>
#include <functional>

#include "compiler/ir/hints.h"
#include "compiler/ir/reads.h"
#include "compiler/loops/zero_halo.h"
#include "compiler/passes/loop_dims.h"
#include "compiler/printing/kernel_source.h"
#include "compiler/program/emit_extent.h"
#include "compiler/program/kernel_names.h"
#include "compiler/program/memory/plan_memory.h"
#include "compiler/program/memory/reuse_in_place.h"
#include "compiler/program/memory/state_rows.h"
#include "compiler/program/place_chains.h"
#include "compiler/program/place_exchanges.h"
#include "compiler/program/program_work.h"
#include "compiler/program/read_symbols.h"
#include "compiler/program/verify_program.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/target.h"
#include "compiler/tensor/work.h"

namespace metac {
namespace {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const ProgramRequest& request)
      : r_(request),
        graph_(*request.graph),
        context_(request.target->lowering_context(graph_, *request.layouts, *request.options)),
        names_(graph_.ops) {}

  CompiledProgram run() {
    collect_symbols();
    kept_ = handed_on(graph_.ops);
    for (const ProgramInput& out : r_.outputs) kept_.insert(out.var->id);
    add_views(*r_.top);
    for (auto& [unused, region] : *r_.regions) add_views(region);
    for (size_t k = 0; k < r_.inputs.size(); ++k) {
      int buffer = add_buffer(r_.inputs[k].var, rt::BufferKind::input, static_cast<int>(k));
      program_.inputs.push_back(port(r_.inputs[k].name, r_.inputs[k].var, buffer));
    }
    add_outputs();
    std::set<int> bound;
    for (size_t k = 0; k < graph_.symbols.size(); ++k)
      if (graph_.symbols[k].from_input) bound.insert(static_cast<int>(k));
    emit_region(*r_.top, bound, [&] {
      for (auto [from, to] : output_copies_) copy(from, to);
    });
    program_.top_level_steps = static_cast<int32_t>(program_.steps.size());
    while (!pending_.empty()) {
      auto next = std::move(pending_.front());
      pending_.erase(pending_.begin());
      next();
    }
    for (auto& [kernel, nodes] : more_nodes_) {
      std::sort(nodes.begin(), nodes.end());
      names_.add_nodes(program_.kernels[static_cast<size_t>(kernel)], nodes);
    }
    place_exchanges(program_, exchanged_);
    if (r_.with_requirements) program_.states = state_rows(graph_, program_);
    if (r_.options->memory_budget == 0)
      place_chains(program_, r_.options->chains ? r_.options->chains : r_.target->chain_costs());
    for (const Work& work : program_.work)
      program_.work_extents.push_back({known_extent(work.operations), known_extent(work.bytes)});
    verify_program(program_);
    plan_buffers(program_);
    program_.weight_bytes = r_.weight_bytes, program_.own_outputs = r_.with_requirements && graph_.last_step_of >= 0;
    return std::move(program_);
  }

 private:
  // ---- tables ----
  void collect_symbols() {
    for (size_t k = 0; k < graph_.symbols.size(); ++k) {
      const Symbol& s = graph_.symbols[k];
      program_.symbols.push_back(
          {s.name, s.stated_min(), s.max, s.divisor, hinted_value(symbol(static_cast<int>(k)), graph_.symbols)});
    }
    for (size_t k = 0; k < r_.inputs.size(); ++k) {
      const Shape& shape = r_.inputs[k].var->shape();
      for (size_t d = 0; d < shape.size(); ++d)
        if (shape[d]->kind == ExprKind::symbol)
          program_.sources.push_back({shape[d]->id, static_cast<int32_t>(k), static_cast<int32_t>(d)});
    }
  }

  rt::Extent extent(Expr e) { return extents_.of(e, program_.code); }
  rt::Extent known_extent(Expr e) { return extents_.if_known(e, program_.code); }

  int first_dim(const Shape& shape) { return extents_.of_dims(shape, program_.code, program_.extents); }

  Layout layout_of(const Var* var) const { return r_.layouts->count(var->id) ? r_.layouts->at(var->id) : Layout(); }

  int add_buffer(const Var* var, rt::BufferKind kind, int index, int64_t offset = -1) {
    rt::Buffer b{};
    b.kind = kind;
    b.dtype = static_cast<rt::ScalarType>(var->dtype());
    if (var->rank() > rt::most_dims) fail("a tensor of ", var->rank(), " dims; the most is ", rt::most_dims);
    b.rank = static_cast<int16_t>(var->rank());
    b.index = index;
    b.offset = offset;
    b.first_dim = first_dim(var->shape());
    Expr bytes = at_most(storage_elements(var->shape(), layout_of(var))) * Expr(static_cast<int64_t>(size_of(var->dtype())));
    if (bytes.if_int() && bytes.as_int() > r_.options->max_tensor_bytes)
      fail("a tensor of shape ", to_string(var->shape()), " would be ", bytes.as_int() >> 20, " MiB, the limit is ",
           r_.options->max_tensor_bytes >> 20, " MiB (--max-tensor-bytes)");
    b.bytes = extent(bytes);
    visit_symbols(bytes, [&](int symbol) { b.late |= !graph_.symbols[static_cast<size_t>(symbol)].from_input; });
    b.first_step = b.last_step = -1;
    program_.buffers.push_back(b);
    const int id = static_cast<int>(program_.buffers.size()) - 1;
    if (kind != rt::BufferKind::output || !buffers_.count(var->id)) buffers_[var->id] = id;
    return id;
  }

  // What has its place before the run has it for the most that its size comes to.
  Expr at_most(Expr size) const {
    return rewrite(size, [&](Expr n) {
      return n->kind == ExprKind::symbol ? graph_.symbols[static_cast<size_t>(n->id)].most : Expr();
    });
  }

  void add_views(const FusedRegion& region) {
    for (auto& [view, source] : region.views) views_[view] = source;
  }

  int buffer_of(const Var* var) {
    if (auto found = buffers_.find(var->id); found != buffers_.end()) return found->second;
    if (auto weight = r_.weight_offsets.find(var->id); weight != r_.weight_offsets.end())
      return add_buffer(var, rt::BufferKind::weight, 0, weight->second);
    if (auto view = views_.find(var->id); view != views_.end())
      return add_buffer(var, rt::BufferKind::view, buffer_of(view->second));
    METAC_ASSERT(!var->constant, "constant v", var->id, " has no place");
    return add_buffer(var, rt::BufferKind::arena, 0);
  }

  CompiledPort port(const std::string& name, const Var* var, int buffer) {
    CompiledPort p;
    p.name = name;
    p.buffer = buffer;
    p.dtype = var->dtype();
    for (Expr d : var->shape()) p.dims.push_back(dim_text(d));
    return p;
  }

  std::string dim_text(Expr d) const {
    return d->kind == ExprKind::symbol ? graph_.symbols[static_cast<size_t>(d->id)].name : to_string(d);
  }

  // Outputs that are inputs, constants, views or repeated are copied at the end.
  void add_outputs() {
    for (size_t k = 0; k < r_.outputs.size(); ++k) {
      Var* var = r_.outputs[k].var;
      const State* state = state_in_place(graph_, var);
      bool direct = !var->is_input && !var->constant && !views_.count(var->id) && !buffers_.count(var->id) &&
                    !r_.weight_offsets.count(var->id);
      const int own = !direct && buffers_.count(var->id) ? buffers_.at(var->id) : -1;
      const int buffer = state ? add_buffer(var, rt::BufferKind::view, program_.inputs[state->input].buffer)
                               : add_buffer(var, rt::BufferKind::output, static_cast<int>(k));
      if (!direct && !state) {
        if (own >= 0)
          buffers_[var->id] = own;
        else
          buffers_.erase(var->id);
        output_copies_.push_back({var, buffer});
      }
      program_.outputs.push_back(port(r_.outputs[k].name, var, buffer));
    }
  }

  rt::Step& step(rt::StepKind kind, const std::vector<int>& operands, std::string comment) {
    rt::Step s{};
    s.kind = kind;
    s.first = static_cast<int32_t>(program_.operands.size());
    s.count = static_cast<int32_t>(operands.size());
    s.symbol = s.kernel = s.else_begin = -1;
    program_.operands.insert(program_.operands.end(), operands.begin(), operands.end());
    program_.steps.push_back(s);
    program_.step_comments.push_back(std::move(comment));
    program_.work.emplace_back();
    return program_.steps.back();
  }

  void copy(const Var* from, int to) {
    step(rt::StepKind::copy, {buffer_of(from), to}, "copy");
    program_.work.back() = moving_work({from, from});
  }

  void assign(int symbol, Expr value) {
    rt::Step& s = step(rt::StepKind::assign, {}, "n" + std::to_string(symbol) + " = " + to_string(value));
    s.symbol = symbol;
    rt::Extent e = extent(value);
    program_.steps.back().parallel = e;
  }

  void repeat_steps(const Repeat& repeat, int from) {
    rt::Step& s = step(rt::StepKind::repeat, {},
                       concat("repeat from step ", from, " for n", repeat.symbol, " < ", to_string(repeat.count)));
    s.symbol = repeat.symbol;
    s.then_begin = from;
    s.carried = r_.options->memory_budget == 0 ? 1 : 0;
    const rt::Extent count = extent(repeat.count);
    program_.steps.back().parallel = count;
    if (repeat.length >= 0)
      program_.uneven.push_back(
          {from, static_cast<int32_t>(program_.steps.size()) - 1, repeat.count, repeat.length, repeat.whole});
  }

  // ---- regions ----
  void check_requirements(const std::set<int>& bound) {
    if (!r_.with_requirements) return;
    for (size_t k = 0; k < graph_.requirements.size(); ++k) {
      if (checked_.count(k)) continue;
      const Requirement& q = graph_.requirements[k];
      bool early = false;
      visit_symbols(q.condition, [&](int symbol) { early |= !bound.count(symbol); });
      if (early) continue;
      checked_.insert(k);
      check(q.condition, q.message);
    }
  }

  void check(Expr condition, const std::string& message) {
    if (condition.is_int(1)) return;
    rt::Step& s = step(rt::StepKind::check, {}, "check");
    s.element = static_cast<int64_t>(program_.messages.size());
    rt::Extent e = extent(condition);
    program_.steps.back().parallel = e;
    program_.messages.push_back(message);
  }

  void emit_region(const FusedRegion& given, std::set<int> bound, const std::function<void()>& at_end) {
    const GatheredRegion gathered = r_.target->gather(given, context_);
    const FusedRegion& region = gathered.region;
    check_requirements(bound);
    LastReads reads(region, views_, kept_);
    size_t repeat = 0;
    int repeated_from = 0;
    for (size_t k = 0; k < region.items.size(); ++k) {
      const Item& item = region.items[k];
      if (repeat < region.repeats.size() && region.repeats[repeat].begin == k) {
        for (const auto& [symbol, value] : region.repeats[repeat].before) assign(symbol, value);
        assign(region.repeats[repeat].symbol, 0);
        repeated_from = static_cast<int>(program_.steps.size());
        for (const auto& [symbol, value] : region.repeats[repeat].each) assign(symbol, value);
      }
      if (item.op) {
        emit_host_step(*item.op, bound);
        check_requirements(bound);
      } else if (auto alike = gathered.members.find(k); alike != gathered.members.end() && alike->second > 1) {
        launch(r_.target->lower_together(region.items, k, alike->second, context_));
        k += static_cast<size_t>(alike->second) - 1;
      } else if (!lies_there(graph_, item.group)) {
        emit_kernel(item.group, reads, k);
      }
      if (repeat < region.repeats.size() && region.repeats[repeat].end == k + 1)
        repeat_steps(region.repeats[repeat++], repeated_from);
    }
    at_end();
  }

  void emit_kernel(const Group& group, const LastReads& reads, size_t item) {
    Launch own{lower(*r_.target, group, context_), group, {}};
    Kernel& kernel = own.kernel;
    for (auto [result, operand] : reuse_in_place(kernel, reads, item, graph_.symbols)) {
      const Var *made = kernel.arguments[static_cast<size_t>(result)].var,
                *dead = kernel.arguments[static_cast<size_t>(operand)].var;
      add_buffer(made, rt::BufferKind::view, buffer_of(dead));
      ++program_.results_in_place;
    }
    for (auto [output, input] : r_.next_values)
      if (overwrite_input(kernel, r_.outputs[output].var, r_.inputs[input].var, reads, item, graph_.symbols))
        program_.outputs[output].overwrites = static_cast<int>(input);
    share_with_states(graph_, kernel);
    for (const KernelArgument& a : kernel.arguments) {
      if (!a.written || !a.layout.has_halo()) continue;
      launch({zero_halo(a.var, a.layout), Group(), {}});
      program_.work.back() = halo_work(a.var, a.layout);
    }
    launch(std::move(own));
  }

  void launch(Launch started) {
    Kernel& kernel = started.kernel;
    const Group& group = started.group;
    const std::vector<Kernel>& members = started.members;
    kernel.name = names_.name_of(kernel, r_.kernel_prefix, program_.kernels.size());
    names_.describe(kernel, members.empty() ? group : Group());
    if (r_.options->emit == "loops" && r_.options->trace) *r_.options->trace << to_string(kernel);
    KernelSource source = r_.target->print(started, graph_.symbols, *r_.options);
    if (group.strategy) source.subject = group.strategy->subject(), source.decisions = group.strategy->schedule();
    auto [found, fresh] = kernel_ids_.emplace(text_named(source, ""), static_cast<int>(program_.kernels.size()));
    if (fresh)
      program_.kernels.push_back(std::move(source));
    else
      more_nodes_[found->second].insert(more_nodes_[found->second].end(), kernel.nodes.begin(), kernel.nodes.end());
    const std::string name = program_.kernels[static_cast<size_t>(found->second)].name;
    std::vector<int> operands;
    for (const KernelArgument& a : kernel.arguments) operands.push_back(buffer_of(a.var));
    for (const KernelArgument& a : kernel.arguments)
      if (a.written && a.var->exchanged >= 0)
        exchanged_[a.var->exchanged] = {buffer_of(a.var), static_cast<int>(program_.steps.size())};
    rt::Step& s = step(rt::StepKind::launch, operands, name);
    program_.work.back() = kernel_work(group.stages, group.internal, context_.var);
    s.kernel = found->second;
    s.cost = static_cast<int64_t>(kernel.cost);
    const Kernel& written = members.empty() ? kernel : members[0];
    s.inputs = members.empty() ? 0 : static_cast<int32_t>(written.arguments.size());
    for (size_t k = 0; k < written.arguments.size(); ++k)
      if (written.arguments[k].written) s.element |= int64_t{1} << std::min<size_t>(k, 62);
    program_.steps.back().parallel = extent(parallel_extent(kernel));
    program_.steps.back().scratch_bytes = extent(scratch_bytes(kernel));
    const rt::Extent at_sizes =
        known_extent(cost_by_size(program_.steps.back().cost, program_.work.back(), parallel_extent(kernel),
                                  r_.target->chain_costs(), graph_.symbols));
    if (at_sizes.length == 0) return;
    program_.extents.push_back(at_sizes);
    program_.steps.back().carried = static_cast<int32_t>(program_.extents.size());
  }

  void emit_host_step(const Op& op, std::set<int>& bound) {
    switch (op.kind) {
      case OpKind::bind: {
        const int known = read_.known(op, graph_.symbols, bound), made = op.symbols[0];
        bound.insert(made);
        if (known >= 0) return assign(made, symbol(known));
        rt::Step& s = step(rt::StepKind::bind, {buffer_of(op.inputs[0])}, "bind");
        s.symbol = made, s.element = op.element;
        return;
      }
      case OpKind::external:
        return emit_external(op, bound);
      case OpKind::code:
        return emit_code(op);
      case OpKind::if_:
        return emit_if(op, bound);
      case OpKind::loop:
        return emit_loop(op, bound);
      default:
        fail("operator of kind ", name_of(op.kind), " cannot be compiled yet");
    }
  }

  void emit_code(const Op& op) {
    if (!r_.target->runs_users_code()) fail("the operator code runs on the CPU only");
    char name[32];
    std::snprintf(name, sizeof name, "%s%03zu_code", r_.kernel_prefix.c_str(), program_.kernels.size());
    std::vector<int> operands;
    for (const Var* in : op.inputs) operands.push_back(buffer_of(in));
    operands.push_back(buffer_of(op.outputs[0]));
    rt::Step& s = step(rt::StepKind::launch, operands, name);
    s.kernel = static_cast<int32_t>(program_.kernels.size());
    s.parallel = {1, 0};
    s.element = int64_t{1} << std::min<size_t>(op.inputs.size(), 62);  // what it writes
    program_.work.back() = {Expr(), host_work(op).bytes};
    program_.kernels.push_back(print_code(op, name, graph_.symbols));
  }

  void emit_external(const Op& op, std::set<int>& bound) {
    std::vector<int> operands;
    for (const Var* in : op.inputs) operands.push_back(in ? buffer_of(in) : -1);
    for (const Var* out : op.outputs) operands.push_back(buffer_of(out));
    auto known = std::find(program_.routines.begin(), program_.routines.end(), op.routine);
    int routine = static_cast<int>(known - program_.routines.begin());
    if (known == program_.routines.end()) program_.routines.push_back(op.routine);
    rt::Step& s = step(rt::StepKind::external, operands, op.routine);
    program_.work.back() = host_work(op);
    s.inputs = static_cast<int32_t>(op.inputs.size());
    s.kernel = routine;
    s.symbol = static_cast<int32_t>(program_.symbol_ids.size());
    s.symbol_count = static_cast<int32_t>(op.symbols.size());
    s.element = static_cast<int64_t>(program_.attributes.size());
    for (int id : op.symbols) {
      program_.symbol_ids.push_back(id);
      bound.insert(id);
    }
    std::vector<RoutineCallAttribute>& attributes = program_.attributes.emplace_back();
    for (auto& [name, value] : op.attributes) {
      RoutineCallAttribute a;
      a.name = name;
      if (auto* i = std::get_if<int64_t>(&value)) a.integer = *i;
      if (auto* d = std::get_if<double>(&value)) a.real = *d;
      if (auto* t = std::get_if<std::string>(&value)) a.string = *t;
      if (auto* v = std::get_if<std::vector<int64_t>>(&value)) a.integers = *v;
      attributes.push_back(std::move(a));
    }
  }

  void emit_if(const Op& op, std::set<int>& bound) {
    step(rt::StepKind::branch, {buffer_of(op.inputs[0])}, "if");
    size_t index = program_.steps.size() - 1;
    std::vector<int> outputs;
    for (const Var* out : op.outputs) outputs.push_back(buffer_of(out));
    for (int id : op.symbols) bound.insert(id);
    for (int side = 0; side < 2; ++side) {
      pending_.push_back([this, &op, side, index, outputs, bound] {
        int begin = static_cast<int>(program_.steps.size());
        const Region& region = op.regions[static_cast<size_t>(side)];
        emit_region(r_.regions->at(region), bound, [&] {
          for (size_t k = 0; k < op.outputs.size(); ++k)
            for (int d = 0; d < op.outputs[k]->rank(); ++d) {
              Expr dim = op.outputs[k]->shape()[d];
              if (dim->kind == ExprKind::symbol && std::count(op.symbols.begin(), op.symbols.end(), dim->id))
                assign(dim->id, region.results[k]->shape()[d]);
            }
          for (size_t k = 0; k < op.outputs.size(); ++k) copy(region.results[k], outputs[k]);
        });
        rt::Step& s = program_.steps[index];
        (side == 0 ? s.then_begin : s.else_begin) = begin;
        (side == 0 ? s.then_end : s.else_end) = static_cast<int>(program_.steps.size());
      });
    }
  }

  // At the end of an iteration: rows have what it made, then carried values take the next one's dims, each of which may be
  // what another was.
  void assign_next(const LoopDims& dims, int iteration) {
    for (const LoopDims::Changing& d : dims.rows) {
      check(logical_or(equal(symbol(iteration), 0), equal(symbol(d.symbol), d.next)),
            "a loop stacks values of different shapes");
      assign(d.symbol, d.next);
    }
    if (dims.carried.size() == 1) return assign(dims.carried[0].symbol, dims.carried[0].next);
    const int first = static_cast<int>(program_.symbols.size());
    for (const LoopDims::Changing& d : dims.carried) {
      program_.symbols.push_back({"next " + program_.symbols[static_cast<size_t>(d.symbol)].name, 0, INT64_MAX, 1});
      assign(static_cast<int>(program_.symbols.size()) - 1, d.next);
    }
    for (size_t k = 0; k < dims.carried.size(); ++k) assign(dims.carried[k].symbol, symbol(first + static_cast<int>(k)));
  }

  void emit_loop(const Op& op, std::set<int>& bound) {
    const Region& body = op.regions[0];
    size_t carried = body.params.size(), stacked = body.results.size() - 1 - carried;
    std::vector<int> operands;
    for (size_t k = 0; k < 2; ++k) operands.push_back(op.inputs[k] ? buffer_of(op.inputs[k]) : -1);
    const LoopDims dims = loop_dims(op);
    for (const auto* changing : {&dims.carried, &dims.rows})
      for (const LoopDims::Changing& d : *changing) {
        assign(d.symbol, d.initial);
        bound.insert(d.symbol);
      }
    for (size_t k = 0; k < carried; ++k) operands.push_back(buffer_of(op.inputs[2 + k]));
    for (size_t k = 0; k < carried; ++k) operands.push_back(buffer_of(body.params[k]));
    for (size_t k = 0; k < carried; ++k) operands.push_back(buffer_of(body.results[1 + k]));
    for (size_t k = 0; k < carried; ++k) operands.push_back(buffer_of(op.outputs[k]));
    operands.push_back(body.results[0] ? buffer_of(body.results[0]) : -1);
    for (size_t k = 0; k < stacked; ++k) operands.push_back(buffer_of(body.results[1 + carried + k]));
    for (size_t k = 0; k < stacked; ++k) operands.push_back(buffer_of(op.outputs[carried + k]));
    rt::Step& s = step(rt::StepKind::loop, operands, "loop");
    s.symbol = body.iteration;
    s.else_begin = dims.iterations;
    s.carried = static_cast<int32_t>(carried);
    s.stacked = static_cast<int32_t>(stacked);
    size_t index = program_.steps.size() - 1;
    for (int id : op.symbols) bound.insert(id);
    std::set<int> inside = bound;
    inside.insert(body.iteration);
    pending_.push_back([this, &body, index, inside, dims] {
      int begin = static_cast<int>(program_.steps.size());
      emit_region(r_.regions->at(body), inside, [&] { assign_next(dims, body.iteration); });
      program_.steps[index].then_begin = begin;
      program_.steps[index].then_end = static_cast<int>(program_.steps.size());
    });
  }

  const ProgramRequest& r_;
  const Graph& graph_;
  LoweringContext context_;
  KernelNames names_;
  std::map<int, std::vector<int>> more_nodes_;  // of later launches of a kernel: its head names them once all are known
  CompiledProgram program_;
  std::map<int, int> buffers_;
  std::map<int, Var*> views_;
  ExtentTable extents_;
  std::map<int, MadeExchange> exchanged_;  // by number
  std::map<std::string, int> kernel_ids_;
  std::vector<std::pair<Var*, int>> output_copies_;
  std::vector<std::function<void()>> pending_;
  std::set<size_t> checked_;
  ReadSymbols read_;
  std::set<int> kept_;  // Var ids that are read after the last step of their region
};

}  // namespace

CompiledProgram build_program(const ProgramRequest& request) { return ProgramBuilder(request).run(); }

}  // namespace metac
