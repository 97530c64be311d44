#include "compiler/program/output_sets.h"

#include <algorithm>

namespace metac {
namespace {

// Sets go backwards from what outputs are to the steps that write it, and on to what these read. A buffer has one set for
// the whole program: where memory is written twice, a set may say too much and never too little.
class OutputSets {
 public:
  explicit OutputSets(const CompiledProgram& program)
      : p_(program), of_buffer_(program.buffers.size()), of_step_(program.steps.size(), rt::always_needed) {}

  std::vector<uint8_t> run() {
    const size_t given = p_.given_outputs().size() + static_cast<size_t>(p_.own_outputs);
    if (!p_.exchanges.empty() || (given < 2 && p_.states.empty())) return {};
    uint8_t all = p_.states.empty() ? 0 : rt::always_needed;
    for (size_t k = 0; k < p_.outputs.size(); ++k) {
      const uint8_t set = k < given ? rt::set_of_output(static_cast<int32_t>(k)) : rt::always_needed;
      of(p_.outputs[k].buffer) |= set;
      all |= set;
    }
    do {
      changed_ = false;
      chain_begin_ = p_.steps.size();
      for (size_t i = p_.steps.size(); i-- > 0;) visit(i);
    } while (changed_);
    const auto is_for_all = [&](uint8_t set) { return (set & rt::always_needed) != 0 || set == all; };
    return std::all_of(of_step_.begin(), of_step_.end(), is_for_all) ? std::vector<uint8_t>() : std::move(of_step_);
  }

 private:
  uint8_t& of(int32_t buffer) {
    while (p_.buffers[static_cast<size_t>(buffer)].kind == rt::BufferKind::view)
      buffer = p_.buffers[static_cast<size_t>(buffer)].index;
    return of_buffer_[static_cast<size_t>(buffer)];
  }

  bool is_written(const rt::Step& s, int32_t k) const {
    if (s.kind == rt::StepKind::copy) return k == 1;
    if (s.kind != rt::StepKind::launch) return k >= s.inputs;
    const int32_t place = s.inputs > 0 ? k % s.inputs : k;
    return (s.element >> std::min(place, 62) & 1) != 0;
  }

  // What the step writes itself is for; operands that are -1 are not there.
  uint8_t set_of(const rt::Step& s) {
    const bool computes = s.kind == rt::StepKind::launch || s.kind == rt::StepKind::copy ||
                          (s.kind == rt::StepKind::external && s.symbol_count == 0);
    if (!computes) return rt::always_needed;  // it decides sizes, or what is done
    uint8_t set = 0;
    for (int32_t k = 0; k < s.count; ++k)
      if (const int32_t buffer = operand(s, k); buffer >= 0 && is_written(s, k)) set |= of(buffer);
    return set != 0 ? set : rt::always_needed;
  }

  void visit(size_t i) {
    const rt::Step& s = p_.steps[i];
    const bool nested = i >= static_cast<size_t>(p_.top_level_steps);  // done with what they are nested in
    if (s.kind == rt::StepKind::repeat && !nested) {
      uint8_t set = 0;  // slices are done as one: what one of the steps is for, all are
      const size_t begin = static_cast<size_t>(s.then_begin);
      for (size_t k = begin; k < i; ++k)
        if (p_.steps[k].kind != rt::StepKind::assign) set |= set_of(p_.steps[k]);
      for (size_t k = begin; k < i; ++k) spread(p_.steps[k], set);
      std::fill(of_step_.begin() + s.then_begin, of_step_.begin() + static_cast<long>(i) + 1, set);
      chain_begin_ = begin;
      return;
    }
    if (i >= chain_begin_ && !nested) return;
    chain_begin_ = p_.steps.size();
    const uint8_t set = nested ? rt::always_needed : set_of(s);
    of_step_[i] = set;
    spread(s, set);
  }

  void spread(const rt::Step& s, uint8_t set) {
    for (int32_t k = 0; k < s.count; ++k)
      if (const int32_t buffer = operand(s, k); buffer >= 0 && (of(buffer) | set) != of(buffer)) {
        of(buffer) |= set;
        changed_ = true;
      }
  }

  int32_t operand(const rt::Step& s, int32_t k) const { return p_.operands[static_cast<size_t>(s.first + k)]; }

  const CompiledProgram& p_;
  std::vector<uint8_t> of_buffer_, of_step_;
  size_t chain_begin_ = 0;  // steps from here on were done with the repeat behind them
  bool changed_ = false;
};

}  // namespace

std::vector<uint8_t> output_sets(const CompiledProgram& program) { return OutputSets(program).run(); }

}  // namespace metac
