#!/usr/bin/env python3
"""The machine code of fifteen kinds of kernels against what it was: a guard of their speed that does not time anything.

    python3 kernel_instructions.py --metac build/ci/bin/metac [--write] [--only WORD]
    needs: pip install numpy onnx; objdump

Each model is compiled for x86-64-v3, whatever this machine is, and its kernels are taken apart: instructions, multiply-adds of vectors, vectors that
are stored, and vectors that wait on the stack because registers are short, all of them and those in innermost loops. More of the first or the last two than
kernel_instructions.json has, by more than 2 %, or fewer multiply-adds or stores, is a failure: a schedule was lost, a loop is no longer of vectors, a tile no longer fits into the registers. Who changes kernels on purpose times them
(docs/speed.md) and writes the new numbers with --write. Compiled by another LLVM than the numbers are of, nothing is compared. Ends with 'N passed, N
failed, N skipped'.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KNOWN = pathlib.Path(__file__).with_name("kernel_instructions.json")
ALLOWED = 1.02
FEWER_IS_WORSE = {"multiply_adds", "vector_stores"}


def model(nodes, inputs, **constants):
    rng = np.random.default_rng(1)
    values = {name: rng.standard_normal(shape).astype("f4") / 8 if isinstance(shape, tuple) else shape for name, shape in constants.items()}
    graph = helper.make_graph([helper.make_node(kind, ins, outs, **attributes) for kind, ins, outs, attributes in nodes], "kernels",
                              [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in inputs.items()],
                              [helper.make_tensor_value_info("y", nodes[-1][3].get("to", TensorProto.FLOAT), None)],
                              [numpy_helper.from_array(value, name) for name, value in values.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)], ir_version=9)


def layer(kind, shape, filters, **attributes):
    """A convolution with a bias and a relu behind it."""
    return model([(kind, ["x", "w", "b"], ["c"], attributes), ("Relu", ["c"], ["y"], {})], {"x": (TensorProto.FLOAT, shape)}, w=filters, b=(filters[0],))


def models():
    f32 = TensorProto.FLOAT
    yield "minimal_filtering", layer("Conv", [1, 64, 56, 56], (64, 64, 3, 3), pads=[1] * 4)
    yield "direct", layer("Conv", [1, 3, 224, 224], (64, 3, 7, 7), pads=[3] * 4, strides=[2, 2])
    yield "pointwise", layer("Conv", [1, 128, 28, 28], (256, 128, 1, 1))
    yield "depthwise", layer("Conv", [1, 96, 56, 56], (96, 1, 3, 3), pads=[1] * 4, group=96)
    yield "grouped", layer("Conv", [1, 128, 28, 28], (128, 4, 3, 3), pads=[1] * 4, group=32)
    yield "open_height_and_width", layer("Conv", ["n", 64, "h", "w"], (64, 64, 3, 3), pads=[1] * 4, strides=[2, 2])
    yield "matrices", model([("MatMul", ["x", "w"], ["m"], {}), ("Gelu", ["m"], ["y"], {})], {"x": (f32, [128, 768])}, w=(768, 3072))
    yield "row", model([("LayerNormalization", ["x", "s", "b"], ["y"], {})], {"x": (f32, [128, 768])}, s=(768,), b=(768,))
    yield "attention", model([("MatMul", ["q", "k"], ["s"], {}), ("Softmax", ["s"], ["p"], {}), ("MatMul", ["p", "v"], ["y"], {})],
                             {"q": (f32, [12, 128, 64]), "k": (f32, [12, 64, 128]), "v": (f32, [12, 128, 64])})
    yield "integers", model([("MatMulInteger", ["x", "w"], ["m"], {}), ("Cast", ["m"], ["y"], {"to": f32})], {"x": (TensorProto.UINT8, [64, 512])},
                            w=np.random.default_rng(2).integers(-100, 100, (512, 512)).astype("i1"))
    flat = [("Conv", ["x", "w", "b"], ["c"], {"pads": [1] * 4, "strides": [2, 2]}), ("Relu", ["c"], ["r"], {}), ("Flatten", ["r"], ["f"], {}),
            ("Gemm", ["f", "m", "o"], ["y"], {"transB": 1})]
    yield "flattened", model(flat, {"x": (f32, [16, 8, 28, 28])}, w=(16, 8, 3, 3), b=(16,), m=(10, 3136), o=(10,))
    weights = {"w": np.random.default_rng(3).integers(0, 255, (512, 512)).astype("u1"), "s": (512,)}
    few_bits = [("DequantizeLinear", ["w", "s"], ["d"], {"axis": 1}), ("MatMul", ["x", "d"], ["y"], {})]
    yield "few_bits", model(few_bits, {"x": (f32, [1, 512])}, **weights)
    yield "few_bits_open_rows", model(few_bits, {"x": (f32, ["n", 512])}, **weights)
    for name, level in (("four_bits_open_rows", 0), ("four_bits_open_rows_int8_data", 4)):
        four_bits = {"b": np.random.default_rng(4).integers(0, 255, (500, 16, 16)).astype("u1"), "s": (500 * 16,)}
        sizes = {"K": 512, "N": 500, "bits": 4, "block_size": 32, "accuracy_level": level, "domain": "com.microsoft"}
        yield name, model([("MatMulNBits", ["x", "b", "s"], ["y"], sizes)], {"x": (f32, ["n", 512])}, **four_bits)


STACK = re.compile(r"\(%rsp\).*%ymm|%ymm\d+,.*\(%rsp\)")  # the other one mostly points to data


def kernels_of(library):
    """The instructions of each kernel of a static library: (address, text)."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True).stdout
    kernels, within = [], False
    for line in text.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.*)>:$", line)
        if head:
            within = bool(re.search(r"\d+k\d\d\d_", head[1]))
            if within:
                kernels.append([])
        elif within and re.match(r"^\s+[0-9a-f]+:\t", line) and not re.search(r"\tnop|\txchg +%ax,%ax|\tdata16|\tcs nopw", line):
            address, instruction = line.split(":\t", 1)
            kernels[-1].append((int(address, 16), instruction))
    return kernels


def innermost_loops(kernel):
    """From the target of a jump back to the jump, where no other jump is between them."""
    position, last_jump = {}, -1
    for k, (address, instruction) in enumerate(kernel):
        position[address] = k
        jump = re.match(r"j\w+ +([0-9a-f]+)", instruction)
        if not jump:
            continue
        begin = position.get(int(jump[1], 16), -1)
        if begin > last_jump:
            yield [text for _, text in kernel[begin:k]]
        last_jump = k


def counts_of(library):
    """Of all kernels of a static library together."""
    counts = {"instructions": 0, "multiply_adds": 0, "vector_stores": 0, "on_the_stack": 0, "on_the_stack_in_loops": 0}
    for kernel in kernels_of(library):
        counts["on_the_stack_in_loops"] += sum(bool(STACK.search(text)) for loop in innermost_loops(kernel) for text in loop)
        for _, text in kernel:
            counts["instructions"] += 1
            counts["multiply_adds"] += bool(re.search(r"^vfn?madd\d+ps .*%ymm|^vpmaddwd|^vpmaddubsw|^vpdp", text))
            counts["vector_stores"] += bool(re.search(r"^vmov\w+ +%ymm\d+,.*\((?!%rsp)", text))
            counts["on_the_stack"] += bool(re.search(r"^vmov", text) and STACK.search(text))
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--write", action="store_true", help="write what was found as what is known")
    parser.add_argument("--only", default="", help="models whose name has this in it")
    arguments = parser.parse_args()
    compiler = subprocess.run([arguments.metac, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"LLVM (\S+)", compiler)[1]
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {"llvm": version, "kernels": {}}
    if known["llvm"] != version and not arguments.write:
        print(f"skipped: the numbers are of LLVM {known['llvm']}, this is {version}\n0 passed, 0 failed, 1 skipped")
        return 0
    passed = failed = 0
    found = {}
    with tempfile.TemporaryDirectory(prefix="metac-kernels-") as work:
        for name, graph in models():
            if arguments.only not in name:
                continue
            file, folder = pathlib.Path(work, f"{name}.onnx"), pathlib.Path(work, name)
            onnx.save(graph, file)
            done = subprocess.run([arguments.metac, "compile", file, "-o", folder, "--name", "net", "--cpu", "x86-64-v3"], capture_output=True, text=True)
            if done.returncode:
                print(f"FAIL {name}: {done.stderr.strip()}")
                failed += 1
                continue
            now, before = counts_of(folder / "lib/libnet.a"), known["kernels"].get(name)
            found[name] = now
            worse = [] if arguments.write or before is None else [
                key for key in now if (now[key] < before[key] / ALLOWED if key in FEWER_IS_WORSE else now[key] > before[key] * ALLOWED)]
            if before is None and not arguments.write:
                worse = ["no numbers are known"]
            print(f"{'FAIL' if worse else 'ok  '} {name}: {now}" + (f", was {before}: {', '.join(worse)}" if worse else ""), flush=True)
            passed, failed = passed + (not worse), failed + bool(worse)
    if arguments.write:
        KNOWN.write_text(json.dumps({"llvm": version, "kernels": {**known["kernels"], **found}}, indent=1) + "\n")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
