#include "compiler/codegen/library_weights.h"

#include <cstring>
#include <set>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr int64_t piece_alignment = 4096;

bool same(const RawParameter& a, const RawParameter& b) {
  if (a.name != b.name || a.tensor.dtype != b.tensor.dtype || a.tensor.shape != b.tensor.shape) return false;
  const size_t bytes = a.tensor.byte_count();
  return a.tensor.bytes.get() == b.tensor.bytes.get() || bytes == 0 || std::memcmp(a.tensor.bytes.get(), b.tensor.bytes.get(), bytes) == 0;
}

class Plan {
 public:
  explicit Plan(const std::vector<LibraryProgram>& programs) : programs_(programs) {}

  LibraryWeights run() {
    library_.programs.resize(programs_.size());
    for (size_t p = 0; p < programs_.size(); ++p) number_parameters(p);
    if (programs_.size() == 1) {
      keep_block();
      return std::move(library_);
    }
    for (size_t p = 0; p < programs_.size(); ++p) place(p, true);
    end_piece();
    library_.shared_bytes = at_;
    for (size_t p = 0; p < programs_.size(); ++p) {
      library_.programs[p].from = at_;
      place(p, false);
      end_piece();
      library_.programs[p].bytes = at_ - library_.programs[p].from;
    }
    library_.bytes = at_;
    return std::move(library_);
  }

 private:
  const CompiledModel& model(size_t p) const { return *programs_[p].model; }

  void number_parameters(size_t p) {
    std::set<int> taken;  // names need not be unique: each is somebody else's only once
    for (size_t k = 0; k < model(p).parameters.size(); ++k) {
      const RawParameter& parameter = model(p).parameters[k];
      std::vector<int>& candidates = by_name_[parameter.name];
      int number = -1;
      for (int c : candidates) {
        const auto& [program, index] = library_.parameters[static_cast<size_t>(c)];
        if (program != p && !taken.count(c) && same(model(program).parameters[index], parameter)) {
          number = c;
          break;
        }
      }
      if (number < 0) {
        number = static_cast<int>(library_.parameters.size());
        candidates.push_back(number);
        library_.parameters.emplace_back(p, k);
      }
      taken.insert(number);
      library_.programs[p].parameters.push_back(number);
    }
  }

  void keep_block() {
    ProgramWeights& only = library_.programs[0];
    only.sources = model(0).weights;
    only.bytes = library_.bytes = model(0).run.weight_bytes;
    library_.block = {{reinterpret_cast<const char*>(programs_[0].weights), static_cast<size_t>(only.bytes)}};
  }

  // The places of a program that hold raw parameters, or the others.
  void place(size_t p, bool raw) {
    const std::string_view own(reinterpret_cast<const char*>(programs_[p].weights), static_cast<size_t>(model(p).run.weight_bytes));
    ProgramWeights& mine = library_.programs[p];
    for (WeightSource source : model(p).weights) {
      if ((source.parameter >= 0) != raw) continue;
      const int64_t length = (source.bytes + 127) / 64 * 64;  // as the program has it: kernels may read beyond the end
      const int64_t before = source.offset;
      METAC_ASSERT(before + source.bytes <= static_cast<int64_t>(own.size()), "weights table");
      if (raw) source.parameter = mine.parameters.at(static_cast<size_t>(source.parameter));
      const std::pair<int, int64_t> what(source.parameter, source.bytes);
      if (auto found = shared_.find(what); raw && found != shared_.end()) {
        source.offset = found->second;
      } else {
        source.offset = at_;
        if (raw) shared_[what] = at_;
        append(own.substr(static_cast<size_t>(before), static_cast<size_t>(source.bytes)));
        pad(length - source.bytes);
      }
      mine.moved[before] = source.offset;
      mine.sources.push_back(source);
    }
  }

  void append(std::string_view bytes) {
    if (!bytes.empty()) library_.block.push_back(bytes);
    at_ += static_cast<int64_t>(bytes.size());
  }
  void pad(int64_t bytes) {
    static const char zeros[piece_alignment] = {};
    METAC_ASSERT(bytes >= 0 && bytes <= piece_alignment);
    append({zeros, static_cast<size_t>(bytes)});
  }
  void end_piece() { pad((piece_alignment - at_ % piece_alignment) % piece_alignment); }

  const std::vector<LibraryProgram>& programs_;
  LibraryWeights library_;
  std::map<std::string, std::vector<int>> by_name_;
  std::map<std::pair<int, int64_t>, int64_t> shared_;  // (parameter, bytes) -> offset
  int64_t at_ = 0;
};

}  // namespace

LibraryWeights plan_library_weights(const std::vector<LibraryProgram>& programs) { return Plan(programs).run(); }

CompiledProgram with_weights_moved(const CompiledProgram& run, const LibraryWeights& library, size_t program) {
  CompiledProgram moved = run;
  for (rt::Buffer& buffer : moved.buffers)
    if (buffer.kind == rt::BufferKind::weight) buffer.offset = library.programs[program].moved.at(buffer.offset);
  moved.weight_bytes = library.bytes;
  return moved;
}

}  // namespace metac
