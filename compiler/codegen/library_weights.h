// Parameters and weights of the programs of one library: one list of parameters for net_set_weights, and the block that
// kernels read. Each program has a piece of the block; parameters that programs read as they stand in the model, and what
// several programs prepare in the same way (prepare_recipes.h), are there once. What prepare programs read and is no
// initialiser of the model (matrices of minimal filtering, values of Constant nodes) is no parameter to those who set
// weights.
//
// The weights file of a library for one CPU has that block, and the constants. Prepared weights of several CPUs would take
// as much for each: the file of such a library has the parameters, and a context prepares the block for the CPU it finds.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/codegen/project.h"

namespace metac {

struct ProgramWeights {
  std::vector<int>
      parameters;  // prepare.inputs[k] is the library's parameter parameters[k], or, from parameters.size() on, its constant
  std::vector<WeightSource> sources;  // `parameter` counts the library's, `offset` is in the library's block
  std::map<int64_t, int64_t> moved;   // offset in the program's own block -> offset in the library's
  int64_t from = 0, bytes = 0;        // the piece of the library's block that no other program of its CPU reads
};

struct LibraryWeights {
  std::vector<std::pair<size_t, size_t>>
      parameters;  // of the library: where each stands first, (program, index of its prepare input)
  std::vector<std::pair<size_t, size_t>>
      constants;  // the same of those that are no initialisers; numbered after the parameters
  std::vector<ProgramWeights> programs;
  int64_t shared_bytes = 0, bytes = 0;  // the block that kernels read begins with what is shared

  bool is_prepared = true;                                   // the file has that block; else the parameters
  std::vector<std::string_view> file;                        // its block, in order; views of what is elsewhere
  std::vector<int64_t> constant_offsets, parameter_offsets;  // in the file's block; the latter where it has them
  int64_t file_bytes = 0;
  int64_t carried_bytes = 0;  // of them, at the end: the model, where it carries one (carried_model.h)
};

// A single program's block stays as it is. Pieces begin at multiples of 4096 bytes, so that one is read without the others.
LibraryWeights plan_library_weights(const std::vector<LibraryProgram>& programs);

std::string content_hash(const LibraryWeights& weights);
// What stands before the block in its file (runtime/files/weights_file.h): both hashes, and a checksum of every piece.
std::string weights_header(const LibraryWeights& weights, const std::string& layout_hash, const std::string& content_hash);

// `run` with its weights where the library's block has them.
CompiledProgram with_weights_moved(const CompiledProgram& run, const LibraryWeights& library, size_t program);

}  // namespace metac
