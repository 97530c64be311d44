#!/usr/bin/env python3
"""What metac and what it generates say of themselves is so.

    python3 run_figures.py --build build/ci [--keep DIR] [--only WORD]

Checked: operations by an independent count from ONNX's shapes, and that `inspect`, its page, the manifest, `bench` of a model and of a folder and profiles agree in
them, for fixed and open dims, kernels of several launches, loops, branches and lengths that the data decide; what is not known is not 0; memory of open dims; a
second run allocates nothing, whatever routines, loops and branches it has. Needs numpy and onnx. Ends with 'N passed, N failed'.
"""
import argparse
import html.parser
import json
import math
import os
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "models/backbones"))
sys.path.insert(0, str(HERE.parent / "tools"))
import build  # noqa: E402
from checks import command, expect, run_checks  # noqa: E402

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, dtype, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def save(path, nodes, inputs, outputs, constants=(), opset=21):
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, list(constants))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


def growing_loop(trips, keep, grown, stacked):
    """A loop that carries a value which grows by a row an iteration, and stacks another."""
    body = helper.make_graph(
        [helper.make_node("Concat", ["carried", "row"], ["longer"], axis=0), helper.make_node("ReduceSum", ["longer"], ["sum"], keepdims=0),
         helper.make_node("Identity", ["go"], ["go_on"])],
        "body", [value("i", INT64, []), value("go", BOOL, []), value("carried", FLOAT, ["n", 4])],
        [value("go_on", BOOL, []), value("longer", FLOAT, ["m", 4]), value("sum", FLOAT, [])])
    return helper.make_node("Loop", [trips, keep, "row"], [grown, stacked], body=body)


def branches(condition, out):
    then = helper.make_graph([helper.make_node("NonZero", ["x"], ["found_here"])], "then", [], [value("found_here", INT64, [2, None])])
    otherwise = helper.make_graph([helper.make_node("Cast", ["x"], ["whole"], to=INT64)], "otherwise", [], [value("whole", INT64, None)])
    return helper.make_node("If", [condition], [out], then_branch=then, else_branch=otherwise)


def every_routine(path, rows):
    """One model with all routines of the runtime, loops that grow and that count, a branch and a recurrent network."""
    w, r = (np.random.default_rng(k).standard_normal((1, 12, 4)).astype("f4") for k in (1, 2))
    nodes = [
        helper.make_node("TopK", ["x", "three"], ["best", "places"], axis=1),
        helper.make_node("Unique", ["x"], ["distinct", "firsts", "inverse", "counts"], sorted=1),
        helper.make_node("Unique", ["x"], ["by_place", "", "", ""], sorted=0),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["kept"]),
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("BitCast", ["x"], ["bits"], to=TensorProto.INT32),
        helper.make_node("RandomNormalLike", ["x"], ["noise"]),
        helper.make_node("Slice", ["x", "zero", "one"], ["row"]),
        growing_loop("nine", "", "grown", "sums"),
        growing_loop("nine", "always", "grown_too", "sums_too"),
        helper.make_node("ReduceMax", ["x"], ["greatest"], keepdims=0),
        helper.make_node("Greater", ["greatest", "small"], ["condition"]),
        branches("condition", "taken"),
        helper.make_node("Unsqueeze", ["x", "one"], ["sequence"]),
        helper.make_node("GRU", ["sequence", "w", "r"], ["states"], hidden_size=4),
    ]
    outputs = {"best": FLOAT, "places": INT64, "distinct": FLOAT, "firsts": INT64, "inverse": INT64, "counts": INT64, "by_place": FLOAT, "kept": INT64, "found": INT64,
               "bits": TensorProto.INT32, "noise": FLOAT, "grown": FLOAT, "sums": FLOAT, "grown_too": FLOAT, "sums_too": FLOAT, "taken": INT64, "states": FLOAT}
    constants = [constant("three", np.array([3])), constant("most", np.array([4])), constant("overlap", np.array([0.5], "f4")), constant("least", np.array([-0.5], "f4")),
                 constant("zero", np.array([0])), constant("one", np.array([1])), constant("nine", np.array(9)), constant("always", np.array(True)), constant("small", np.array(0.5, "f4")),
                 constant("w", w), constant("r", r)]
    return save(path, nodes, [value("x", FLOAT, [rows, 4]), value("boxes", FLOAT, [1, 12, 4]), value("scores", FLOAT, [1, 2, 12])],
                [value(name, dtype) for name, dtype in outputs.items()], constants, opset=26)


def operations_by_shapes(path, **dims):
    """Two for every product that a Conv, Gemm or MatMul sums, zeros of padding included, at these dims of the inputs."""
    model = onnx.load(path)
    for port in model.graph.input:
        for dim in port.type.tensor_type.shape.dim:
            if dim.dim_param in dims:
                dim.dim_value = dims[dim.dim_param]
    del model.graph.value_info[:]
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    shapes = {t.name: list(t.dims) for t in model.graph.initializer}
    for port in [*model.graph.input, *model.graph.value_info, *model.graph.output]:
        shapes[port.name] = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
    total = 0
    for node in model.graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        first, second, out = shapes[node.input[0]], shapes[node.input[1]], shapes[node.output[0]]
        turned = any(a.name == "transA" and a.i for a in node.attribute)
        summed = math.prod(second[1:]) if node.op_type == "Conv" else first[-2 if turned else -1]
        total += 2 * summed * math.prod(out)
    return total


def with_open_batch(source, path):
    model = onnx.load(source)
    for port in [*model.graph.input, *model.graph.output]:
        port.type.tensor_type.shape.dim[0].dim_param = "batch"
    del model.graph.value_info[:]
    onnx.save(model, path)
    return path


def reading_all_tokens(source, path):
    """The network with the mean of all tokens in place of the first one, for which the last layer need not be computed whole."""
    model = onnx.load(source)
    model.graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "axis_of_tokens"))
    for node in model.graph.node:
        if node.op_type == "Gather" and any(a.name == "axis" and a.i == 1 for a in node.attribute):
            newer = model.opset_import[0].version >= 18
            node.CopyFrom(helper.make_node("ReduceMean", [node.input[0], "axis_of_tokens"][:1 + newer], list(node.output), keepdims=0,
                                           **({} if newer else {"axes": [1]})))
    onnx.save(model, path)
    return path


def matrices(path, layers=4, dtype=FLOAT):
    """Equal layers, one kernel several times."""
    rng = np.random.default_rng(0)
    nodes, constants = [], []
    for k in range(layers):
        constants.append(constant(f"w{k}", rng.standard_normal((48, 48)).astype("f4")))
        nodes += [helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"m{k}"]), helper.make_node("Relu", [f"m{k}"], [f"x{k + 1}"])]
    return save(path, nodes, [value("x0", dtype, ["batch", 48])], [value(f"x{layers}", dtype, ["batch", 48])], constants)


def loop_of_products(path, trips):
    """`trips`: a number, or the name of an input."""
    body = helper.make_graph([helper.make_node("MatMul", ["carried", "w"], ["product"]), helper.make_node("Tanh", ["product"], ["next"]), helper.make_node("Identity", ["go"], ["go_on"])],
                             "body", [value("i", INT64, []), value("go", BOOL, []), value("carried", FLOAT, [8, 48])], [value("go_on", BOOL, []), value("next", FLOAT, [8, 48])])
    known = isinstance(trips, int)
    return save(path, [helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)], [value("x", FLOAT, [8, 48])] + ([] if known else [value("trips", INT64, [])]),
                [value("y", FLOAT, [8, 48])], [constant("w", np.eye(48, dtype="f4"))] + ([constant("trips", np.array(trips))] if known else []))


def rows_that_data_choose(path):
    nodes = [helper.make_node("Greater", ["flags", "zero"], ["chosen"]), helper.make_node("Compress", ["x", "chosen"], ["rows"], axis=0), helper.make_node("MatMul", ["rows", "w"], ["y"])]
    return save(path, nodes, [value("x", FLOAT, [32, 48]), value("flags", FLOAT, [32])], [value("y", FLOAT, ["n", 48])],
                [constant("w", np.ones((48, 48), "f4")), constant("zero", np.array(0, "f4"))])


def branch_of_products(path):
    def side(name, out, times):
        nodes = [helper.make_node("MatMul", ["x" if k == 0 else f"{name}{k}", "w"], [out if k == times - 1 else f"{name}{k + 1}"]) for k in range(times)]
        return helper.make_graph(nodes, name, [], [value(out, FLOAT, [8, 48])])
    nodes = [helper.make_node("ReduceMax", ["flag"], ["most"], keepdims=0), helper.make_node("Greater", ["most", "zero"], ["condition"]),
             helper.make_node("If", ["condition"], ["y"], then_branch=side("then", "y_then", 1), else_branch=side("otherwise", "y_otherwise", 3))]
    return save(path, nodes, [value("x", FLOAT, [8, 48]), value("flag", FLOAT, [2])], [value("y", FLOAT, [8, 48])], [constant("w", np.eye(48, dtype="f4")), constant("zero", np.array(0, "f4"))])


def bytes_in_words(path):
    """Integer products, whose kernels multiply words of several; 30 is no multiple of a word."""
    rng = np.random.default_rng(0)
    return save(path, [helper.make_node("MatMulInteger", ["x", "w", "zero"], ["y"])], [value("x", TensorProto.UINT8, [16, 30])], [value("y", TensorProto.INT32, [16, 64])],
                [constant("w", rng.integers(-100, 100, (30, 64), dtype="i1")), constant("zero", np.array(7, "u1"))])


class Page(html.parser.HTMLParser):
    """The rows of the table of a run's kernels: cells as text."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.skipped = [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.skipped += tag == "pre"
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        self.skipped -= tag == "pre"

    def handle_data(self, data):
        if not self.skipped and self.tables and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data


class Checks:
    def __init__(self, work, build):
        self.work, self.metac = work, build / "bin/metac"

    def compile(self, name, model, *options):
        folder = self.work / name / "net"
        folder.parent.mkdir(exist_ok=True)
        command(self.metac, "compile", model, "-o", folder, "--name", "net", "--cpu", "native", *options)
        return folder

    def said(self, *argv):
        return json.loads(command(self.metac, *argv, "--json"))

    def inspected(self, model, *options):
        r = self.said("inspect", model, *options)
        known = all(k["flops"] is not None for k in r["kernels"])
        expect(not known or not all(isinstance(k["flops"], int) for k in r["kernels"]) or sum(k["flops"] for k in r["kernels"]) == r["flops"], "the kernels are not all of it")
        return r

    def benched(self, model, *options):
        return self.said("bench", model, "--seconds", "0.05", *options)

    def agree(self, name, model, shape, expected, exact=True, folder_options=(), bench=()):
        """The same number of operations, from all who speak of them."""
        r = self.inspected(model, *shape)
        folder = self.compile(name, model, *folder_options)
        profiled = self.benched(folder, "--profile", *shape, *bench)
        counted = {"inspect": r["flops"], "bench": self.benched(model, *shape, *bench)["operations"], "bench of the folder": profiled["operations"],
                   "the profile": sum(row["operations"] for row in profiled["profile"]) / profiled["profiled_runs"]}
        if not folder_options or "--shape" in folder_options:
            manifest = json.loads((folder / "net.json").read_text())
            counted["the manifest"] = sum(k["flops"] for k in manifest["kernels"])
        else:
            counted.pop("inspect") if r["flops"] is None else None
        expect(len(set(counted.values())) == 1, f"{name}: {counted}")
        found = counted["bench"]
        expect(found == expected if exact else 0.98 * expected <= found <= 1.1 * expected, f"{name}: {found} operations, by the shapes {expected}")
        return folder, profiled, r

    def operations_of_networks(self):
        for name, image in (("resnet50", 64), ("mobilenet_v2", 64), ("vit_b_16", 64)):
            fixed = self.work / f"{name}.onnx"
            onnx.save(build.build(name, image, 4, 2), fixed)
            batch, port = 2, onnx.load(fixed).graph.input[0]
            dims = [d.dim_value for d in port.type.tensor_type.shape.dim]
            shape = ["--shape", f"{port.name}={'x'.join(map(str, [batch, *dims[1:]]))}"]
            model = as_it_is = with_open_batch(fixed, self.work / f"{name}_open.onnx")
            if name == "vit_b_16":
                model = reading_all_tokens(as_it_is, self.work / f"{name}_whole.onnx")
            expected = operations_by_shapes(model, batch=batch)
            found = self.inspected(model, *shape)["flops"]
            expect(0.98 * expected <= found <= 1.1 * expected, f"{name}: {found} operations, by the shapes {expected}")
            if name == "vit_b_16":
                fewer = self.inspected(as_it_is, *shape)["flops"]
                expect(fewer < 0.8 * expected, f"{name}: {fewer} operations where one token is read, {found} where all are")

    def a_kernel_of_several_launches(self):
        model = matrices(self.work / "matrices.onnx")
        expected = operations_by_shapes(model, batch=8)
        _, _, r = self.agree("matrices", model, ["--shape", "x0=8x48"], expected, folder_options=["--shape", "x0=8x48"])
        launches = [k["launches"] for k in r["kernels"] if k["flops"]]
        expect(sum(launches) == 4 and max(launches) > 1, f"launches {launches}: no kernel has several")
        expect(sum(len(k["nodes"]) for k in r["kernels"]) == 8, "a kernel is not made of all the nodes of its launches")

    def open_dims(self):
        model = matrices(self.work / "open.onnx")
        expected = operations_by_shapes(model, batch=8)
        folder, profiled, _ = self.agree("open", model, ["--shape", "x0=8x48"], expected, folder_options=["--dim", "batch=1.."])
        expect(all(row["gflops"] is not None and row["gbytes_per_second"] > 0 for row in profiled["profile"]), f"rates {profiled['profile']}")
        expect(max(row["gflops"] for row in profiled["profile"]) > 0, "no kernel computes")
        static = self.benched(model, "--shape", "x0=8x48")["memory"]
        memory = profiled["memory"]
        expect(static["live_set_bytes"] is not None and 0 < static["arena_bytes"] <= memory["arena_bytes"] <= 4 * static["arena_bytes"], f"memory {memory}, fixed {static}")
        expect(memory["live_set_bytes"] is None and memory["held_bytes"] >= memory["arena_bytes"], f"memory {memory}")
        opened = self.inspected(model)
        expect(opened["flops"] == f"batch*{expected // 8}", f"open: {opened['flops']}, a row takes {expected // 8}")
        expect(opened["arena_bytes"] is None and opened["live_set_bytes"] is None and opened["assumed"] == "batch = 1", f"open: {opened['arena_bytes']}")
        manifest = json.loads((folder / "net.json").read_text())
        expect(manifest["memory"]["arena_bytes"] is None and manifest["memory"]["run_bytes"] is None, f"manifest {manifest['memory']}")
        said = command(self.metac, "inspect", model)
        expect("arena 0 B" not in said and "bound 0 B" not in said and "x batch" in said and "for batch = 1 (depends on batch)" in said, f"inspect says\n{said}")
        summary = command(self.metac, "compile", model, "-o", self.work / "open_summary", "--no-build")
        expect("for batch = 1 (depends on batch)" in summary and "schedules are made for batch = 1" in summary, summary)

    def loops_and_branches(self):
        once = 2 * 48 * 48 * 8
        _, _, r = self.agree("trips", loop_of_products(self.work / "trips.onnx", 7), [], 7 * once)
        expect([k["launches"] for k in r["kernels"] if k["flops"]] == [7], f"launches {r['kernels']}")
        np.save(self.work / "five.npy", np.array(5))
        np.save(self.work / "rows.npy", np.array([1, -1, 1, 1, 0] + [-1] * 27, "f4"))
        for flag in (1, -1):
            np.save(self.work / f"flag{flag}.npy", np.array([flag, flag], "f4"))
        for name, model, inputs, expected in (("told", loop_of_products(self.work / "told.onnx", "told"), "trips=five.npy", 5 * once),
                                              ("chosen", rows_that_data_choose(self.work / "chosen.onnx"), "flags=rows.npy", 3 * 2 * 48 * 48),
                                              ("then", branch_of_products(self.work / "then.onnx"), "flag=flag1.npy", once), ("otherwise", self.work / "then.onnx", "flag=flag-1.npy", 3 * once)):
            port, file = inputs.split("=")
            given = ["--input", f"{port}={self.work / file}"]
            r = self.inspected(model)
            expect(r["flops"] is None and any(k["flops"] is None for k in r["kernels"]), f"{name}: inspect knows {r['flops']} before the run")
            expect(" 0 " not in [line for line in command(self.metac, "inspect", model).splitlines() if line.startswith("contractions")][0], f"{name}: 0 operations")
            for what in ([model, self.compile(name, model)] if name != "otherwise" else [model]):
                counted = self.benched(what, "--profile", *given)
                expect(counted["operations"] == expected, f"{name}: {counted['operations']} operations, {expected} are right")
                expect(abs(sum(row["share"] for row in counted["profile"]) - 1) < 1e-9, f"{name}: shares")

    def integers_and_nothing(self):
        self.agree("words", bytes_in_words(self.work / "words.onnx"), [], 2 * 16 * 30 * 64)
        nothing = self.benched(self.compile("nothing", matrices(self.work / "nothing.onnx"), "--dim", "batch=0.."), "--profile", "--shape", "x0=0x48")
        expect(nothing["operations"] == 0 and all(row["bytes"] == 0 for row in nothing["profile"]), f"a batch of none: {nothing['profile']}")

    def times_of_profiles(self):
        model = matrices(self.work / "times.onnx", 12)
        for what in (model, self.compile("times", model, "--shape", "x0=512x48")):
            r = self.said("bench", what, *(["--shape", "x0=512x48"] if what == model else []), "--seconds", "0.2", "--profile", "--threads", "1")
            spent = sum(row["ns"] for row in r["profile"]) / r["profiled_runs"] * 1e-6
            expect(r["profiled_runs"] >= 10 and 0 < spent, f"profile {r}")
            expect(all(row["launches"] % r["profiled_runs"] == 0 for row in r["profile"]), "launches of a run are no whole number")

    def the_page_of_inspect(self):
        for name, model, options in (("several", matrices(self.work / "page.onnx"), ["--shape", "x0=8x48"]), ("open", self.work / "page.onnx", []), ("trips", loop_of_products(self.work / "page_trips.onnx", 7), [])):
            page = self.work / f"{name}.html"
            command(self.metac, "inspect", model, *options, "--html", page)
            r = self.said("inspect", model, *options)
            rows = Page(page.read_text()).tables[1]
            expect(rows[0] == ["kernel", "launches", "share", "operations", "bytes", "made of"], f"columns {rows[0]}")
            shares = [float(row[2].rstrip(" %")) for row in rows[1:]]
            expect(len(rows) - 1 == len(r["kernels"]) and abs(sum(shares) - 100) < 0.5, f"{name}: shares {shares}")
            expect(all(node in row[5] for row, kernel in zip(rows[1:], r["kernels"]) for node in kernel["nodes"]), f"{name}: made of")
            # Each order that the page offers has a place for each row.
            run = page.read_text().split("<tbody>")[1]
            for key, order in (("share", [-s for s in shares]), ("launches", [-(k["launches"] or 0) for k in r["kernels"]])):
                places = [int(place) for place in re.findall(rf"--{key}:(\d+)", run)]
                expect(sorted(places) == list(range(len(shares))), f"{name}: places by {key}: {places}")
                expect([order[places.index(k)] for k in range(len(order))] == sorted(order), f"{name}: sorted by {key}: {places} of {order}")
            # The plan, of the dims assumed where they are open: its axes, and blocks that name who makes them, within its bounds.
            chart = page.read_text().split("<svg")[1].split("</svg>")[0]
            blocks = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"[^>]*><title>made by (\S+),', chart)
            expect(len(blocks) >= 2 and (name == "trips" or all(maker in {k["name"] for k in r["kernels"]} for *_, maker in blocks)), f"{name}: blocks {blocks}")
            expect(all(84 <= float(x) and float(x) + float(w) <= 984.1 and 10 <= float(y) and float(y) + float(h) <= 310.1 for x, y, w, h, _ in blocks), f"{name}: blocks {blocks}")
            expect(">0 B</text>" in chart and ">step</text>" in chart, f"{name}: no axes")
            expect(("this is the plan for batch = 1" in page.read_text()) == (name == "open"), f"{name}: whose plan it is")

    def a_second_run_allocates_nothing(self):
        table = re.findall(r'\{"(\w+)", &\w+\}', (ROOT / "runtime/routines.h").read_text())
        for rows in (5, "rows"):
            folder = self.compile(f"allocations {rows}", every_routine(self.work / f"every_{rows}.onnx", rows))
            steps = (folder / "net.json").read_text()
            expect(len(table) > 5 and all(f'"{routine}"' in steps for routine in table), f"the model has not all routines: {table}")
            program = folder / "count"
            command("cc", "-O1", "-D_GNU_SOURCE", "-I", folder / "include", HERE / "count_allocations.c", "-o", program, folder / "lib/libnet.so", f"-Wl,-rpath,{folder}/lib")
            asked = [int(line) for line in command(program, cwd=folder).split()]
            expect(asked[0] > 0, "the first run of all asked for nothing: the count is wrong")
            expect(asked[1:] == [0, 0, 0], f"{rows} rows: memory was asked for {asked} times in runs 1 to 4")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="work in this folder and leave it there")
    parser.add_argument("--only", default="")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (o.keep or pathlib.Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("METAC_CACHE_DIR", str(work / "cache"))
        return run_checks(Checks(work, o.build.resolve()), ("compile", "said", "inspected", "benched", "agree"), o.only)


if __name__ == "__main__":
    sys.exit(main())
