// Matrix products of ONNX Runtime (domain com.microsoft) with packed or quantised weights, and the embedding layer.
#include "compiler/ir/builders.h"
#include "compiler/ops/layers/convolution.h"
#include "compiler/ops/microsoft/microsoft_domain.h"
#include "compiler/ops/packed_element.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/quantized/quantization.h"
#include "compiler/ops/shape_operands.h"
#include "compiler/ops/sums/normalization.h"
#include "compiler/ops/sums/reductions.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

// Element `index` of numbers of `bits` bits each, packed from the low bits of the bytes at `row` of operand `operand`.
Expr unpacked(int operand, std::vector<Expr> row, Expr index, int64_t bits) {
  int64_t each = 8 / bits;
  row.push_back(floor_div(index, each));
  Expr byte = cast(load(operand, DType::u8, std::move(row)), DType::i32);
  return each == 1 ? byte : packed_element(byte, index, bits);
}

// B [N, blocks, bytes of a block] of unsigned numbers, scales [N, blocks], zero points packed [N, bytes of the blocks'] or
// of A's dtype [N, blocks]: w[n, k] = (b[n, k] - zero[n, block]) * scale[n, block].
void lower_matmul_n_bits(Lowering& n) {
  Graph& g = n.graph();
  Var *a = n.input(0), *b = n.input(1), *scales = n.input(2), *zeros = n.optional_input(3), *bias = n.optional_input(5);
  require_float(a, "A");
  require_rank_at_least(a, 1, "A");
  int64_t depth = n.integer("K", 0), columns = n.integer("N", 0), bits = n.integer("bits", 4),
          block = n.integer("block_size", 0);
  if (bits != 2 && bits != 4 && bits != 8) fail("bits must be 2, 4 or 8, found ", bits);
  if (depth < 1 || columns < 1 || depth > int64_t{1} << 40 || columns > int64_t{1} << 40)
    fail("K and N must be positive, found ", depth, " and ", columns);
  if (block < 16 || (block & (block - 1)) != 0) fail("block_size must be a power of two of 16 or more, found ", block);
  require_dtype(b, DType::u8, "B");
  require_float(scales, "scales");
  require_same_dtypes(a, {bias}, "A and bias");
  if (zeros && zeros->dtype() != DType::u8) require_float(zeros, "zero_points");
  if (n.integer("weight_prepacked", 0) != 0) fail("weight_prepacked is not supported");
  int64_t blocks = (depth + block - 1) / block, block_bytes = block * bits / 8, zero_bytes = (blocks * bits + 7) / 8;
  require_equal(g, a->shape().back(), depth, "the last axis of A against K");
  b = reshape(g, b, {columns, blocks, block_bytes});
  scales = reshape(g, widen(g, scales), {columns, blocks});
  std::vector<Var*> operands{b, scales};
  Expr k = axis(0), column = axis(1), of_block = floor_div(k, block);
  if (Var* groups = n.optional_input(4)) {  // which block's scale an element has
    require_integer(groups, "g_idx");
    require_rank(groups, 1, "g_idx");
    require_equal(g, groups->shape()[0], depth, "length of g_idx against K");
    operands.push_back(groups);
    of_block = safe_index(cast(load(2, groups->dtype(), {k}), DType::i64), blocks);
  }
  DType wide = arithmetic_dtype(a->dtype());
  Expr zero = constant_of(wide, static_cast<double>(1 << (bits - 1)));
  int zero_operand = static_cast<int>(operands.size());
  if (zeros && zeros->dtype() == DType::u8) {
    operands.push_back(reshape(g, zeros, {columns, zero_bytes}));
    zero = cast(unpacked(zero_operand, {column}, of_block, bits), wide);
  } else if (zeros) {
    operands.push_back(reshape(g, cast(g, zeros, wide), {columns, blocks}));
    zero = load(zero_operand, wide, {column, of_block});
  }
  Expr value = cast(unpacked(0, {column, floor_div(k, block)}, floor_mod(k, block), bits), wide);
  Expr weight = (value - zero) * cast(load(1, scales->dtype(), {column, of_block}), wide);
  Var* const matrix = g.elementwise(operands, {depth, columns}, weight);
  const Origin origin = g.origin();
  g.set_origin({origin.node, origin.name, origin.op_type, n.integer("accuracy_level", 0) == 4});
  Var* y = matmul(g, widen(g, a), matrix);
  g.set_origin(origin);  // what a function does behind it has no such permission
  if (bias) y = map(g, Fn::add, y, broadcast_to(g, widen(g, bias), y->shape()));
  n.set_output(0, cast(g, y, a->dtype()));
}
METAC_OPERATOR("MatMulNBits", microsoft_domain)
    .since({1})
    .inputs(3, 6)
    .outputs(1)
    .required("K", Kind::integer)
    .required("N", Kind::integer)
    .attribute("bits", Kind::integer)
    .required("block_size", Kind::integer)
    .attribute("accuracy_level", Kind::integer)
    .attribute("weight_prepacked", Kind::integer)
    .lower(lower_matmul_n_bits);

// Rows of data [rows, ..., bytes], numbers of `bits` bits packed along the last axis; scales [rows, ..., blocks] and zero
// points, packed likewise, for blocks of block_size numbers: row i is (number - zero) * scale.
METAC_OPERATOR("GatherBlockQuantized", microsoft_domain)
    .since({1})
    .inputs(3, 4)
    .outputs(1)
    .attribute("bits", Kind::integer)
    .attribute("block_size", Kind::integer)
    .attribute("gather_axis", Kind::integer)
    .attribute("quantize_axis", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *data = n.input(0), *indices = n.input(1), *scales = n.input(2), *zeros = n.optional_input(3);
      const int64_t bits = n.integer("bits", 4), block = n.integer("block_size", 128);
      if (bits != 2 && bits != 4 && bits != 8) fail("bits must be 2, 4 or 8, found ", bits);
      if (block < 16 || (block & (block - 1)) != 0) fail("block_size must be a power of two of 16 or more, found ", block);
      require_dtype(data, DType::u8, "data");
      require_rank_at_least(data, 2, "data");
      require_index_dtype(indices);
      require_float(scales, "scales");
      require_rank(scales, data->rank(), "scales");
      const int last = data->rank() - 1;
      if (check_axis(n.integer("gather_axis", 0), data->rank()) != 0 ||
          check_axis(n.integer("quantize_axis", 1), data->rank()) != last)
        fail("rows are gathered along axis 0 of bytes that are packed along the last axis");
      if (zeros) require_dtype(zeros, DType::u8, "zero_points");
      check_index_range(g, indices, data->shape()[0], "indices");
      const Expr columns = data->shape()[static_cast<size_t>(last)] * Expr(8 / bits);
      require_equal(g, scales->shape()[static_cast<size_t>(last)], ceil_div(columns, block), "the last axis of scales");
      const DType dtype = scales->dtype(), wide = arithmetic_dtype(dtype);
      Var* bytes = gather(g, data, indices, 0);
      std::vector<Var*> operands{bytes, gather(g, scales, indices, 0)};
      if (zeros) operands.push_back(gather(g, zeros, indices, 0));
      Shape shape = bytes->shape();
      shape.back() = columns;
      std::vector<Expr> row = identity_indices(static_cast<int>(shape.size())), of_scale = row;
      const Expr k = row.back(), of_block = floor_div(k, block);
      row.pop_back();
      of_scale.back() = of_block;
      const Expr zero =
          zeros ? cast(unpacked(2, row, of_block, bits), wide) : constant_of(wide, static_cast<double>(1 << (bits - 1)));
      const Expr value = (cast(unpacked(0, row, k, bits), wide) - zero) * cast(load(1, dtype, of_scale), wide);
      n.set_output(0, g.elementwise(operands, shape, cast(value, dtype)));
    });

// A is quantised to uint8 by its own range, as DynamicQuantizeLinear does.
METAC_OPERATOR("DynamicQuantizeMatMul", microsoft_domain).since({1}).inputs(3, 5).outputs(1).lower([](Lowering& n) {
  Graph& g = n.graph();
  Var *a = n.input(0), *b = n.input(1), *zero = n.optional_input(3), *bias = n.optional_input(4);
  require_dtype(a, DType::f32, "A");
  require_dtype(n.input(2), DType::f32, "b_scale");
  if (bias) require_dtype(bias, DType::f32, "bias");
  require_integer(b, "B");
  require_rank_at_least(a, 1, "A");
  require_rank_at_least(b, 2, "B");
  DynamicQuantization q = quantize_dynamically(g, a);
  auto per_column = [&](Var* v, std::string_view what) {
    return along_axis(g, v, b->rank() - 1, b->rank(), b->shape().back(), what);
  };
  zero = spread_zero_point(g, zero, [&] { return per_column(zero, "b_zero_point"); });
  Var* sums = matmul(g, subtract_zero_point(g, q.value, q.zero_point), subtract_zero_point(g, b, zero));
  std::vector<Var*> operands{sums, q.scale, per_column(n.input(2), "b_scale")};
  if (bias) operands.push_back(broadcast_to(g, bias, sums->shape()));
  n.set_output(0, elementwise(g, operands, [&](const std::vector<Expr>& v) {
                 Expr value = cast(v[0], DType::f32) * (v[1] * v[2]);
                 return bias ? value + v[3] : value;
               }));
});

// Convolution of [N, spatial..., C]; the weights are as ever.
METAC_OPERATOR("NhwcConv", microsoft_domain)
    .since({1})
    .inputs(2, 3)
    .outputs(1)
    .attribute("group", Kind::integer)
    .attribute("pads", Kind::integers)
    .attribute("auto_pad", Kind::string)
    .attribute("strides", Kind::integers)
    .attribute("dilations", Kind::integers)
    .attribute("kernel_shape", Kind::integers)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *x = n.input(0), *w = n.input(1);
      require_rank_at_least(x, 3, "X");
      std::vector<int> first(static_cast<size_t>(x->rank())), last = first;
      for (int k = 0; k < x->rank(); ++k) {
        first[k] = k < 2 ? (k == 0 ? 0 : x->rank() - 1) : k - 1;
        last[k] = k == 0 ? 0 : k == x->rank() - 1 ? 1 : k + 1;
      }
      Var* y = convolve_node(n, transpose(g, x, first), w, n.optional_input(2));
      n.set_output(0, cast(g, transpose(g, y, last), x->dtype()));
    });

// The sum of word, position and segment embeddings, normalised. Outputs: y, how many tokens the mask shows, the sum.
METAC_OPERATOR("EmbedLayerNormalization", microsoft_domain)
    .since({1})
    .inputs(7, 9)
    .outputs(1, 3)
    .attribute("epsilon", Kind::real)
    .attribute("mask_index_type", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *ids = n.input(0), *segments = n.optional_input(1), *words = n.input(2), *places = n.input(3),
          *kinds = n.optional_input(4), *mask = n.optional_input(7), *positions = n.optional_input(8);
      require_integer(ids, "input_ids");
      require_rank(ids, 2, "input_ids");
      require_float(words, "word_embedding");
      require_same_dtypes(words, {places, kinds, n.input(5), n.input(6)}, "embeddings, gamma and beta");
      for (Var* tableau : {words, places, kinds})
        if (tableau) require_rank(tableau, 2, "an embedding");
      for (Var* number : {segments, mask, positions})
        if (number)
          require_integer(number, "segments, mask and positions"), require_rank(number, 2, "segments, mask and positions");
      if ((segments == nullptr) != (kinds == nullptr)) fail("segment_ids and segment_embedding must be given together");
      Shape shape{ids->shape()[0], ids->shape()[1], words->shape()[1]};
      for (Var* tableau : {words, places, kinds}) {
        if (!tableau) continue;
        require_equal(g, tableau->shape()[1], shape[2], "the sizes of the embeddings");
        g.require(Expr(1) <= tableau->shape()[0], "an embedding has no rows");
      }
      if (!positions)
        g.require(shape[1] <= places->shape()[0], concat("position_embedding of shape ", to_string(places->shape()),
                                                         " against ", to_string(shape[1]), " positions"));
      for (Var* number : {segments, mask, positions})
        for (int k = 0; number && k < 2; ++k) {
          Expr fits = equal(number->shape()[k], ids->shape()[k]);
          g.require(k == 0 && number == positions ? logical_or(fits, equal(number->shape()[0], Expr(1))) : fits,
                    "segment_ids, mask and position_ids must have the shape of input_ids");
        }
      auto row_of = [&](Var* tableau, Var* index) {
        Expr row = index == positions ? select(equal(index->shape()[0], Expr(1)), Expr(0), axis(0)) : axis(0);
        Expr at = cast(load(1, index->dtype(), {row, axis(1)}), DType::i64);
        return widen(g, g.reindex({tableau, index}, shape, {safe_index(at, tableau->shape()[0]), axis(2)}));
      };
      Var* sum = row_of(words, ids);
      Var* place = positions ? row_of(places, positions) : widen(g, g.reindex({places}, shape, {axis(1), axis(2)}));
      sum = map(g, Fn::add, sum, place);
      if (segments) sum = map(g, Fn::add, sum, row_of(kinds, segments));
      Standardised s = standardise(g, sum, {2}, n.real("epsilon", 1e-12));
      n.set_output(0, cast(g, scale_and_shift(g, s.value, n.input(5), n.input(6)), words->dtype()));
      if (n.wants_output(1)) {
        Var* count = fill(g, {ids->shape()[0]}, int_constant(0, DType::i32));
        n.set_output(1, mask && n.integer("mask_index_type", 1) != 0
                            ? reduce(g, cast(g, mask, DType::i32), {1}, Reduce::add, false)
                            : count);
      }
      if (n.wants_output(2)) n.set_output(2, cast(g, sum, words->dtype()));
    });

}  // namespace
}  // namespace metac
