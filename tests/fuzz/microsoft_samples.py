"""Samplers of operators of com.microsoft (see operator_samples.py), drawn as tests/ops/compare_microsoft.py draws them, among others:
some of their operands are values of the graph, or made by nodes of their own, which a kernel may take in."""
import pathlib
import sys

import numpy as np

from operator_samples import Unfit, sampler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "ops"))
from compare_microsoft import GENERATORS, Sample  # noqa: E402

# Without those that round to integers what is half-way, where the last bit decides.
NAMES = ("Gelu BiasGelu FastGelu QuickGelu SkipLayerNormalization SkipSimplifiedLayerNormalization EmbedLayerNormalization FusedConv NhwcConv FusedMatMul MatMulNBits "
         "GatherBlockQuantized MatMulIntegerToFloat Attention MultiHeadAttention GroupQueryAttention RotaryEmbedding").split()


def made_by_a_node(g, array):
    """These numbers, as a node in front moves them here."""
    way = g.choice(["Transpose", "Reshape", "Slice", "Neg", "Concat"])
    if way == "Transpose" and array.ndim > 1:
        perm = [int(k) for k in g.rng.permutation(array.ndim)]
        return g.node("Transpose", [g.new_input(array.transpose(np.argsort(perm)).copy())], perm=perm)
    if way == "Reshape":
        return g.node("Reshape", [g.new_input(array.reshape(-1)), g.constant(np.array(array.shape, np.int64))])
    if way == "Slice" and array.ndim:
        axis = g.int(0, array.ndim - 1)
        wide = np.concatenate([array, array], axis)
        return g.node("Slice", [g.new_input(wide), *(g.constant(np.array([k])) for k in (0, array.shape[axis], axis))])
    if way == "Concat" and array.ndim and array.shape[0] > 1:
        return g.node("Concat", [g.new_input(array[:1]), g.new_input(array[1:])], axis=0)
    return g.node("Neg", [g.new_input(-array)])


def operand(g, array):
    if array.dtype != np.float32:
        return g.operand(array)
    alike = [v for v in g.values if v.dtype == array.dtype and v.shape == array.shape and not v.wild]
    if alike and g.chance(0.6):
        return g.choice(alike)
    return made_by_a_node(g, array) if array.size and g.chance(0.3) else g.new_input(array) if g.chance(0.7) else g.constant(array)


@sampler(*(f"microsoft {name}" for name in NAMES))
def microsoft(g, op):
    s = Sample([g.int(0, 1 << 40)])
    nodes, names, *others = GENERATORS[op.split()[1]](s)
    if len(nodes) > 1 or others or "" in nodes[0].output:
        raise Unfit
    node = nodes[0]
    operands = {name: operand(g, s.feeds[name]) for name in node.input if name}
    for k, name in enumerate(node.input):
        node.input[k] = operands[name].name if name else ""
    for k in range(len(node.output)):
        node.output[k] = f"v{len(g.steps)}_{k}"
    g.add(node, list(operands.values()), False)
