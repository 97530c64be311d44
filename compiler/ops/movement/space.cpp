// Blocks of pixels to channels and back: DepthToSpace, SpaceToDepth, Col2Im.
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

int64_t block_size(const Lowering& n) {
  int64_t block = n.integer("blocksize", 0);
  if (block < 1 || block > (int64_t{1} << 20)) fail("blocksize is ", block, ", it must be positive");
  return block;
}

void require_divisible(Graph& g, Dim extent, int64_t divisor, std::string_view what) {
  g.require(equal(floor_mod(extent, divisor), Expr(0)),
            concat(what, " ", to_string(extent), " is not divisible by ", divisor));
}

METAC_OPERATOR("DepthToSpace")
    .since({1, 11, 13, 28})
    .inputs(1)
    .outputs(1)
    .required("blocksize", Kind::integer)
    .attribute("mode", Kind::string, 11)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var* x = n.input(0);
      int64_t b = block_size(n);
      std::string mode = n.string("mode", "DCR");
      if (mode != "DCR" && mode != "CRD") fail("mode ", quoted(mode), " is not DCR or CRD");
      if (x->rank() != 4) fail("the input must have rank 4, its shape is ", to_string(x->shape()));
      require_divisible(g, x->shape()[1], b * b, "the channels");
      Dim channels = floor_div(x->shape()[1], b * b);
      Expr in_block = floor_mod(axis(2), b) * Expr(b) + floor_mod(axis(3), b);
      Expr channel = mode == "DCR" ? in_block * channels + axis(1) : axis(1) * Expr(b * b) + in_block;
      Shape shape = {x->shape()[0], channels, x->shape()[2] * Expr(b), x->shape()[3] * Expr(b)};
      n.set_output(0, g.reindex({x}, shape, {axis(0), channel, floor_div(axis(2), b), floor_div(axis(3), b)}));
    });

METAC_OPERATOR("SpaceToDepth")
    .since({1, 13, 28})
    .inputs(1)
    .outputs(1)
    .required("blocksize", Kind::integer)
    .attribute("mode", Kind::string, 28)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var* x = n.input(0);
      int64_t b = block_size(n);
      std::string mode = n.string("mode", "DCR");
      if (mode != "DCR" && mode != "CRD") fail("mode ", quoted(mode), " is not DCR or CRD");
      if (x->rank() != 4) fail("the input must have rank 4, its shape is ", to_string(x->shape()));
      require_divisible(g, x->shape()[2], b, "the height");
      require_divisible(g, x->shape()[3], b, "the width");
      Dim channels = x->shape()[1];
      Expr in_block = mode == "DCR" ? floor_div(axis(1), channels) : floor_mod(axis(1), b * b);
      Expr channel = mode == "DCR" ? floor_mod(axis(1), channels) : floor_div(axis(1), b * b);
      Shape shape = {x->shape()[0], channels * Expr(b * b), floor_div(x->shape()[2], b), floor_div(x->shape()[3], b)};
      Expr row = axis(2) * Expr(b) + floor_div(in_block, b), column = axis(3) * Expr(b) + floor_mod(in_block, b);
      n.set_output(0, g.reindex({x}, shape, {axis(0), channel, row, column}));
    });

// The adjoint of im2col: every column adds its block back into the image.
METAC_OPERATOR("Col2Im")
    .since({18})
    .inputs(3)
    .outputs(1)
    .attribute("dilations", Kind::integers)
    .attribute("pads", Kind::integers)
    .attribute("strides", Kind::integers)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var* x = n.input(0);
      std::vector<Expr> image = index_elements(g, n.input(1), "an extent of the image", 1, int64_t{1} << 40);
      std::vector<Expr> block = index_elements(g, n.input(2), "an extent of the block", 1, int64_t{1} << 40);
      size_t dims = image.size();
      if (block.size() != dims) fail("image_shape has ", dims, " entries, block_shape ", block.size());
      if (x->rank() != 3) fail("the input must have rank 3, its shape is ", to_string(x->shape()));
      std::vector<int64_t> dilations = n.integers("dilations", std::vector<int64_t>(dims, 1)),
                           pads = n.integers("pads", std::vector<int64_t>(2 * dims, 0)),
                           strides = n.integers("strides", std::vector<int64_t>(dims, 1));
      if (dilations.size() != dims || strides.size() != dims || pads.size() != 2 * dims)
        fail("dilations, strides and pads have ", dilations.size(), ", ", strides.size(), " and ", pads.size(),
             " entries for ", dims, " spatial axes");
      // [N, C * block, columns] -> [N, C, block..., columns...]
      Shape split = {x->shape()[0], floor_div(x->shape()[1], element_count(block))};
      split.insert(split.end(), block.begin(), block.end());
      for (size_t k = 0; k < dims; ++k) {
        if (strides[k] < 1 || dilations[k] < 1 || strides[k] > (1 << 30) || dilations[k] > (1 << 30))
          fail("stride ", strides[k], " and dilation ", dilations[k], " must be positive");
        if (std::abs(pads[k]) > (int64_t{1} << 40) || std::abs(pads[k + dims]) > (int64_t{1} << 40))
          fail("pads ", pads[k], " and ", pads[k + dims], " are out of range");
        Expr room = image[k] + Expr(pads[k]) + Expr(pads[k + dims]) - Expr(dilations[k]) * (block[k] - Expr(1)) - Expr(1);
        if (room.if_int() && room.as_int() < 0)
          fail("a block of ", to_string(block[k]), " does not fit into an image of ", to_string(image[k]), " along axis ",
               k);
        split.push_back(floor_div(room, strides[k]) + Expr(1));
      }
      Var* columns = reshape(g, x, split);
      Shape shape = {split[0], split[1]};
      std::vector<Expr> indices = {axis(0), axis(1)}, conditions;
      for (size_t k = 0; k < dims; ++k) {
        int in_block = 2 + static_cast<int>(k), column = in_block + static_cast<int>(dims);
        Expr at = axis(column) * Expr(strides[k]) + axis(in_block) * Expr(dilations[k]) - Expr(pads[k]);
        shape.push_back(image[k]);
        indices.push_back(at);
        conditions.push_back(Expr(0) <= at);
        conditions.push_back(at < image[k]);
      }
      n.set_output(0, g.reindex_reduce({columns}, shape, indices, Reduce::add, conditions));
    });

}  // namespace
}  // namespace metac
