// Where in the bytes of an ONNX file the elements of its initialisers stand, by walking the wire format: Model.graph (7),
// Graph.initializer (5), Tensor.raw_data (9). A trained model is the file with other bytes there.
#include "compiler/support/diagnostic.h"
#include "frontends/onnx/onnx.h"
#include "frontends/onnx/wire_fields.h"

namespace metac {
namespace {

// Calls `f(field)` for every length-delimited field of that number in bytes [begin, end).
template <typename F>
void for_each_field(std::string_view bytes, uint64_t begin, uint64_t end, uint64_t number, F f) {
  auto byte_at = [&](uint64_t at) { return static_cast<unsigned char>(bytes[at]); };
  for (WireField field; begin < end; begin = field.end) {
    METAC_ASSERT(read_field(byte_at, begin, end, field) == WireFault::none, "no field at byte ", begin);
    if (field.number == number && field.kind == 2) f(field);
  }
}

}  // namespace

std::vector<int64_t> raw_data_offsets(std::string_view onnx) {
  std::vector<int64_t> offsets;
  for_each_field(onnx, 0, onnx.size(), 7, [&](const WireField& graph) {
    for_each_field(onnx, graph.value, graph.end, 5, [&](const WireField& initializer) {
      offsets.push_back(-1);
      for_each_field(onnx, initializer.value, initializer.end, 9,
                     [&](const WireField& raw_data) { offsets.back() = static_cast<int64_t>(raw_data.value); });
    });
  });
  return offsets;
}

}  // namespace metac
