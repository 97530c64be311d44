#include "compiler/session/program_cache.h"

#include "compiler/ir/tensor_fields.h"
#include "compiler/jit/cache/object_cache.h"
#include "compiler/program/stored_program.h"
#include "compiler/session/given_inputs.h"
#include "compiler/session/model_identity.h"
#include "compiler/support/build_id.h"
#include "compiler/support/hashing.h"
#include "compiler/target/target.h"

namespace metac {

void fields(ByteWriter& archive, Symbol& symbol) {
  auto& [name, min, max, divisor, hint, from_input, may_be_none, most, raised_from] = symbol;
  METAC_ASSERT(!most && !may_be_none && raised_from < 0, "a symbol of options is one of a lowered graph");
  archive(name, min, max, divisor, hint, from_input);
}

void fields(ByteWriter& archive, StateNames& names) {
  auto& [input, output] = names;
  archive(input, output);
}

void fields(ByteWriter& archive, LowerOptions& options) {
  auto& [input_shapes, input_values, dims, typical_batch, max_tensor_bytes, allow_code, states, last_step_of, max_nodes] =
      options;
  archive(input_shapes, input_values, dims, typical_batch, max_tensor_bytes, allow_code, states, last_step_of, max_nodes);
}

void fields(ByteWriter& archive, CpuTarget& cpu) {
  auto& [name, vector_bytes, vector_registers, byte_products, bf16_products, matrix_products, l2_bytes, l3_bytes] = cpu;
  archive(name, vector_bytes, vector_registers, byte_products, bf16_products, matrix_products, l2_bytes, l3_bytes);
}

void fields(ByteWriter& archive, ExternalLibraries& external) {
  auto& [products, convolutions, tf32] = external;
  archive(products, convolutions, tf32);
}

void fields(ByteWriter& archive, CompileOptions& options) {
  auto& [target, cpu, external, fusion, precision, keep, winograd, choices, print_after, emit, time_passes, trace,
         max_tensor_bytes, memory_budget, chains, next_values, budget_margin] = options;
  archive(std::string(target->name()), cpu, external, fusion, precision, keep, winograd, max_tensor_bytes, memory_budget,
          next_values, budget_margin);
}

namespace {

constexpr size_t most_bytes = size_t{64} << 20;  // of a program: constants that it holds are no gain on disk

std::string hash_of(const Tensor& tensor) {
  return sha256_hex({reinterpret_cast<const char*>(tensor.bytes.get()), tensor.bytes ? tensor.byte_count() : 0});
}

}  // namespace

ProgramCache::ProgramCache(ObjectCache& cache, const Model& model, const LowerOptions& lower, const CompileOptions& compile)
    : cache_(cache), model_(model) {
  // Who takes decisions of his own, or listens, wants the compilation itself.
  const bool is_plain =
      !compile.choices && !compile.chains && !compile.trace && compile.emit.empty() && compile.print_after.empty();
  if (!is_plain || build_id().empty()) return;
  ByteWriter options;
  options(lower, compile);
  key_ = "program\n" + build_id() + "\n" + Sha256().update_part(options.bytes()).update_part(model_identity(model)).hex();
}

std::optional<CompiledModel> ProgramCache::load() const {
  if (key_.empty()) return std::nullopt;
  const std::optional<std::string> bytes = cache_.load(key_);
  if (!bytes) return std::nullopt;
  ByteReader reader(*bytes);
  uint64_t count = 0;
  reader(count);
  for (; count > 0 && reader.ok(); --count) {
    std::string name, hash;
    reader(name, hash);
    const Initializer* one = initializer_of(model_, name);
    if (!one || hash_of(one->tensor) != hash) return std::nullopt;
  }
  std::string program;
  reader(program);
  if (!reader.at_end()) return std::nullopt;
  return read_stored_program(program);
}

void ProgramCache::store(const CompiledModel& program) const {
  if (key_.empty()) return;
  ByteWriter writer;
  std::vector<const Initializer*> relied_on;
  for (const std::string& name : program.relied_on)
    if (const Initializer* one = initializer_of(model_, name); one && is_only_weights(*one)) relied_on.push_back(one);
  writer(static_cast<uint64_t>(relied_on.size()));
  for (const Initializer* one : relied_on) writer(one->name, hash_of(one->tensor));
  writer(stored_program(program));
  if (writer.bytes().size() <= most_bytes) cache_.store(key_, writer.bytes());
}

}  // namespace metac
