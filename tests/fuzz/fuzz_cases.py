"""Graphs as folders of `metac verify --recursive`: a model and what it answers, run after run."""
import json
import pathlib

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

import reference_cases
from grow_graph import SELECTS, evaluate
from operator_samples import Unfit

# Of each kind of graph: the float that it computes in, and how far answers may be apart.
TOLERANCES = {"float32": ("1e-3", "2e-4"), "float64": ("1e-4", "2e-4"), "float16": ("2e-2", "2e-2"), "bfloat16": ("1e-1", "1e-1")}
# Operators whose operands' shapes ONNX Runtime compares: others it takes as they come when extents change.
COMPARES_SHAPES = (SELECTS - {"ReverseSequence"}) | frozenset("""Add Sub Mul Div Sum Mean Mod Exp Sigmoid Tanh Erf Sin Cos Atan Softplus Softsign Mish HardSwish Gelu Selu Elu
    LeakyRelu HardSigmoid Sqrt Log BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitShift Cast CastLike MatMul Gemm Softmax LogSoftmax CumSum ReduceSum ReduceMean ReduceProd ReduceL1
    ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp Shape Size Range Conv AveragePool MaxPool GlobalAveragePool GlobalMaxPool Dropout""".split())


def other_inputs(graph, rng, changes):
    """Other numbers for the inputs that any do for; `changes` may give them other extents too, and other values to small integers."""
    extents = {}
    if "extents" in changes:  # all dims of one length become dims of another one; none 0, which an open dim is not unless it is said
        lengths = sorted({d for v in graph.inputs if v.data for d in v.shape if d})
        if lengths:
            extents = {lengths[rng.integers(len(lengths))]: int(rng.choice([1, 2, 5, 9, 17, 40]))}
    feeds = {}
    for v in graph.inputs:
        if v.data:
            graph.sampler = "Transpose" if v.wild else "?"
            feeds[v.name] = graph.random([extents.get(d, d) for d in v.shape], v.dtype)
        elif "operands" in changes and v.dtype == np.int64 and v.size == 1 and not v.wild and rng.random() < 0.5:
            feeds[v.name] = v.array + rng.integers(-1, 2, v.shape)  # one alone: of two axes the other might have been that
        else:
            feeds[v.name] = v.array
    return feeds


def data_sets(graph, seed):
    """{name: array} of all values, run after run: the graph's own, then other numbers, then the first again."""
    rng, own = np.random.default_rng([seed, 1]), {v.name: v.array for v in [*graph.inputs, *graph.constants.values(), *(v for s in graph.steps for v in s.outputs)]}
    first = int(rng.choice([0, 0, 1, 1, 2])) if all(s.proto.op_type in COMPARES_SHAPES for s in graph.steps) else int(rng.choice([1, 1, 2]))
    for changes in [["extents", "operands"], ["operands"], []][first:]:
        try:
            return [own, graph.replay(other_inputs(graph, rng, changes)), own]
        except (Unfit, ValueError):
            continue
    return [own]


def write_case(folder, graph, steps, seed):
    """The model of these steps; what others made is an input. What a hidden step makes is an output where nothing reads it."""
    made, read = {v.name for s in steps for v in s.outputs}, {v.name for s in steps for v in s.inputs}
    needed = {v.name: v for s in steps for v in s.inputs if v.name not in made}
    constants = {k: v.array for k, v in needed.items() if k in graph.constants}
    outputs = [v for s in steps for v in s.outputs if not s.hidden or v.name not in read]
    feeds = [{k: values[k] for k in needed if k not in constants} for values in graph.sets]
    model = reference_cases.build_model([s.proto for s in steps], feeds[0], [v.name for v in outputs], graph.opset, constants)
    rng = np.random.default_rng(seed)
    for value in model.graph.input:  # some dims have names, each its own
        for k, dim in enumerate(value.type.tensor_type.shape.dim):
            if len({f[value.name].shape[k] for f in feeds}) > 1 or rng.random() < 0.3 and dim.dim_value != 0:
                dim.dim_param = f"{value.name}_{k}"
    for port, value in zip(model.graph.output, outputs):
        port.CopyFrom(helper.make_tensor_value_info(port.name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim))
    onnx.checker.check_model(model)
    reference_cases.write_case(folder, model, feeds[0], [graph.sets[0][v.name] for v in outputs])
    for k in range(1, len(feeds)):
        reference_cases.write_data_set(folder, model, feeds[k], [graph.sets[k][v.name] for v in outputs], k)
    write_tolerance(folder, graph.float.name)


def write_tolerance(folder, kind):
    """Where the evaluator reads it."""
    rtol, atol = map(float, TOLERANCES[kind])
    (pathlib.Path(folder) / "data.json").write_text(json.dumps({"rtol": rtol, "atol": atol}))


def write_found(folder, samples=2, marked=""):
    """The graphs of found/ whose text has `marked`, each with so many draws of its open dims and inputs."""
    for file in sorted((pathlib.Path(__file__).parent / "found").glob("*.txt")):
        if marked not in file.read_text():
            continue
        text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
        for k in range(samples):
            model, rng, dims, feeds = onnx.parser.parse_model(text), np.random.default_rng([k, *file.stem.encode()]), {}, {}
            for value in model.graph.input:
                kind = value.type.tensor_type
                shape = [d.dim_value if d.HasField("dim_value") else dims.setdefault(d.dim_param, int(rng.integers(1, 5))) for d in kind.shape.dim]
                feeds[value.name] = rng.integers(0 if kind.elem_type != onnx.TensorProto.FLOAT else -4, 5, shape).astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
            judge = ReferenceEvaluator(model).run if "# judge: ONNX's reference" in file.read_text() else lambda _, f, m=model: evaluate(m, f)
            case = folder / f"{file.stem}_{k}"
            reference_cases.write_case(case, model, feeds, judge(None, feeds))
            write_tolerance(case, "float32")
