"""A random graph: grown node by node, its values computed as it grows, so that every node is valid and all values are known."""
import collections
import functools

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import reference_cases
import late_samples  # noqa: F401: its samplers
import microsoft_samples  # noqa: F401: its samplers
import structure_samples
from extremes import BFLOAT16, is_exact, is_float, is_wild, with_edges
from operator_samples import SAMPLERS, Unfit, is_int

OPSETS = [20] * 4 + [21, 23, 24, 26, 28]  # what a graph declares; it has the operators of that time
JUDGED = 26
SMALLER = ["int32", "uint8", "int8", "uint16", "int16", "uint32", "uint64"]

# Operators that choose or move what they are given: their answers are exact whatever the numbers are.
SELECTS = frozenset("""Abs Neg Sign Relu Floor Ceil Round Min Max Where Clip Less LessOrEqual Greater GreaterOrEqual Equal IsNaN IsInf Identity Transpose Reshape
    Flatten Squeeze Unsqueeze Expand Tile Concat Split Slice Pad Trilu ReverseSequence Gather GatherElements GatherND Compress NonZero Unique TopK ReduceMax
    ReduceMin ArgMax ArgMin If DepthToSpace SpaceToDepth CenterCropPad Not And Or Xor""".split())
# Samplers that may be given numbers at the edges of their types, with what makes others unfit for it:
# of sums the order would decide, of casts the compiler, of Div and Mod of INT_MIN by -1 the processor.
TAKES_EDGES = (SELECTS - {"TopK", "ArgMax", "ArgMin", "Unique"}) | frozenset("""Add Sub Mul Sum BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitShift ScatterND
    ScatterElements Exp Sigmoid Tanh Erf Atan Softplus Elu LeakyRelu HardSigmoid Constant TensorScatter""".split()) | \
    {"Abs of integers", "Sign of integers", "Neg of integers", "Relu of integers", "MatMul of integers", "ReduceMax of small integers", "ReduceMin of small integers",
     "Where of any type", "BitCast", "Split in equal parts", "composed", "wide Concat", "wide Max", "wide Min", "deep", "shared"}

# Samplers that may be given such integers, though no such floats: NaN has no place in an order, and no integer.
TAKES_INTEGER_EDGES = frozenset({"TopK", "ArgMax", "ArgMin", "Unique", "Cast", "CumSum", "ReduceSum", "ReduceSum of integers", "Cast to any type", "CastLike", "ScatterND with a reduction", "EyeLike"})


class Value:
    def __init__(self, name, array, exact, data=False):
        self.name, self.array, self.exact = name, array, exact  # exact: every implementation has these bits
        self.data = data  # an input of any numbers
        self.dtype, self.shape, self.ndim, self.size = array.dtype, array.shape, array.ndim, array.size
        self.wild = is_wild(array)


class Step:
    """A node and what it makes. hidden: no output of the model unless nothing reads it."""

    def __init__(self, proto, inputs, outputs, exact, hidden):
        self.proto, self.inputs, self.outputs, self.exact, self.hidden = proto, inputs, outputs, exact, hidden


def fits_shape(array, dims):
    """Whether the array may have the shape that ONNX's inference gives."""
    return array.ndim == len(dims) and not any(d.HasField("dim_value") and d.dim_value != n for d, n in zip(dims, array.shape))


@functools.cache
def first_opsets():
    """The opset in which each operator came, in a form that is no error."""
    found = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and not schema.deprecated:
            found[schema.name] = min(schema.since_version, found.get(schema.name, 1000))
    return found


def since(sampler):
    return first_opsets().get(sampler.split()[0], 1)


def is_misjudged(op, feeds):
    """Whether ONNX Runtime's answer is no measure. It looks at the lower halves of int64 in Max, Min, Sign, Clip and
    reductions, adds and multiplies integers in ReduceSum and ReduceProd as floats that saturate, has NaN come out of
    ReduceMax and ReduceMin by where it stands, of ScatterND to the maximum or minimum by which of the two it is, and 0 out
    of Sign, takes 0 for the mean of nothing, leaves memory as it is where a product of integers sums nothing, and Gemm's
    beta away where it does."""
    arrays = [np.asarray(a) for a in feeds.values()]
    first = arrays[0] if arrays else np.zeros(1)
    floats = first.dtype.kind not in "iub"
    if op in ("Max", "Min"):
        return any(is_int(a) for a in arrays)
    if op in ("ReduceMax", "ReduceMin", "Sign", "ScatterND") and floats:
        return any(np.isnan(a.astype(np.float64)).any() for a in arrays if a.dtype == first.dtype)
    if op in ("Sign", "Clip", "ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin"):
        return is_int(first)
    return first.size == 0 and op in ("ReduceMean", "Gemm", "MatMulInteger", "QLinearMatMul", "ConvInteger", "QLinearConv")


def check_fit(node, feeds):
    """Unfit where the operands of this node, the only one of its model, are none of the operator's, or nobody can judge them.
    `feeds` holds all of its operands, by name, in their order."""
    arrays = [np.asarray(a) for a in feeds.values()]
    op, first = node.op_type, arrays[0] if arrays else np.zeros(1)
    if op in ("LSTM", "GRU", "RNN") and first.size == 0:
        raise Unfit  # ONNX Runtime leaves memory as it is where a step reads nothing, and the reference knows no sequence_lens
    attributes = attributes_of(node)
    if op == "Compress":  # a condition that is longer than the axis is none, whatever ONNX Runtime makes of it
        length = first.shape[attributes["axis"]] if "axis" in attributes else first.size
        if arrays[1].size > length:
            raise Unfit
    if op == "Reshape" and len(arrays) > 1 and np.any(arrays[1] < -1):
        raise Unfit  # NumPy, and so the reference, takes any negative dim for the one to be found
    if op == "ReverseSequence" and arrays[1].size != first.shape[attributes.get("batch_axis", 1)]:
        raise Unfit  # other data made another number of sequences than there are lengths
    if op == "GatherND" and first.shape[: attributes.get("batch_dims", 0)] != arrays[1].shape[: attributes.get("batch_dims", 0)]:
        raise Unfit  # ONNX Runtime repeats a batch axis of 1
    if op == "Split" and len(arrays) > 1 and arrays[1].sum() != first.shape[attributes.get("axis", 0)]:
        raise Unfit  # the reference takes what there is
    if op.startswith("Reduce") and len(arrays) > 1 and not all(-first.ndim <= k < first.ndim for k in arrays[1].ravel()):
        raise Unfit  # of an empty operand ONNX Runtime does not look at the axes
    if op.startswith("Reduce") and len(arrays) > 1 and len({k % max(first.ndim, 1) for k in arrays[1].ravel()}) < arrays[1].size:
        raise Unfit  # ONNX Runtime takes an axis twice
    if op == "ScatterElements" and attributes.get("reduction") in (b"max", b"min") and first.dtype.kind not in "iub":
        if any(np.isnan(a.astype(np.float64)).any() for a in (first, arrays[2])):
            raise Unfit  # what comes out depends on which of the two is NaN, for ONNX Runtime and for the reference
    if op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):  # a label is a class or ignored; NumPy counts others from the end
        labels = arrays[1]
        if np.any(((labels < 0) | (labels >= first.shape[1])) & (labels != attributes.get("ignore_index", 0))):
            raise Unfit


def attributes_of(node):
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def evaluate(model, feeds):
    """ONNX Runtime's answer; ONNX's reference, which rounds and counts in its own ways here and there, where that has none."""
    node = model.graph.node[0]
    if is_misjudged(node.op_type, feeds):
        return ReferenceEvaluator(model).run(None, feeds)
    try:
        session = reference_cases.session_of(model)
    except Exception:  # ONNX Runtime has no such kernel
        if node.op_type == "ConvTranspose" and attributes_of(node).get("group", 1) > 1:
            raise Unfit from None  # the reference adds the first group's biases to all
        return ReferenceEvaluator(model).run(None, feeds)
    try:
        return session.run(None, feeds)
    except Exception:
        if any(np.asarray(a).dtype == BFLOAT16 for a in feeds.values()):  # no NumPy type of ONNX Runtime's
            return ReferenceEvaluator(model).run(None, feeds)
        raise  # it has, and refuses these numbers: what the reference makes of them is nobody's business


def answer_node(proto, by_name, opset):
    """The node's answers; Unfit where ONNX Runtime, ONNX's reference and ONNX's inference do not agree on what they are."""
    # As of the newest opset that ONNX Runtime knows, where the operator has not changed since.
    changed = 1 if proto.domain else onnx.defs.get_schema(proto.op_type, opset, "").since_version
    opset = min(opset, max(changed, JUDGED))
    model = reference_cases.build_model([proto], by_name, list(proto.output), opset)
    try:
        check_fit(proto, by_name)
        with np.errstate(all="ignore"):
            arrays = [np.asarray(a) for a in evaluate(model, by_name)]
    except Exception as error:
        raise Unfit from error
    known = {k: v for k, v in by_name.items() if v.dtype == np.int64 and v.ndim <= 1}  # axes and shapes: what ONNX infers shapes from
    stated = reference_cases.build_model([proto], {k: v for k, v in by_name.items() if k not in known}, list(proto.output), opset, known)
    declared = {v.name: v.type.tensor_type for v in onnx.shape_inference.infer_shapes(stated).graph.output}
    if any(declared[name].elem_type not in (0, helper.np_dtype_to_tensor_dtype(a.dtype)) for name, a in zip(proto.output, arrays)):
        raise Unfit  # ONNX's reference sums small integers in NumPy's wider ones
    if any(declared[name].HasField("shape") and not fits_shape(a, declared[name].shape.dim) for name, a in zip(proto.output, arrays)):
        raise Unfit  # the reference drops a window of pooling with ceil_mode; ONNX Runtime forgets negative axes where nothing is summed
    return arrays


class Graph:
    def __init__(self, seed, nodes, only=(), without=()):
        self.rng = np.random.default_rng(seed)
        self.float, self.opset = np.dtype(self.choice(["float32"] * 7 + ["float64", "float16", BFLOAT16])), self.choice([o for o in OPSETS if all(since(n) <= o for n in only)])
        self.zeros, self.large, self.edges = self.chance(1 / 8), self.chance(0.3), self.chance(0.35)
        self.hides, self.sampler = self.choice([0, 0.5, 1]), "Constant"
        self.values, self.steps, self.inputs, self.constants, self.used = [], [], [], {}, collections.Counter()
        for dtype in (self.float, self.float, np.dtype("int64"), np.dtype("bool"), np.dtype(self.choice(SMALLER))):
            self.values.append(self.fresh([self.extent(4) for _ in range(self.choice([0, 1, 1, 2, 2] + [2, 3, 3] * (not self.large)))], dtype))
        if not only and "composed" not in without and self.chance(0.15):  # functions of functions, and little else
            only, nodes = ["composed"], self.int(1, 3)
        self.draw_nodes(nodes, only, without)
        if self.chance(0.2):
            self.read_at_one_index()

    def draw_nodes(self, nodes, only=(), without=()):
        """So many nodes more, of the samplers in `only` or, where it is empty, of all but those in `without`."""
        names = sorted(n for n in SAMPLERS if (not only or n in only) and n not in without and since(n) <= self.opset)
        hard, end = [n for n in names if n in TAKES_EDGES] or names, sum(self.used.values()) + nodes
        for _ in range(40 * nodes):
            if sum(self.used.values()) >= end:
                break
            name, steps, values = self.choice(hard if self.edges and self.chance() else names), len(self.steps), len(self.values)
            self.sampler = name
            try:
                SAMPLERS[name](self)
                self.used[name] += 1
            except (Unfit, ValueError):  # ValueError: NumPy draws nothing out of an empty range
                del self.steps[steps:], self.values[values:]  # what it began with

    def read_at_one_index(self):
        """What nobody reads is read at one index of an axis, as a classifier's first token is, and little before it is an output."""
        read = {v.name for s in self.steps for v in s.inputs}
        for step in self.steps:
            step.hidden = step.hidden or self.chance(0.8)
        for value in [v for s in self.steps for v in s.outputs if v.name not in read and v.array.size and v.ndim]:
            axis = self.int(0, value.ndim - 1)
            index = np.array(self.choice([0, value.shape[axis] - 1]))
            try:
                if self.chance(0.7):
                    self.node("Gather", [value, self.operand(index) if self.chance(0.1) else self.constant(index)], axis=axis, exact=True, hidden=False)
                else:
                    self.node("Slice", [value, *(self.shape_operand([k]) for k in (index, index + 1, axis))], exact=True, hidden=False)
            except Unfit:
                pass

    # ---- chance ----
    def int(self, low, high):
        return int(self.rng.integers(low, high + 1)) if high >= low else low

    def dim(self, low, high):
        """A dim of an operand: now and then 0, in some graphs often."""
        return 0 if self.chance(0.2 if self.zeros else 0.02) else self.int(low, high)

    def extent(self, most, least=1):
        """A dim: up to `most`, or, in graphs of large values, one that fills vectors, with or without a rest."""
        return self.choice([1, 3, 8, 16, 17, 31, 33]) if self.large and self.chance(0.7) else self.dim(least, most)

    def chance(self, p=0.5):
        return bool(self.rng.random() < p)

    def choice(self, options):
        if not options:
            raise Unfit
        return options[self.int(0, len(options) - 1)]

    def takes_edges(self, dtype):
        return self.sampler in TAKES_EDGES or dtype.kind in "iu" and self.sampler in TAKES_INTEGER_EDGES

    # ---- values ----
    def random(self, shape, dtype):
        dtype = np.dtype(dtype)
        if dtype == bool:
            return self.rng.random(shape) < 0.5
        low = 0 if dtype.kind == "u" else -4
        whole = self.rng.integers(low, 5, shape)
        array = (whole + self.rng.integers(0, 4, shape) / 4).astype(dtype) if dtype.kind == "f" or dtype == BFLOAT16 else whole.astype(dtype)
        if self.edges and self.takes_edges(dtype) and self.chance():
            array = with_edges(self.rng, np.asarray(array), self.choice([0.1, 0.4]))
        return array

    def fresh(self, shape, dtype):
        """A new input."""
        return self.new_input(self.random(shape, dtype), data=True)

    def fresh_distinct(self, shape, dtype):
        count = int(np.prod(shape))
        return self.new_input(self.rng.permutation(count).reshape(shape).astype(dtype) - np.dtype(dtype).type(count // 2))

    def new_input(self, array, data=False):
        value = Value(f"x{len(self.inputs)}", np.asarray(array), True, data)
        self.inputs.append(value)
        return value

    def constant(self, array):
        value = Value(f"c{len(self.constants)}", np.asarray(array), True)
        self.constants[value.name] = value
        return value

    def operand(self, array):
        """An input, a constant, or, of a few integers, what other nodes compute."""
        array = np.asarray(array)
        if array.dtype == np.int64 and array.ndim < 2 and array.size < 9 and self.chance(0.2):
            return structure_samples.computed(self, array)
        return self.new_input(array) if self.chance(0.4) else self.constant(array)

    def shape_operand(self, numbers, scalar=False):
        return self.operand(np.array(numbers[0] if scalar else numbers, np.int64).reshape([] if scalar else [len(numbers)]))

    def pick_value(self, fits, exact=False):
        """A value of the graph, the later the likelier."""
        found = [v for v in self.values if (v.exact or not exact) and (not v.wild or self.takes_edges(v.dtype)) and v.size < 1200 and fits(v)]
        if self.chance(0.8):
            found = [v for v in found if v.size] or found
        return found[-1 - min(int(self.rng.geometric(0.35)) - 1, len(found) - 1)] if found else self.choice(found)

    def broadcastable(self, to, dtype=None, exact=False):
        dtype = dtype or to.dtype
        if self.chance(0.4):
            same = [v for v in self.values if v.dtype == dtype and v.shape == to.shape and (v.exact or not exact) and (not v.wild or self.takes_edges(v.dtype))]
            if same:
                return self.choice(same)
        array = self.random([d if self.chance(0.7) else 1 for d in to.shape][self.int(0, to.ndim):], dtype)
        return self.new_input(array, data=True) if self.chance(0.4) else self.constant(array)

    @staticmethod
    def onnx_type(dtype):
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    @staticmethod
    def tensor(array):
        return numpy_helper.from_array(np.asarray(array))

    # ---- nodes ----
    def node(self, op, operands, outputs=1, exact=False, hidden=None, **attributes):
        names = [f"v{len(self.steps)}_{i}" for i in range(outputs)]
        return self.add(helper.make_node(op, [v.name if v is not None else "" for v in operands], names, **attributes), [v for v in operands if v is not None], exact, hidden)

    def add(self, proto, inputs, exact, hidden=None):
        arrays = answer_node(proto, {v.name: v.array for v in inputs}, self.opset)
        step = Step(proto, inputs, [], exact, self.chance(self.hides) if hidden is None else hidden)
        step.outputs = [Value(name, a, e) for name, a, e in zip(proto.output, arrays, self.judge_answers(step, arrays, [v.exact for v in inputs]))]
        self.steps.append(step)
        self.values += step.outputs
        return step.outputs[0]

    def judge_answers(self, step, arrays, exact):
        """Which of them every implementation has to the bit; Unfit where they are no good for a comparison."""
        found = [bool(all(exact)) and (step.proto.op_type in SELECTS or step.exact and is_exact(a) or not is_float(a)) for a in arrays]
        for a, e in zip(arrays, found):
            if a.size > 8000 or a.ndim > 5 or (is_float(a) and not e and is_wild(a) and not (step.proto.op_type in TAKES_EDGES and np.all(is_fine(a)))):
                raise Unfit
        return found

    def replay(self, inputs):
        """All values where the inputs are others: {name: array}; Unfit where the graph does not do for them."""
        values, exact = {v.name: v.array for v in self.constants.values()} | inputs, {}
        for step in self.steps:
            arrays = answer_node(step.proto, {v.name: values[v.name] for v in step.inputs}, self.opset)
            again = self.judge_answers(step, arrays, [exact.get(v.name, True) for v in step.inputs])
            if any(v.exact and not e or v.ndim != a.ndim for v, a, e in zip(step.outputs, arrays, again)):
                raise Unfit
            exact.update(zip(step.proto.output, again))
            values.update(zip(step.proto.output, arrays))
        return values

    def subgraph(self, name, nodes, inputs, outputs):
        def port(n, dtype, shape=None):
            return helper.make_tensor_value_info(n, self.onnx_type(dtype), shape)
        return helper.make_graph(nodes, name, [port(*i) for i in inputs], [port(*o) for o in outputs])

    def branch(self, condition, a):
        k = len(self.steps)
        two = self.constant(np.array(2, a.dtype))
        then = self.subgraph("then", [helper.make_node("Add", [a.name, two.name], [f"t{k}"])], [], [(f"t{k}", a.dtype)])
        other = self.subgraph("else", [helper.make_node("Concat", [a.name, a.name], [f"e{k}"], axis=0) if a.ndim and self.chance() else helper.make_node("Neg", [a.name], [f"e{k}"])], [],
                              [(f"e{k}", a.dtype)])
        self.add(helper.make_node("If", [condition.name], [f"v{k}_0"], then_branch=then, else_branch=other), [condition, a, two], False)

    def loop(self, trips, a):
        k = len(self.steps)
        half, yes = self.constant(np.array(0.5, a.dtype)), self.constant(np.array(True))
        grows = a.ndim > 0 and self.chance(0.3)
        body = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Mul", ["s", half.name], ["h"]),
                helper.make_node("Concat", ["h", a.name], ["next"], axis=0) if grows else helper.make_node("Add", ["h", a.name], ["next"]), helper.make_node("ReduceSum", ["h"], ["row"], keepdims=0)]
        graph = self.subgraph("body", body, [("i", np.int64, []), ("go", bool, []), ("s", a.dtype)], [("on", bool, []), ("next", a.dtype), ("row", a.dtype)])
        self.add(helper.make_node("Loop", [trips.name, yes.name, a.name], [f"v{k}_0", f"v{k}_1"], body=graph), [trips, yes, a, half], False)

    def scan(self, a, state):
        k = len(self.steps)
        half = self.constant(np.array(0.5, a.dtype))
        body = [helper.make_node("Mul", ["s", half.name], ["h"]), helper.make_node("Add", ["h", "row"], ["next"]), helper.make_node("Sub", ["row", "h"], ["out"])]

        def port(n):
            return helper.make_tensor_value_info(n, self.onnx_type(a.dtype), a.shape[1:])
        graph = helper.make_graph(body, "body", [port("s"), port("row")], [port("next"), port("out")])
        self.add(helper.make_node("Scan", [state.name, a.name], [f"v{k}_0", f"v{k}_1"], body=graph, num_scan_inputs=1, scan_input_directions=[self.int(0, 1)]), [state, a, half], False)


def is_fine(array):
    """Element by element: small, infinite or NaN, which a rounding does not make another."""
    magnitude = np.abs(array.astype(np.float64))
    return ~np.isfinite(magnitude) | (magnitude < 1e3)
