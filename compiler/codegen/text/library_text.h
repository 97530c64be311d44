// The text that ties the programs of a library together: where each of them lives, and the tables by which api.cpp finds it.
#pragma once
#include <string>
#include <vector>

#include "compiler/codegen/library_weights.h"
#include "compiler/codegen/project.h"

namespace metac {

// Where a program lives. The only one of a library lives in src/ and in the library's own namespace. With several CPUs the
// device headers are compiled once for each, and in a namespace for each: the linker keeps one of equal inline functions.
struct ProgramPlace {
  std::string folder, stem;  // files are FOLDER STEM kernels_0.cpp: "src/" "", "src/x86_64_v3/" "vjp_"
  std::string device;        // namespace of the device headers
  std::string kernels;       // namespace of the kernels
  std::string tables;        // namespace of the tables
  std::string scope;         // from the library's namespace to the tables: "", "x86_64_v3::s1::vjp::"
};

// `name_space`: the library's.
std::vector<ProgramPlace> places_of(const std::vector<LibraryProgram>& programs, const std::string& name_space);

// For program.h: the tables that other files define.
std::string program_declarations(const std::vector<LibraryProgram>& programs, const std::vector<ProgramPlace>& places,
                                 const LibraryWeights& weights);

// Definitions of `variants`, `function_ports`, `specialisations` and the port tables of every function.
std::string variants_text(const std::vector<LibraryProgram>& programs, const std::vector<ProgramPlace>& places,
                          const LibraryWeights& weights, const std::string& name);

// Definitions of `parameter_ports`, `constants` and `parameters_in_file`.
std::string parameters_text(const std::vector<LibraryProgram>& programs, const LibraryWeights& weights,
                            const std::string& name);

// Are the inputs of the program's prepare program all of the library's parameters and constants, in order?
bool has_all_parameters(const LibraryWeights& weights, size_t program);

}  // namespace metac
