#include "compiler/codegen/library_weights.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "compiler/codegen/prepare_recipes.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/hashing.h"
#include "runtime/files/weights_file.h"

namespace metac {
namespace {

constexpr int64_t piece_alignment = 4096, alignment = 64;

bool same(const RawParameter& a, const RawParameter& b) {
  if (a.name != b.name || a.tensor.dtype != b.tensor.dtype || a.tensor.shape != b.tensor.shape) return false;
  const size_t bytes = a.tensor.byte_count();
  return a.tensor.bytes.get() == b.tensor.bytes.get() || bytes == 0 ||
         std::memcmp(a.tensor.bytes.get(), b.tensor.bytes.get(), bytes) == 0;
}

class Plan {
 public:
  explicit Plan(const std::vector<LibraryProgram>& programs) : programs_(programs) {}

  LibraryWeights run() {
    library_.programs.resize(programs_.size());
    for (size_t p = 0; p < programs_.size(); ++p) library_.programs[p].parameters.resize(model(p).parameters.size());
    for (size_t p = 0; p < programs_.size(); ++p) number(p, true);
    for (size_t p = 0; p < programs_.size(); ++p) number(p, false);
    library_.constant_offsets.assign(library_.constants.size(), -1);
    if (programs_.size() == 1) {
      keep_block();
      add_constants();
      library_.bytes = library_.file_bytes = at_;
      return std::move(library_);
    }
    if (programs_.back().cpu.name != programs_[0].cpu.name) write_parameters();
    for (size_t p = 0; p < programs_.size(); ++p)
      recipes_.push_back(prepare_recipes(model(p), library_.programs[p].parameters));
    find_common();
    for (size_t p = 0; p < programs_.size(); ++p) place(p, true);
    if (library_.is_prepared) add_constants();
    end_piece();
    library_.shared_bytes = at_;
    for (size_t p = 0; p < programs_.size(); ++p) {
      // A block is for one CPU, where it is not the file's.
      if (!library_.is_prepared && p > 0 && programs_[p].cpu.name != programs_[p - 1].cpu.name) at_ = library_.shared_bytes;
      library_.programs[p].from = at_;
      place(p, false);
      end_piece();
      library_.programs[p].bytes = at_ - library_.programs[p].from;
      library_.bytes = std::max(library_.bytes, at_);
    }
    if (library_.is_prepared) library_.file_bytes = library_.bytes;
    return std::move(library_);
  }

 private:
  const CompiledModel& model(size_t p) const { return *programs_[p].model; }

  // A program's parameters, or its other constants, which are numbered once all parameters are.
  void number(size_t p, bool parameters) {
    std::set<size_t> taken;  // names need not be unique: each is somebody else's only once
    auto& known = parameters ? library_.parameters : library_.constants;
    const size_t first = parameters ? 0 : library_.parameters.size();
    for (size_t k = 0; k < model(p).parameters.size(); ++k) {
      const RawParameter& parameter = model(p).parameters[k];
      if (parameter.name.empty() == parameters) continue;
      std::vector<size_t>& candidates = by_name_[parameter.name];
      auto is_it = [&](size_t c) {
        return known[c].first != p && !taken.count(c) && same(model(known[c].first).parameters[known[c].second], parameter);
      };
      auto found = std::find_if(candidates.begin(), candidates.end(), is_it);
      const size_t position = found == candidates.end() ? known.size() : *found;
      if (position == known.size()) {
        candidates.push_back(position);
        known.emplace_back(p, k);
      }
      taken.insert(position);
      library_.programs[p].parameters[k] = static_cast<int>(first + position);
    }
  }

  void keep_block() {
    ProgramWeights& only = library_.programs[0];
    for (WeightSource source : model(0).weights) {
      if (source.parameter >= 0) source.parameter = only.parameters.at(static_cast<size_t>(source.parameter));
      note_constant(source);
      only.sources.push_back(source);
    }
    only.bytes = model(0).run.weight_bytes;
    append({reinterpret_cast<const char*>(programs_[0].weights), static_cast<size_t>(only.bytes)});
  }

  // The place of a constant that programs read as it is.
  void note_constant(const WeightSource& source) {
    const int64_t constant = source.parameter - static_cast<int64_t>(library_.parameters.size());
    if (constant >= 0) library_.constant_offsets.at(static_cast<size_t>(constant)) = source.offset;
  }

  // Constants that prepare programs alone read.
  void add_constants() {
    for (size_t k = 0; k < library_.constants.size(); ++k)
      if (library_.constant_offsets[k] < 0) library_.constant_offsets[k] = append_value(library_.constants[k]);
  }
  // A file for several CPUs.
  void write_parameters() {
    for (const auto& parameter : library_.parameters) library_.parameter_offsets.push_back(append_value(parameter));
    add_constants();
    if (at_ == 0) return library_.parameter_offsets.clear();  // nothing to prepare
    pad(alignment);                                           // kernels may read a vector behind what they read
    end_piece();
    library_.file_bytes = at_;
    library_.is_prepared = false;
    at_ = 0;
  }
  int64_t append_value(const std::pair<size_t, size_t>& place) {
    const Tensor& tensor = model(place.first).parameters[place.second].tensor;
    pad((alignment - at_ % alignment) % alignment);
    const int64_t offset = at_;
    if (tensor.bytes) append({reinterpret_cast<const char*>(tensor.bytes.get()), tensor.byte_count()});
    pad((alignment - at_ % alignment) % alignment);
    return offset;
  }

  // Nothing, where the block is not the file's.
  std::string_view bytes_of(size_t p, const WeightSource& source) const {
    if (!library_.is_prepared) return {};
    const std::string_view own(reinterpret_cast<const char*>(programs_[p].weights),
                               static_cast<size_t>(model(p).run.weight_bytes));
    METAC_ASSERT(source.offset + source.bytes <= static_cast<int64_t>(own.size()), "weights table");
    return own.substr(static_cast<size_t>(source.offset), static_cast<size_t>(source.bytes));
  }

  // By what places of several programs may be one: a raw parameter, or what code for the same CPU prepares in the same way.
  // Empty: none.
  std::string name_of_content(size_t p, const WeightSource& source) const {
    if (source.parameter >= 0)
      return concat("parameter ", library_.programs[p].parameters.at(static_cast<size_t>(source.parameter)), " of ",
                    source.bytes);
    const size_t output = static_cast<size_t>(source.prepare_output);
    const std::string recipe = output < recipes_[p].size() ? recipes_[p][output] : "";
    return recipe.empty() ? recipe : concat(programs_[p].cpu.name, " ", recipe, " of ", source.bytes);
  }

  // Prepared places that several programs have.
  void find_common() {
    std::map<std::string, std::pair<size_t, std::string_view>> first;
    std::set<std::string> other;  // no two runs of a kernel differ; were it so, nobody would share what it made
    for (size_t p = 0; p < programs_.size(); ++p)
      for (const WeightSource& source : model(p).weights) {
        const std::string name = source.parameter >= 0 ? "" : name_of_content(p, source);
        if (name.empty()) continue;
        auto [known, fresh] = first.emplace(name, std::pair(p, bytes_of(p, source)));
        if (!fresh && known->second.second != bytes_of(p, source)) other.insert(name);
        if (!fresh && known->second.first != p) common_.insert(name);
      }
    for (const std::string& name : other) common_.erase(name);
  }

  // The places of a program that it shares, or its own.
  void place(size_t p, bool shared) {
    ProgramWeights& mine = library_.programs[p];
    for (WeightSource source : model(p).weights) {
      const std::string name = name_of_content(p, source);
      if ((source.parameter >= 0 || common_.count(name) > 0) != shared) continue;
      const int64_t length = (source.bytes + 127) / 64 * 64;  // as the program has it: kernels may read beyond the end
      const int64_t before = source.offset;
      const std::string_view content = bytes_of(p, source);
      if (source.parameter >= 0) source.parameter = mine.parameters.at(static_cast<size_t>(source.parameter));
      if (auto found = shared_.find(name); shared && found != shared_.end()) {
        source.offset = found->second;
      } else {
        source.offset = at_;
        if (shared) shared_[name] = at_;
        append(content);
        at_ += library_.is_prepared ? 0 : source.bytes;
        pad(length - source.bytes);
      }
      if (library_.is_prepared) note_constant(source);
      mine.moved[before] = source.offset;
      mine.sources.push_back(source);
    }
  }

  void append(std::string_view bytes) {
    if (!bytes.empty() && library_.is_prepared) library_.file.push_back(bytes);
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
  std::map<std::string, std::vector<size_t>> by_name_;  // positions among parameters; of "" among constants
  std::vector<std::vector<std::string>> recipes_;       // per program
  std::set<std::string> common_;                        // names of prepared contents that several programs have
  std::map<std::string, int64_t> shared_;               // by name of content -> offset
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

std::string content_hash(const LibraryWeights& weights) {
  Sha256 content;
  for (std::string_view piece : weights.file) content.update(piece);
  return content.hex();
}

std::string weights_header(const LibraryWeights& weights, const std::string& layout_hash, const std::string& content_hash) {
  rt::WeightsHeader header;
  rt::begin_weights_header(header, weights.file_bytes, layout_hash.data(), content_hash.data());
  uint64_t* next = header.sums;
  std::string part;  // of the block, which lies in pieces of any size
  const auto add_sum = [&] { *next++ = rt::checksum_of(part.data(), static_cast<int64_t>(part.size())), part.clear(); };
  for (std::string_view piece : weights.file)
    while (!piece.empty()) {
      const size_t take = std::min(piece.size(), static_cast<size_t>(header.piece) - part.size());
      part.append(piece.substr(0, take));
      piece.remove_prefix(take);
      if (part.size() == static_cast<size_t>(header.piece)) add_sum();
    }
  if (!part.empty()) add_sum();
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

}  // namespace metac
