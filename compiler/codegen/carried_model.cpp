#include "compiler/codegen/carried_model.h"

#include <cstring>

#include "compiler/codegen/text/fill_template.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr int64_t page_bytes = 4096, line_bytes = 64;

std::string_view bytes_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.get()), tensor.bytes ? tensor.byte_count() : 0};
}

// The library's parameters by name, as places among the programs' parameters.
std::map<std::string, int> parameter_numbers(const CarriedModel& carried, const std::vector<LibraryProgram>& programs,
                                             const LibraryWeights& library) {
  std::map<std::string, const Tensor*> weights;
  for (const Initializer& weight : carried.weights) weights[weight.name] = &weight.tensor;
  std::map<std::string, int> numbers;
  for (size_t k = 0; k < library.parameters.size(); ++k) {
    const auto& [program, index] = library.parameters[k];
    const RawParameter& parameter = programs[program].model->parameters[index];
    const auto found = weights.find(parameter.name);
    // One of a body may bear the name of one of the graph.
    if (found != weights.end() && bytes_of(*found->second) == bytes_of(parameter.tensor))
      numbers.emplace(parameter.name, static_cast<int>(k));
  }
  return numbers;
}

// Where the file has a parameter as it is; -1: nowhere.
int64_t place_as_it_is(const LibraryWeights& library, int parameter, int64_t bytes) {
  if (!library.is_prepared) return library.parameter_offsets.at(static_cast<size_t>(parameter));
  for (const ProgramWeights& program : library.programs)
    for (const WeightSource& source : program.sources)
      if (source.parameter == parameter && source.bytes == bytes) return source.offset;
  return -1;
}

}  // namespace

CarriedPlaces place_carried(const CarriedModel& carried, const std::vector<LibraryProgram>& programs,
                            LibraryWeights& library) {
  static const char zeros[page_bytes] = {};
  const auto append = [&](std::string_view bytes, int64_t align) {
    const int64_t gap = (align - library.bytes % align) % align;
    for (const std::string_view piece : {std::string_view(zeros, static_cast<size_t>(gap)), bytes})
      if (!piece.empty()) library.file.push_back(piece);
    const int64_t at = library.file_bytes + gap;
    library.file_bytes = at + static_cast<int64_t>(bytes.size());
    if (library.is_prepared) library.bytes = library.file_bytes;
    return at;
  };
  CarriedPlaces places;
  places.from = append({}, page_bytes);
  const std::map<std::string, int> numbers = parameter_numbers(carried, programs, library);
  for (const Initializer& weight : carried.weights) {
    const std::string_view bytes = bytes_of(weight.tensor);
    CarriedPlaces::Weight place;
    if (const auto found = numbers.find(weight.name); found != numbers.end()) place.parameter = found->second;
    place.offset = place.parameter < 0 || bytes.empty()
                       ? -1
                       : place_as_it_is(library, place.parameter, static_cast<int64_t>(bytes.size()));
    if (place.offset < 0) place.offset = append(bytes, line_bytes);
    places.weights.push_back(place);
  }
  places.graph = append(carried.graph, line_bytes);
  append({}, page_bytes);  // kernels may read a vector behind what they read
  library.carried_bytes = library.file_bytes - places.from;
  return places;
}

std::string carried_text(const CarriedModel& carried, const CarriedPlaces& places,
                         const std::vector<LibraryProgram>& programs, const LibraryWeights& library) {
  std::string shapes, weights, dims, blocks;
  for (size_t k = 0; k < carried.weights.size(); ++k) {
    const Tensor& tensor = carried.weights[k].tensor;
    shapes += concat("const int64_t shape_", k, "[] = {");
    for (const int64_t dim : tensor.shape) shapes += concat(dim, ", ");
    shapes += tensor.shape.empty() ? "1};\n" : "};\n";
    weights += concat("    {", c_string(carried.weights[k].name), ", ", static_cast<int>(tensor.dtype), ", ",
                      tensor.shape.size(), ", shape_", k, ", ", places.weights[k].parameter, ", ", places.weights[k].offset,
                      ", ", tensor.byte_count(), "},\n");
  }
  for (const auto& [name, symbol] : carried.dims)
    dims += concat("    {", c_string(name), ", ", symbol.min, ", ", symbol.max, ", ", symbol.divisor, "},\n");
  size_t block_count = 0;
  int variant = -1;
  for (size_t p = 0; p < programs.size(); ++p) {
    const bool first = p == 0 || programs[p].cpu.name != programs[p - 1].cpu.name;
    if (first) ++variant;
    if (!library.is_prepared && !first) continue;  // prepared when it is first called
    for (const WeightSource& source : library.programs[p].sources) {
      if (source.bytes == 0) continue;
      blocks += concat("    {", variant, ", ", source.offset, ", ", source.bytes, "},\n");
      ++block_count;
    }
  }
  const auto table = [](const char* type, const char* name, const std::string& rows) {
    return concat("const ", type, " ", name, "[] = {\n", rows.empty() ? "    {},  // none\n" : rows, "};\n");
  };
  return "namespace {\n" + shapes + table("CarriedWeight", "weights", weights) + table("CarriedDim", "dims", dims) +
         table("CarriedBlock", "blocks", blocks) + "}  // namespace\n" +
         concat("const CarriedModel carried_model = {\"", METAC_VERSION, "\", weights, dims, blocks, ",
                carried.weights.size(), ", ", carried.dims.size(), ", ", block_count, ", ", places.graph, ", ",
                carried.graph.size(), ", ", places.from, ", ", library.carried_bytes, "};\n");
}

}  // namespace metac
