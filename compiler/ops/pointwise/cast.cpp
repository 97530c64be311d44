// Cast, CastLike and BitCast. Float to integer truncates; what does not fit is undefined by ONNX and never traps here.
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

void lower_cast(Lowering& n, DType to) {
  Var* x = n.input(0);
  if (!is_numeric(x->dtype())) fail("casting strings is not supported");
  n.set_output(0, cast(n.graph(), x, to));
}

METAC_OPERATOR("Cast")
    .since({1, 6, 9, 13, 19, 21, 23, 24, 25, 28})
    .inputs(1)
    .outputs(1)
    .required("to", Kind::string, 1, 6)
    .required("to", Kind::integer, 6)
    .attribute("saturate", Kind::integer, 19)
    .attribute("round_mode", Kind::string, 24)
    .lower([](Lowering& n) {
      if (n.opset() >= 6) return lower_cast(n, require_onnx_dtype(n.integer("to", 0), "to"));
      // Opset 1 wrote the name: "FLOAT", "INT64", ...
      std::string name = n.string("to", "");
      for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      if (name == "float") name = "float32";
      if (name == "double") name = "float64";
      auto dtype = dtype_from_name(name);
      if (!dtype || *dtype == DType::string) fail("to: ", quoted(n.string("to", "")), " is not supported");
      lower_cast(n, *dtype);
    });

METAC_OPERATOR("CastLike")
    .since({15, 19, 21, 23, 24, 25})
    .inputs(2)
    .outputs(1)
    .attribute("saturate", Kind::integer, 19)
    .attribute("round_mode", Kind::string, 24)
    .lower([](Lowering& n) {
      DType to = n.input(1)->dtype();
      if (!is_numeric(to)) fail("casting to strings is not supported");
      lower_cast(n, to);
    });

METAC_OPERATOR("BitCast").since({26}).inputs(1).outputs(1).required("to", Kind::integer).lower([](Lowering& n) {
  Graph& g = n.graph();
  Var* x = n.input(0);
  DType to = require_onnx_dtype(n.integer("to", 0), "to");
  if (!is_numeric(x->dtype()) || !is_numeric(to)) fail("the bits of strings cannot be taken");
  if (size_of(to) != size_of(x->dtype())) fail("to: ", name_of(to), " has not the size of ", name_of(x->dtype()));
  // A bool is held as 0 or 1, and stays one.
  if (is_bool(x->dtype()) || is_bool(to) || (is_integer(x->dtype()) && is_integer(to)))
    return n.set_output(0, cast(g, x, to));
  n.set_output(0, g.external("reinterpret_bits", {x}, {Type{TypeKind::tensor, to, x->shape()}})[0]);
});

}  // namespace
}  // namespace metac
