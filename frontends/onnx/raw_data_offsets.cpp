// Where in the bytes of an ONNX file the elements of its initialisers stand, by walking the wire format: Model.graph (7),
// Graph.initializer (5), Tensor.raw_data (9). A trained model is the file with other bytes there.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include "compiler/support/diagnostic.h"
#include "frontends/onnx/onnx.h"

namespace metac {
namespace {

using google::protobuf::internal::WireFormatLite;
using Stream = google::protobuf::io::CodedInputStream;

// Calls `f(length)` at the start of every length-delimited field of that number; f reads exactly its length.
template <typename F>
void for_each_field(Stream& in, int number, F f) {
  while (uint32_t tag = in.ReadTag()) {
    if (WireFormatLite::GetTagFieldNumber(tag) == number &&
        WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      uint32_t length = 0;
      METAC_ASSERT(in.ReadVarint32(&length), "a length is cut short");
      auto limit = in.PushLimit(static_cast<int>(length));
      f(length);
      in.PopLimit(limit);
    } else {
      METAC_ASSERT(WireFormatLite::SkipField(&in, tag), "field ", WireFormatLite::GetTagFieldNumber(tag), " is cut short");
    }
  }
}

}  // namespace

std::vector<int64_t> raw_data_offsets(std::string_view onnx) {
  std::vector<int64_t> offsets;
  Stream in(reinterpret_cast<const uint8_t*>(onnx.data()), static_cast<int>(onnx.size()));
  in.SetTotalBytesLimit(INT32_MAX);
  for_each_field(in, 7, [&](uint32_t) {
    for_each_field(in, 5, [&](uint32_t) {
      offsets.push_back(-1);
      for_each_field(in, 9, [&](uint32_t length) {
        offsets.back() = in.CurrentPosition();
        in.Skip(static_cast<int>(length));
      });
    });
  });
  return offsets;
}

}  // namespace metac
