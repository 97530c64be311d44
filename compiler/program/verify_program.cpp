#include "compiler/program/verify_program.h"

#include <algorithm>
#include <map>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const CompiledProgram& program)
      : p_(program), bound_(program.symbols.size()), written_(program.buffers.size()) {
    for (const rt::SymbolSource& source : p_.sources) bound_[static_cast<size_t>(source.symbol)] = true;
    for (const rt::StateInfo& state : p_.states)
      if (state.capacity >= 0) bound_[static_cast<size_t>(state.capacity)] = true;
    at_start_ = bound_;
    for (size_t b = 0; b < p_.buffers.size(); ++b) {
      const rt::Buffer& buffer = p_.buffers[b];
      written_[b] = buffer.kind == rt::BufferKind::input || buffer.kind == rt::BufferKind::weight || is_nothing(b);
      if (!buffer.late) check_extent(buffer.bytes, at_start_, -1, "the size of a buffer that is placed before the run");
    }
    steps(0, p_.top_level_steps);
    for (const CompiledPort& out : p_.outputs)
      METAC_ASSERT(is_nothing(static_cast<size_t>(out.buffer)) || written_[root(out.buffer)], "output ", quoted(out.name),
                   " is never written");
  }

 private:
  size_t root(int buffer) const {
    while (p_.buffers[static_cast<size_t>(buffer)].kind == rt::BufferKind::view)
      buffer = p_.buffers[static_cast<size_t>(buffer)].index;
    return static_cast<size_t>(buffer);
  }

  // What has no elements has no step that writes it.
  bool is_nothing(size_t buffer) const {
    return p_.buffers[buffer].bytes.length == 0 && p_.buffers[buffer].bytes.value == 0;
  }

  std::string name_of(int step) const {
    return step < 0 ? "the program" : concat("step ", step, " (", p_.step_comments[static_cast<size_t>(step)], ")");
  }

  void check_extent(const rt::Extent& extent, const std::vector<bool>& bound, int step, const char* what) const {
    for (int32_t k = 0; k < extent.length; ++k) {
      const rt::Instruction& i = p_.code[static_cast<size_t>(extent.value + k)];
      METAC_ASSERT(i.code != rt::Code::symbol || bound[static_cast<size_t>(i.value)], name_of(step), " reads n", i.value,
                   " before it is bound: ", what);
    }
  }

  void check_sizes(int buffer, int step) const {
    const rt::Buffer& b = p_.buffers[static_cast<size_t>(buffer)];
    check_extent(b.bytes, bound_, step, "the size of an operand");
    for (int d = 0; d < b.rank; ++d)
      check_extent(p_.extents[static_cast<size_t>(b.first_dim + d)], bound_, step, "a dim of an operand");
  }

  void read(int operand, int step) const {
    const int buffer = p_.operands[static_cast<size_t>(operand)];
    if (buffer < 0) return;
    check_sizes(buffer, step);
    METAC_ASSERT(is_nothing(static_cast<size_t>(buffer)) || written_[root(buffer)], name_of(step), " reads buffer ", buffer,
                 " before anything writes it");
  }

  void write(int operand, int step) {
    const int buffer = p_.operands[static_cast<size_t>(operand)];
    if (buffer < 0) return;
    check_sizes(buffer, step);
    written_[root(buffer)] = true;
  }

  void bind(int symbol) {
    if (symbol >= 0) bound_[static_cast<size_t>(symbol)] = true;
  }

  // Nothing that a chain writes does another touch.
  void beside(const rt::Step& s, int k) {
    METAC_ASSERT(s.then_begin == k + 1 && s.then_end > k && s.then_end <= s.else_end, name_of(k), " is no head of a chain");
    if (s.carried == 0) return;
    std::map<size_t, int> wrote, touched;  // memory -> the chain
    int chains = 0;
    for (int head = k; head < s.else_end; head = p_.steps[static_cast<size_t>(head)].then_end, ++chains) {
      METAC_ASSERT(p_.steps[static_cast<size_t>(head)].kind == rt::StepKind::beside, name_of(head),
                   " is no head of a chain");
      for (int i = head + 1; i < p_.steps[static_cast<size_t>(head)].then_end; ++i) {
        const rt::Step& launch = p_.steps[static_cast<size_t>(i)];
        METAC_ASSERT(launch.kind == rt::StepKind::launch, name_of(i), " stands in a chain");
        for (int o = launch.first; o < launch.first + launch.count; ++o) {
          const int buffer = p_.operands[static_cast<size_t>(o)];
          if (buffer < 0) continue;
          const auto other = wrote.find(root(buffer));
          METAC_ASSERT(other == wrote.end() || other->second == head, name_of(i), " touches what another chain writes");
          if (!writes(launch, o)) {
            if (auto [first, fresh] = touched.emplace(root(buffer), head); !fresh && first->second != head)
              first->second = -1;  // several chains read it
            continue;
          }
          const auto reader = touched.find(root(buffer));
          METAC_ASSERT(reader == touched.end() || reader->second == head, name_of(i), " writes what another chain reads");
          wrote[root(buffer)] = head;
        }
      }
    }
    METAC_ASSERT(chains == s.carried, name_of(k), " says ", s.carried, " chains, there are ", chains);
  }

  bool writes(const rt::Step& s, int operand) const {
    const int place = s.inputs > 0 ? (operand - s.first) % s.inputs : operand - s.first;
    return (s.element >> std::min(place, 62)) & 1;
  }

  void steps(int begin, int end) {
    for (int k = begin; k < end; ++k) one(k);
  }

  void one(int k) {
    const rt::Step& s = p_.steps[static_cast<size_t>(k)];
    const int last = s.first + s.count;
    switch (s.kind) {
      case rt::StepKind::launch: {
        check_extent(s.parallel, bound_, k, "how many iterations its kernel has");
        check_extent(s.scratch_bytes, bound_, k, "its scratch memory");
        for (int id : p_.kernels[static_cast<size_t>(s.kernel)].symbols)
          METAC_ASSERT(bound_[static_cast<size_t>(id)], name_of(k), " reads n", id, " before it is bound: its kernel does");
        for (int o = s.first; o < last; ++o)
          if (!writes(s, o)) read(o, k);
        for (int o = s.first; o < last; ++o)
          if (writes(s, o)) write(o, k);
        return;
      }
      case rt::StepKind::bind:
        read(s.first, k);
        return bind(s.symbol);
      case rt::StepKind::external:
        for (int o = s.first; o < s.first + s.inputs; ++o) read(o, k);
        for (int n = 0; n < s.symbol_count; ++n) bind(p_.symbol_ids[static_cast<size_t>(s.symbol + n)]);
        for (int o = s.first + s.inputs; o < last; ++o) write(o, k);
        return;
      case rt::StepKind::check:
        return check_extent(s.parallel, bound_, k, "what is checked");
      case rt::StepKind::assign:
        check_extent(s.parallel, bound_, k, "the value");
        return bind(s.symbol);
      case rt::StepKind::repeat:
        return;
      case rt::StepKind::beside:
        return beside(s, k);
      case rt::StepKind::copy:
        read(s.first, k);
        return write(s.first + 1, k);
      case rt::StepKind::branch:
        return branch(s, k);
      case rt::StepKind::loop:
        return loop(s, k);
    }
  }

  // What both sides do has been done.
  void branch(const rt::Step& s, int k) {
    read(s.first, k);
    const std::vector<bool> bound = bound_, written = written_;
    steps(s.then_begin, s.then_end);
    const std::vector<bool> then_bound = std::move(bound_), then_written = std::move(written_);
    bound_ = bound;
    written_ = written;
    steps(s.else_begin, s.else_end);
    for (size_t n = 0; n < bound_.size(); ++n) bound_[n] = bound_[n] && then_bound[n];
    for (size_t n = 0; n < written_.size(); ++n) written_[n] = written_[n] && then_written[n];
  }

  // What the body does may never have been done.
  void loop(const rt::Step& s, int k) {
    const int carried = s.carried, initial = s.first + 2, params = initial + carried, next = params + carried,
              final = next + carried, values = final + carried + 1;
    for (int o = s.first; o < params; ++o) read(o, k);
    const std::vector<bool> bound = bound_, written = written_;
    bind(s.symbol);
    for (int o = params; o < next; ++o) write(o, k);
    steps(s.then_begin, s.then_end);
    for (int o = next; o < final; ++o) read(o, k);
    read(values - 1, k);
    for (int o = values; o < values + s.stacked; ++o) read(o, k);
    bound_ = bound;
    written_ = written;
    bind(s.else_begin);
    for (int o = final; o < values - 1; ++o) write(o, k);
    for (int o = values + s.stacked; o < values + 2 * s.stacked; ++o) write(o, k);
  }

  const CompiledProgram& p_;
  std::vector<bool> bound_, at_start_, written_;
};

}  // namespace

void verify_program(const CompiledProgram& program) { ProgramVerifier{program}; }

}  // namespace metac
