#!/usr/bin/env python3
"""The CUDA target without a GPU: kernels and libraries on a stand-in for the toolkit, and nvcc where it is installed.

    python3 run_cuda.py --build build/ci [--cases DIR] [--sample N] [--seed S] [--whole] [--keep DIR]

toolkit/ stands in for the CUDA toolkit: its nvcc compiles kernels as C++, its cuda_runtime.h runs them on the CPU and finds
races, barriers that not all threads reach, unset memory and accesses beyond the end of an allocation. Checked with it:
models of every schedule, their derivatives and their open dims; a sample of ONNX's backend cases (--cases: what
tests/conformance/generate_cases.py wrote); a whole generated library against the CPU target, with every call of the CUDA
runtime failing once and without a device. With nvcc: generated projects compile and link, by metac and by cmake, and say
that there is no device. Needs numpy and onnx. The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx

sys.dont_write_bytecode = True
from gpu_script_checks import GpuScriptChecks, command, expect
from make_models import make_models
from nvcc_checks import NvccChecks, real_nvcc
from state_checks import StateChecks
from training_checks import TrainingChecks

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parents[1] / "models/digits"
PRODUCTS = ("attention", "conv_1x1", "gemm_bias", "gemm_gelu", "gemm_gelu_tanh", "layers_gelu", "matmul_gelu_of_parts", "gemm_residual_relu", "gemm_transposed_relu", "matmul_batches", "matmul_bfloat16", "matmul_float16", "matmul_transposed", "matmul", "loop", "two_branches")


class Checks(TrainingChecks, StateChecks, GpuScriptChecks, NvccChecks):
    def __init__(self, work, build, cases, sample, seed, whole):
        self.whole, self.work, self.metac, self.shim = whole, work, build / "bin/metac", build / "bin/metac_run_on_shim"
        self.cases, self.sample, self.seed = cases, sample, seed
        self.models = make_models(work / "models")
        self.toolkit = work / "toolkit"
        shutil.copytree(HERE / "toolkit", self.toolkit, dirs_exist_ok=True)
        (self.toolkit / "lib64").mkdir(exist_ok=True)
        for library in ("cudart_static", "cublasLt", "cudnn"):
            command("ar", "rcs", self.toolkit / f"lib64/lib{library}.a")
        header = self.toolkit / "include/cuda_runtime.h"
        command(self.toolkit / "bin/nvcc", "-std=c++17", "-O3", "-c", "-x", "c++-header", header, "-o", f"{header}.gch")
        # Compiled files are found again by ccache, in another folder too.
        self.stand_in = {**os.environ, "CCACHE_BASEDIR": str(work), "CCACHE_NOHASHDIR": "1", "CCACHE_SLOPPINESS": "pch_defines,time_macros", "METAC_ALGORITHMS": "off", "PATH": f"{self.toolkit / 'bin'}:{os.environ['PATH']}"}
        self.skipped, self.building, self.build = 0, threading.Lock(), pathlib.Path(build).resolve()

    def _built(self, name, model):
        """The project of a model for the stand-in, made once for all checks. All have one name: most of their sources are then the same text."""
        with self.building:
            if not (self.work / name).exists():
                command(self.metac, "compile", self.models / model / "model.onnx", "-o", self.work / name, "--name", "net", "--target", "cuda", env=self.stand_in)
        return self.work / name

    def _run_on_shim(self, *options, all_pass=False, **environment):
        """The numbers of passed, failed and skipped cases; what failed is an exception."""
        status, said = command(self.shim, *options, status=None, env={**os.environ, "METAC_SHIM_NVCC": str(self.toolkit / "bin/nvcc"), "METAC_SHIM_BUILDS": str(self.work / "builds"), "METAC_ALGORITHMS": "off", **environment})
        counts = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", said, re.MULTILINE)
        expect(counts and status == 0 and int(counts[2]) == 0, "\n".join(said.splitlines()[-15:]))
        passed, skipped = int(counts[1]), int(counts[3])
        expect(passed > 0 and (skipped == 0 or not all_pass), f"{passed} passed, {skipped} skipped")
        return f"{passed} cases"

    # ---- on the stand-in ----
    def faults_are_found(self):
        """The stand-in itself: what it promises to find, it finds in at least one order, and nothing in what is right."""
        program = self.work / "stand_in_faults"
        command(self.toolkit / "bin/nvcc", "-std=c++17", "-O3", HERE / "stand_in_faults.cu", "-o", program)

        def run(kind):
            return [command(program, kind, status=None, env={**os.environ, "METAC_SHIM_ORDER": order}) for order in ("forward", "reverse", "5")]

        for kind, answer in {"reversed": range(64, 0, -1), "not_passed_by": [1] * 64, "shuffled": [496496 if k % 32 == 0 else 496 for k in range(64)]}.items():
            expect(all(status == 0 and [float(word) for word in said.split()] == 2 * list(answer) for status, said in run(kind)), f"{kind}: {run(kind)}")
        for kind in ("no_barrier", "of_the_other_block"):
            expect(len({said for _, said in run(kind)}) > 1, f"{kind}: the same in every order")
        expect(all("nan" in said for _, said in run("unset")), "memory that was not set is not NaN")
        for kind, message in {"passed_by": "have passed by", "two_barriers": "at different barriers", "beyond_the_end": ""}.items():
            expect(all(status != 0 and message in said for status, said in run(kind)), f"{kind}: {run(kind)}")

    def models_of_every_schedule(self):
        return self._run_on_shim(self.models, all_pass=True)

    def packed_kernels(self):
        kept = self.work / "packs"
        said = self._run_on_shim("--keep", kept, *sorted(self.models.glob("packs*")), all_pass=True)
        text = "".join(file.read_text() for file in kept.glob("batch_*.cu"))
        kernels = {name: part for part in text.split("namespace case")[1:] for name in [part.split(" ")[0]]}
        widths = [sorted(set(re.findall(r"(?:load|store)_pack<(\d)>", kernels[str(k)]))) for k in range(len(kernels))]
        # In the order of names: packs, of doubles, of float16, not aligned, of an odd width, of two types.
        expect(widths == [["4"], ["2"], ["8"], [], [], ["4"]], f"widths of packs: {widths}")
        return said

    def _kernels_of(self, *names, options=()):
        """The printed kernels of models, by name."""
        for name in names:
            command(self.metac, "compile", self.models / name / "model.onnx", "-o", self.work / f"{name} sources", "--name", "net", "--target", "cuda", "--external", "none", "--no-build", *options)
        return {name: "".join(file.read_text() for file in (self.work / f"{name} sources/src").glob("kernels_*.cu")) for name in names}

    def attention_is_one_kernel(self):
        names = [folder.name for folder in sorted(self.models.glob("attention*"))]
        for name, text in self._kernels_of(*names).items():
            expect(all(part in text for part in ("softmax streamed", "neighbours_max<16>", "start_copy<")) and text.count("__global__") <= 2, f"{name}: {text.count('__global__')} kernels")
        return f"{len(names)} models"

    def transposes_are_tiled(self):
        for name, text in self._kernels_of(*(folder.name for folder in sorted(self.models.glob("transposed*")))).items():
            expect("through shared memory" in text and text.count("__global__") == 1, f"{name} is not tiled")

    def alike_kernels_are_one(self):
        for name, text in self._kernels_of("alike", "alike_float16").items():
            expect(re.search("Members<[45], 3>", text) and text.count("__global__") <= 4, f"{name}: {text.count('__global__')} kernels")
        return self._run_on_shim("--grad", "1", self.models / "alike", self.models / "alike_places", all_pass=True)

    def tensor_cores(self):
        """Narrow products are the tensor cores' where no library is asked, and float32's where it may be rounded."""
        names = [folder.name for folder in sorted(self.models.glob("tensor_*"))]
        for name, text in self._kernels_of(*names, options=("--tf32", "on")).items():
            expect("products on tensor cores" in text and "tensor_multiply<Tensor_" in text, f"{name}: no tensor cores")
        # Tiles that only move are copied beside the products, in as wide pieces as lie together and are aligned.
        for name, text in self._kernels_of("tensor_attention_float16", "tensor_matmul_float16", "tensor_products_of_floats", "tensor_conv_float16").items():
            widths = sorted({int(n) for n in re.findall(r"start_copy<(\d)>", text)})
            wanted = {"tensor_attention_float16": [8], "tensor_matmul_float16": [2, 4], "tensor_products_of_floats": [1, 2]}.get(name, [4])
            expect(widths == wanted, f"{name}: copies of {widths} elements")
        # Results in as wide pieces as a thread has neighbours of, behind an exchange with the thread beside it where rows are multiples of four.
        wide = {"tensor_residual_float16": 4, "tensor_residual_float32": 4, "tensor_attention_float16": 4, "tensor_attention_bfloat16": 4, "tensor_conv_even_float16": 2, "tensor_matmul_float16": 2, "tensor_conv_float16": 2, "tensor_uint8_int8": 2}
        for name, text in self._kernels_of(*wide, options=("--tf32", "on")).items():
            widths = {int(n) for n in re.findall(r"store_pack<(\d)>", text)}
            expect(widths == {wide[name]} and ("tensor_rows_of_four<" in text) == (wide[name] == 4), f"{name}: stores of {widths} elements")
        text = self._kernels_of("tensor_products_of_floats")["tensor_products_of_floats"]
        expect("tensor_multiply" not in text, "float32 is rounded, and nobody asked for it")
        # Attention is one kernel, whose weights go from one product to the next in registers; so with float32 that may be rounded.
        attentions = [folder.name for folder in sorted(self.models.glob("attention_*"))]
        for options, several in (((), [name for name in names if "attention" in name]), (("--tf32", "on"), attentions)):
            for name, text in self._kernels_of(*several, options=options).items():
                expect(all(part in text for part in ("softmax streamed", "neighbours_max<4>", "tensor_multiply_sums<")) and text.count("__global__") == 1, f"{name}: {text.count('__global__')} kernels")
        self._run_on_shim("--open", *(self.models / name for name in names), all_pass=True)
        return self._run_on_shim("--tf32", *(self.models / name for name in (*attentions, "tensor_products_of_floats", "tensor_residual_float32", "conv_3x3_stride_1_groups_1", "gemm_residual_relu", "matmul_batches")), all_pass=True)

    def open_dims(self):
        return self._run_on_shim("--open", self.models, all_pass=True)

    def derivatives(self):
        models = [folder for folder in sorted(self.models.iterdir()) if not re.match("tensor_u?int8_|parts_of_bool", folder.name)]  # integers have none
        return self._run_on_shim("--grad", "1", "--keep", self.work / "derivatives", *models, all_pass=True)

    def second_derivatives(self):
        names = ("conv_3x3_stride_1_groups_1", "conv_3x3_stride_2_groups_1", "attention", "layer_norm", "softmax_100")
        return self._run_on_shim("--grad", "2", *(self.models / name for name in names), all_pass=True)

    # The vendor's libraries stand in too: by plain loops, and a note of each call.
    def _noted(self, *options, **environment):
        """Runs models with --external; how many cases there were and the lines of what was called."""
        notes = pathlib.Path(tempfile.mkdtemp(prefix="calls-", dir=self.work)) / "notes"   # checks run side by side
        said = self._run_on_shim("--external", *options, all_pass=True, METAC_SHIM_CALLS=str(notes), **environment)
        return said, notes.read_text().splitlines() if notes.exists() else []

    def library_products(self):
        said, calls = self._noted(*(self.models / name for name in PRODUCTS))
        products = [line for line in calls if line.startswith("product")]
        for part in ("epilogue 4", "epilogue 6", "epilogue 32", "epilogue 36", "residual", "type 2", "type 14", "product 12 x", "product 1 x"):
            expect(any(part in line for line in products), f"no product with '{part}' among\n" + "\n".join(sorted(set(products))))
        expect(sum(line.count("epilogue 36") for line in set(products)) == 2, "gelu with the error function is not the library's")
        expect(not any("tf32" in line for line in products), "TF32 that nobody asked for")
        expect(any(line.startswith("graph of") for line in calls), "no run was recorded")
        expect(any(re.match(r"graph of \d+ works, [23] branches", line) for line in calls), "nothing runs side by side")
        _, calls = self._noted("--tf32", self.models / "gemm_bias")
        expect(any("tf32" in line for line in calls), "no TF32 where it was asked for")
        return f"{said}, {len(set(products))} kinds of product"

    def library_convolutions(self):
        said, calls = self._noted(*sorted(self.models.glob("*conv*")))
        told = sorted({line for line in calls if line.startswith("convolution")})
        for part in ("2x6x9x8 with 10x6x3x3 to 2x10x9x8 groups 1 type 0 residual bias relu", "12x1x3x3 to 2x12x9x8 groups 12", "12x4x3x3 to 1x12x8x14 groups 2",
                     "2x5x1x40 with 7x5x1x4", "6x4x3x2x3", "type 2 ", "type 9 ", "with 24x20x3x3 to 2x24x13x14", "with 24x5x3x3 to 2x24x7x7 groups 4"):
            expect(any(part in line for line in told), f"no convolution with '{part}' among\n" + "\n".join(told))
        expect(not any("tf32" in line for line in told), "TF32 that nobody asked for")
        for line in told:   # on tensor cores only
            expect(("channels last" in line) == ("type 0 " not in line + " "), f"how it lies: {line}")
        expect(any(line.startswith("graph of") for line in calls), "no run was recorded")
        kept = self.work / "sums_alone"
        _, calls = self._noted("--keep", kept, self.models / "library_conv_not")
        expect(any(line.startswith("convolution") for line in calls) and "_finish(rest" in "".join(f.read_text() for f in kept.glob("batch_*.cu")), "an epilogue that the library does not know is not finished")
        _, calls = self._noted(self.models / "library_conv_of_two_sums")   # each with its bias, the second with the first's result
        expect(sorted(line.split(" type 0 ")[1].split(" channels")[0] for line in set(calls) if line.startswith("convolution")) == ["bias", "residual bias relu"], "\n".join(calls))
        for how in ("none", "refuse"):   # then the one kernel does both
            _, calls = self._noted(self.models / "library_conv_not", METAC_SHIM_DNN=how)
            expect(not any(line.startswith("convolution") for line in calls), "a convolution that the library cannot")
        _, calls = self._noted("--tf32", self.models / "library_conv_residual", METAC_SHIM_DNN="rounding")
        expect(any("tf32 channels last" in line for line in calls), "no TF32 where it was asked for")
        _, calls = self._noted(self.models / "library_conv_residual", METAC_SHIM_DNN="rounding")
        expect(not any(line.startswith("convolution") for line in calls), "an engine that rounds float32 was taken")
        # With open images, heights and widths the library is asked for the same; with open channels too it is not. What is an input of its own to be
        # added may then be broadcast.
        models = sorted(self.models.glob("library_conv*"))
        added = [m for m in models if not re.search("residual|two_biases", m.name)]
        fixed, opened = ({line for line in self._noted(*options, *added)[1] if line.startswith("convolution")} for options in ((), ("--open-images",)))
        expect(fixed and fixed == opened, "with open dims other convolutions are the library's:\n" + "\n".join(sorted(fixed ^ opened)))
        self._noted("--open", *models)
        return f"{said}, {len(told)} kinds of convolution"

    def library_gradients_of_convolutions(self):
        models = [m for m in sorted(self.models.glob("*conv*")) if m.name != "conv_1x1"]
        said, calls = self._noted("--grad", "1", *models)
        told = sorted({line for line in calls if "gradient of" in line})
        for kind in ("data", "weights"):   # of strides, with and without padding, of groups, depthwise
            for part in ("with 24x20x3x3 to 2x24x13x14", "with 24x20x3x3 to 2x24x7x7", "with 10x6x3x3 to 2x10x7x6", "with 10x6x5x3 to 2x10x8x8", "with 24x5x3x3 to 2x24x13x14 groups 4", "with 24x5x3x3 to 2x24x7x7 groups 4",
                         "with 12x4x3x3 to 1x12x8x14 groups 2", "with 12x1x3x3 to 2x12x9x8 groups 12", "with 24x1x3x3 to 2x24x5x4 groups 12"):
                expect(any(line.startswith(f"{kind} gradient") and part in line for line in told), f"no {kind} gradient with '{part}' among\n" + "\n".join(told))
        _, calls = self._noted(self.models / "conv_transposed")
        expect(any(line.startswith("data gradient") for line in calls), "a transposed convolution is no data gradient")
        self._noted("--grad", "1", *models[:3], METAC_SHIM_DNN="none")
        self._noted("--grad", "2", self.models / "conv_3x3_stride_2_groups_1")
        return f"{said}, {len(told)} kinds of gradient"

    def library_products_of_derivatives(self):
        names = ("attention", "conv_1x1", "gemm_bias", "gemm_residual_relu")
        said, calls = self._noted("--grad", "1", *(self.models / name for name in names))
        expect(len({line for line in calls if line.startswith("product")}) >= 5, "\n".join(sorted(set(calls))))
        said, calls = self._noted("--open", *(self.models / name for name in names))
        expect(any(line.startswith("product") for line in calls), "no product with open dims")
        return said

    def library_epilogues_of_derivatives(self):
        """Gelu that keeps what it is applied to (160, 164 with a bias), its gradient (192), gradients of biases beside those of weights (256, 512)."""
        def epilogues(calls):
            return {int(n) for line in calls for n in re.findall(r"^product .* epilogue (\d+)", line)}

        for name in ("layers_gelu", "layers_gelu_float16", "layers_gelu_bfloat16"):
            _, calls = self._noted("--grad", "1", self.models / name)
            expect({164, 192, 256, 512} <= epilogues(calls), f"{name}: epilogues {epilogues(calls)}")
        # Where the library has none of them: the products, and kernels beside them; where it has nothing at all: kernels.
        for how, wanted in (("simple", {1, 4}), ("refuse", set())):
            _, calls = self._noted("--grad", "1", self.models / "layers_gelu", METAC_SHIM_BLAS=how)
            expect(epilogues(calls) == wanted, f"{how}: epilogues {epilogues(calls)}")
        return self._noted("--grad", "1", "--tf32", self.models / "layers_gelu")[0]

    def libraries_that_cannot(self):
        """Kernels do what the library does not: it knows no algorithm, all algorithms fail, any one call fails."""
        names = [self.models / name for name in ("gemm_bias", "gemm_residual_relu")]
        for how in ("none", "refuse"):
            _, calls = self._noted(*names, self.models / "library_conv_residual", METAC_SHIM_BLAS=how, METAC_SHIM_DNN=how)
            expect(not any(line.startswith(("product", "convolution")) for line in calls), "a library computed")
        folder = self._built("filtered", "library_conv_residual")
        expect(json.loads((folder / "net.json").read_text())["libraries"] == ["cudnn"], "the manifest does not name the library")
        inputs = sorted((self.models / "library_conv_residual/test_data_set_0").glob("input_*.pb"))
        told, without = self._every_call_fails(folder / "bin/net_run", *inputs)  # one call more where the fastest algorithm wants workspace
        expect(told >= 8 and without > 20, f"{told} calls told that they failed, {without} were done without")
        folder = self._built("gemm", "gemm_bias")
        manifest = json.loads((folder / "net.json").read_text())
        expect(manifest["libraries"] == ["cublasLt"] and any(k.get("libraries") == ["cublasLt"] for k in manifest["kernels"]), "the manifest does not name the library")
        told, without = self._every_call_fails(folder / "bin/net_run", self.models / "gemm_bias/test_data_set_0/input_0.pb")
        expect(told >= 8 and without > 8, f"{told} calls told that they failed, {without} were done without")
        folder = self.work / "gemm alone"
        command(self.metac, "compile", self.models / "gemm_bias/model.onnx", "-o", folder, "--name", "gemm", "--target", "cuda", "--external", "none", "--no-build")
        expect(json.loads((folder / "gemm.json").read_text())["libraries"] == [] and not list(folder.glob("src/library_*")), "--external none calls libraries")

    def algorithms_are_remembered(self):
        """What was the fastest is measured by one process and found by the next; a file that cannot be used costs a measurement and nothing else."""
        for name, model in (("gemm", "gemm_bias"), ("filtered", "library_conv_residual")):
            folder = self._built(name, model)
            inputs = sorted((self.models / model / "test_data_set_0").glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
            cache, notes, answers, most_held = self.work / f"{name} cache", self.work / f"{name} times", [], [0]
            file = cache / "library_algorithms.txt"

            def measures(**environment):
                """How many times a process measures; its answers are the same whatever it finds."""
                notes.unlink(missing_ok=True)
                out = self.work / f"remembering {name} answer"
                self._run_program(folder / "bin/net_run", out, *inputs, **{"METAC_ALGORITHMS": "", "METAC_CACHE_DIR": str(cache), "METAC_SHIM_CALLS": str(notes), **environment})
                answers.append(np.concatenate([np.load(f).ravel() for f in sorted(out.iterdir())]))
                expect(np.allclose(answers[0], answers[-1], rtol=1e-4, atol=1e-5), "other answers")
                lines = notes.read_text().splitlines()
                most_held[0] = max(int(line.split()[1]) >> 20 for line in lines if line.startswith("holds "))
                return lines.count("timed")

            def written(*numbers):
                """The file with another algorithm, well written."""
                lines = []
                for line in kept.decode().splitlines():
                    text = line.split(" =")[0] + " =" + "".join(f" {n:x}" for n in (*numbers, *(0,) * (8 - len(numbers))))
                    sum = 0xcbf29ce484222325
                    for byte in text.encode():
                        sum = (sum ^ byte) * 0x100000001b3 % 2 ** 64
                    lines.append(f"{text} #{sum:016x}\n")
                return "".join(lines)

            first = measures()
            expect(first >= 2 and file.stat().st_mode & 0o777 == 0o600, f"{first} measurements at the first run")
            expect(measures() == 0, "measured again what is remembered")
            kept = file.read_bytes()
            expect(measures(METAC_ALGORITHMS="off") == first and file.read_bytes() == kept, "switched off, and yet remembered")
            expect(measures(METAC_SHIM_CARD="another card") == measures(METAC_SHIM_LIBRARY="2") == first, "another card or version, and the first one's choice")
            expect(measures() == measures(METAC_SHIM_CARD="another card") == 0 and len(file.read_bytes().splitlines()) == 3 * len(kept.splitlines()), "a choice went lost")
            # What the library does not propose, or proposes and then refuses to run.
            aligned = int(kept.split(b" = ")[1].split()[1], 16)
            for numbers in ((2 ** 64 - 1,) * 8, (0,) * 8, {"gemm": (1, aligned), "filtered": (3, 1, 1)}[name]):
                file.write_text(written(*numbers))
                expect(measures() == first and measures() == 0, f"algorithm {numbers} was not measured again")
            # The workspace is as large as the chosen algorithm wants.
            for mebibytes, numbers in {"gemm": ((0, (0, aligned)), (32, (2, aligned, 32 << 20))), "filtered": ((0, (3, 5, 5)), (2, (3, 6, 6)))}[name]:
                file.write_text(written(*numbers))
                expect(measures() == 0 and most_held[0] == mebibytes, f"algorithm {numbers} holds {most_held[0]} MiB")
            file.write_bytes(kept)
            if name != "gemm":   # what a file can be is the same for both libraries
                continue
            # Any byte of it may be wrong; a line may be cut, and the next one does not suffer.
            for damage in (*(kept[:k] + bytes([kept[k] ^ 1]) + kept[k + 1:] for k in range(0, len(kept) - 1, len(kept) // 12)), kept[:-2], kept[:len(kept) // 2], b"\0" * 5000, bytes(range(256)) * 4096, b" = #0\n=#"):
                file.write_bytes(damage)
                expect(measures() > 0 and measures() == 0, f"a damaged file is believed or not mended: {damage[:80]}")
            file.write_bytes(b"x" * (1 << 20))
            expect(measures() == first and measures() == 0 and file.stat().st_size < 2000, "a large file is not begun again")
            file.unlink()
            for make in (os.mkfifo, lambda path: path.mkdir(), lambda path: path.symlink_to(self.work / "elsewhere")):
                make(file)
                expect(measures() == measures() == first, "something that is no file was read")
                file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
            expect(not (self.work / "elsewhere").exists(), "a link was followed")
            cache.chmod(0o777)
            expect(measures() == first and not file.exists(), "a folder that anybody writes to was used")
            cache.rename(self.work / f"{name} old cache")
            for nowhere in ("/proc/none", "relative", "/dev/null"):
                expect(measures(METAC_CACHE_DIR=nowhere) == first, f"remembered in {nowhere}")
            with ThreadPoolExecutor(max_workers=4) as pool:   # all begin without a file
                list(pool.map(lambda k: self._run_program(folder / "bin/net_run", self.work / f"{name} beside {k}", *inputs, METAC_ALGORITHMS="", METAC_CACHE_DIR=str(cache)), range(4)))
            expect(measures() == 0, "what processes wrote side by side is lost")

    def _driver(self, folder):
        """The driver and NVRTC that stand in; where they are."""
        (folder / "both").mkdir(parents=True)
        for name, library in (("cuda", "libcuda.so.1"), ("nvrtc", "libnvrtc.so.13")):
            command("c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", HERE / f"toolkit/driver/{name}.cpp", "-o", folder / "both" / library, "-ldl")
        return folder / "both"

    def compiled_at_run_time(self):
        """metac run --target cuda: kernels by NVRTC, which stands in too; once more out of the cache; with NVIDIA's own compiler, if it is here."""
        folder = self.work / "driver"
        self._driver(folder)
        notes = folder / "notes"
        environment = {**os.environ, "LD_LIBRARY_PATH": str(folder / "both"), "METAC_CACHE_DIR": str(folder / "cache"), "METAC_SHIM_NVCC": str(self.toolkit / "bin/nvcc"), "METAC_SHIM_CALLS": str(notes)}
        names = ("softmax_100", "softmax_20000", "conv_3x3_stride_2_groups_4", "gemm_residual_relu", "attention", "nonzero_gather", "loop", "scatter_added", "packs_float16", "vector_product", "alike")

        def run(name, target, *options, status=0, **more):
            inputs = sorted((self.models / name / "test_data_set_0").glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
            ports = [i.name for i in onnx.load(self.models / name / "model.onnx").graph.input]
            out = folder / f"{name} {target}"
            said = command(self.metac, "run", self.models / name / "model.onnx", "--target", target, *(w for n, i in zip(ports, inputs) for w in ("--input", f"{n}={i}")), "--output-dir", out, *options,
                           status=status, env={**environment, **more})
            return said if status else {file.name: np.load(file) for file in sorted(out.iterdir())}

        for name in names:
            wanted, got = run(name, "cpu"), run(name, "cuda")
            half = 2e-3 if "float16" in name else 2e-5
            for file in wanted:
                expect(got[file].shape == wanted[file].shape and np.allclose(got[file].astype("f8"), wanted[file].astype("f8"), rtol=half, atol=half), f"{name}: the CPU answers otherwise")
        compiled = len(notes.read_text().splitlines())
        expect(compiled >= len(names), f"{compiled} compilations at run time")
        run(names[0], "cuda")
        expect(len(notes.read_text().splitlines()) == compiled, "compiled again what the cache has")
        run(names[0], "cuda", METAC_SHIM_DRIVER="13010")
        expect(len(notes.read_text().splitlines()) == compiled + 1, "another driver, and the cache's kernels")
        said = run(names[0], "cuda", status=1, METAC_SHIM_DEVICES="0")
        expect("no CUDA device" in said, said)
        # So does verify, of cases that have answers.
        said = command(self.metac, "verify", self.models / "softmax_100", "--target", "cuda", env=environment)
        expect("1 passed, 0 failed" in said, said)
        said = command(self.metac, "verify", self.models / "softmax_100", "--target", "cuda", status=None, env={**environment, "METAC_SHIM_DEVICES": "0"})[1]
        expect("no CUDA device" in said, said)
        # Kernels for shapes that the data decide compute sizes on the host, with all functions that sizes are written with.
        for case in ("col2im", "constant_pad", "maxunpool_export_with_output_shape") if self.cases else ():
            said = command(self.metac, "verify", self.cases / f"node/test_{case}", "--target", "cuda", "--known", "shapes", env=environment)
            expect("1 passed, 0 failed" in said, said)
        package = self.build / "python"
        sessions = command(sys.executable, HERE / "cuda_session.py", package, env=environment).splitlines() if list(package.glob("metac/_metac*")) else ["no sessions: the Python module is not built"]
        if not real_nvcc() or not list((pathlib.Path(real_nvcc()).parents[1]).glob("lib*/libnvrtc.so*")):
            return f"{len(names)} models, {'; '.join(sessions)}; NVIDIA's compiler is not here"
        # The driver stands in under another name: NVIDIA's compiler asks for the real one by its own.
        shutil.copy(folder / "both/libcuda.so.1", folder / "libstand_in.so")
        libraries = str(next((pathlib.Path(real_nvcc()).parents[1]).glob("lib*/libnvrtc.so*")).parent)
        for name in names:   # its code is for a GPU: the stand-in refuses it when it is made
            said = run(name, "cuda", status=1, LD_LIBRARY_PATH=libraries, METAC_CUDA_DRIVER=str(folder / "libstand_in.so"), METAC_CACHE_DIR=str(folder / "other cache"))
            expect("loading the kernels: device kernel image is invalid" in said, f"{name}: {said}")
        return f"{len(names)} models, {'; '.join(sessions)}; {len(names)} models by NVIDIA's compiler"

    def _sampled(self, *options):
        if not self.cases:
            self.skipped += 1
            return "skipped: no --cases"
        return self._run_on_shim(*options, "--sample", str(self.sample), "--seed", str(self.seed), self.cases / "node", self.cases / "simple")

    def backend_cases(self):
        return self._sampled()

    def backend_cases_with_open_dims(self):
        return self._sampled("--open")

    def backend_cases_derived(self):
        return self._sampled("--grad", "1")

    def _run_program(self, program, out, *inputs, status=0, **environment):
        out.mkdir(exist_ok=True)
        return command(program, *(word for i in inputs for word in ("--input", i)), "--output-dir", out, status=status, env={**self.stand_in, **environment})

    def _every_call_fails(self, program, *inputs):
        """One call after the other fails: the program says so and ends with status 1, or it does without. How many did which."""
        out, notes, failed, answer = self.work / f"{program.name} failing", self.work / f"{program.name} calls", {0: 0, 1: 0}, None
        for call in range(0, 1000):
            status, said = self._run_program(program, out, *inputs, status=None, METAC_SHIM_FAIL=str(call), METAC_SHIM_CALLS=str(notes))
            got = {file.name: np.load(file) for file in out.iterdir()} if status == 0 else {}
            answer = answer or got
            good = all(np.allclose(got[name], answer[name], rtol=1e-4, atol=1e-5) for name in answer) if status == 0 else "CUDA: " in said or "no memory" in said
            expect(status in (0, 1) and good, f"call {call} failing: status {status}, {said}")
            for file in out.iterdir():
                file.unlink()
            if call > 0 and (not notes.exists() or "a call fails" not in notes.read_text()):
                return failed[1], failed[0]
            failed[status] += call > 0
            notes.unlink(missing_ok=True)

    def whole_library(self):
        folder = self.work / "digits"
        command(self.metac, "compile", DIGITS / "digits.onnx", "-o", folder, "--name", "digits", "--target", "cuda", env=self.stand_in)
        program, out, expected = folder / "bin/digits_run", self.work / "answer", self.work / "expected"
        expected.mkdir()
        digit = DIGITS / "digit_3.npy"
        command(self.metac, "run", DIGITS / "digits.onnx", "--input", f"image={digit}", "--output-dir", expected)
        answers = []
        for order in ("forward", "reverse", "99"):
            self._run_program(program, out, digit, METAC_SHIM_ORDER=order)
            answers.append(np.load(out / "probabilities.npy"))
        expect(all((a == answers[0]).all() for a in answers), "other bits in another order")
        expect(np.abs(answers[0] - np.load(expected / "probabilities.npy")).max() < 1e-6, "the CPU answers otherwise")
        for card in ("0", "6000", "40000"):   # bytes: nothing, or not all, fits onto it
            self._run_program(program, out, digit, METAC_SHIM_MEMORY=card)
            expect((np.load(out / "probabilities.npy") == answers[0]).all(), f"other bits on a card of {card} bytes")
        said = self._run_program(program, out, digit, status=1, METAC_SHIM_DEVICES="0")
        expect("no CUDA device" in said, said)
        told, _ = self._every_call_fails(program, digit)
        expect(told >= 10, f"only {told} calls told that they failed")
        np.load(digit).astype("f4").tofile(self.work / "digit.raw")
        command(self.toolkit / "bin/nvcc", "-std=c++17", "-O1", f"-I{folder / 'include'}", HERE / "device_calls.cpp", "-x", "none", folder / "lib/libdigits.a", "-pthread", "-ldl", "-o", self.work / "device_calls")
        for order in ("forward", "reverse", "7"):
            notes = self.work / f"device calls {order}"
            said = command(self.work / "device_calls", self.work / "digit.raw", folder / "digits.weights", env={**self.stand_in, "METAC_SHIM_ORDER": order, "METAC_SHIM_CALLS": str(notes)})
            expect(notes.read_text().count("graph of") >= 4, "runs that repeat were not recorded")
            expect(np.abs(np.array(said.split(), "f4") - answers[0].ravel()).max() == 0, "the C++ interface answers otherwise")
        script = f"""
import gc, numpy as np, digits
x = np.load({str(digit)!r})
with digits.Model() as m:
    y = m.run({{"image": np.concatenate([x] * 5)}})["probabilities"]
    assert y.shape == (5, 10) and (y == y[0]).all() and y[0].argmax() == 3, y
    out = np.zeros((1, 10), "f4")
    m.run({{"image": x}}, outputs={{"probabilities": out}})
    assert (out[0] == y[0]).all()
    there = m.run_async({{"image": x}})["probabilities"]
    assert there.shape == (1, 10) and there.dtype == np.float32 and there.__dlpack_device__() == (2, 0)
    there.__dlpack__()      # nobody takes it
    try:
        digits.Model().run_async({{"image": there}})
        raise SystemExit("a wrong shape was taken")
    except digits.Error as error:
        assert "expected" in str(error), error
    try:
        m.run_async({{"image": x}}, outputs={{"probabilities": out}})
        raise SystemExit("memory of the host was taken")
    except TypeError:
        pass
    del there
    gc.collect()
    assert not digits._handed_out
    m.set_weights({{p.name: np.zeros(p.shape, p.dtype) for p in m.parameters}})
    assert np.ptp(np.nan_to_num(m.run({{"image": x}})["probabilities"])) == 0
"""
        command(sys.executable, "-c", script, env={**self.stand_in, "PYTHONPATH": str(folder / "python")})
        # A larger batch wants more workspace than what was recorded before it, which goes on with the block that it has.
        script = f"""
import numpy as np, digits
x = np.load({str(digit)!r})
with digits.Model() as m:
    run = lambda count: m.run({{"image": np.concatenate([x] * count)}})["probabilities"]
    first = run(1)
    for count in (1, 1, 1, 3, 3, 3, 1, 9, 9, 9, 3, 20, 20, 20, 9):
        assert (run(count) == first[0]).all(), count
"""
        notes = self.work / "workspaces"
        command(sys.executable, "-c", script, env={**self.stand_in, "PYTHONPATH": str(folder / "python"), "METAC_SHIM_DNN": "greedy", "METAC_SHIM_CALLS": str(notes)})
        lines = notes.read_text().splitlines()
        held = [int(line.split()[1]) >> 20 for line in lines if line.startswith("holds ")]
        # Three lanes of 2, 4, 16 and 32 MiB, none of which is given back, and little else.
        expect(any(line.startswith("graph of") for line in lines) and 160 <= max(held) <= 166, f"workspaces: {held}")
        exported = command("nm", "-D", "--defined-only", folder / "lib/libdigits.so")
        expect(all(line.split()[-1].startswith(("digits_", "metac_model_v1@", "METAC_MODEL_1")) for line in exported.splitlines()), "other symbols are exported:\n" + exported)

    def data_decides_sizes(self):
        for name in ("nonzero_gather", "loop", "attention"):
            folder, model = self._built(name, name), self.models / name / "model.onnx"
            inputs = sorted((self.models / name / "test_data_set_0").glob("input_*.pb"))
            out, expected = self.work / f"{name} answer", self.work / f"{name} expected"
            expected.mkdir()
            self._run_program(folder / "bin/net_run", out, *inputs)
            names = {"attention": "qkv"}.get(name, "x")
            command(self.metac, "run", model, *(w for n, i in zip(names, inputs) for w in ("--input", f"{n}={i}")), "--output-dir", expected)
            for file in expected.iterdir():
                got, wanted = np.load(out / file.name), np.load(file)
                expect(got.shape == wanted.shape and np.allclose(got, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max()), f"{name}: {file.name} differs from the CPU's")

    def memory_of_passing_values(self):
        """What a value no longer needs is the next one's memory; what a run has taken is enough for the next; the card's last bytes are given back before managed memory is taken."""
        folder, notes = self._built("passing", "passing_values"), self.work / "passing notes"
        script = f"""
import numpy as np, net, os
def wanted(x):
    for _ in range(5):
        x = np.tanh(x[x > np.float32(0.3)])
        x /= x.max()
    return x
random = np.random.default_rng(3)
with net.Model() as m:
    for turn in range(6):
        x = np.abs(random.standard_normal(3000)).astype("f4")
        y, w = m.run({{"x": x}})["y"], wanted(x)
        assert y.shape == w.shape and np.abs(y - w).max() < 1e-5, (turn, y.shape, w.shape, np.abs(y - w).max())
        open({str(notes)!r}, "a").write("a run\\n")
"""
        for order in ("forward", "reverse"):
            notes.unlink(missing_ok=True)
            command(sys.executable, "-c", script, env={**self.stand_in, "PYTHONPATH": str(folder / "python"), "METAC_SHIM_CALLS": str(notes), "METAC_SHIM_ORDER": order})
            runs = notes.read_text().split("a run\n")
            taken = [sum(line.startswith("holds ") for line in run.splitlines()) for run in runs]
            held = max(int(line.split()[1]) for run in runs for line in run.splitlines() if line.startswith("holds "))
            # 25 values of up to 12 kB and five of a byte an element.
            expect(sum(taken[2:]) == 0 and held < 120000, f"taken {taken}, {held} bytes held")
        command(sys.executable, "-c", script, env={**self.stand_in, "PYTHONPATH": str(folder / "python"), "METAC_SHIM_MEMORY": "30000"})
        return f"{held} bytes held"

    def weights_pass_through(self):
        """Under a budget that the weights alone exceed they are copied in while the model runs: the same bits, within the budget, beside the steps."""
        model, budget = self.models / "layers/model.onnx", 88000
        (x,) = (self.models / "layers/test_data_set_0").glob("input_*.pb")
        answers = {}
        for name, options in (("resident", ()), ("swapped", ("--memory-budget", budget))):
            folder = self.work / name
            said = command(self.metac, "compile", model, "-o", folder, "--name", "net", "--target", "cuda", "--external", "none", *options, env=self.stand_in)
            out = self.work / f"{name} answer"
            script = f"""
import numpy as np, net
x = np.random.default_rng(1).standard_normal((24, 40)).astype("f4")
with net.Model() as m:
    first = [m.run({{"x": x * k}})["y"].copy() for k in (1, 2, 3, 1, 1, 1)]
    assert (first[0] == first[3]).all() and (first[0] == first[5]).all()
    m.set_weights({{p.name: np.full(p.shape, 0.01, p.dtype) + np.arange(np.prod(p.shape), dtype=p.dtype).reshape(p.shape) * p.dtype.type(1e-4) for p in m.parameters}})
    np.savez({str(out) + '.npz'!r}, *first, *[m.run({{"x": x * k}})["y"].copy() for k in (1, 1, 2)])
"""
            for order in ("forward", "reverse", "11") if options else ("forward",):
                notes = self.work / f"{name} notes {order}"
                command(sys.executable, "-c", script, env={**self.stand_in, "PYTHONPATH": str(folder / "python"), "METAC_SHIM_CALLS": str(notes), "METAC_SHIM_ORDER": order})
                with np.load(f"{out}.npz") as file:
                    answers[name, order] = [file[k] for k in file.files]
                lines = notes.read_text().splitlines()
                held = max(int(line.split()[1]) for line in lines if line.startswith("holds "))
                if options:
                    expect(held <= budget + 1000 and "of weights from the host" in said, f"{held} bytes held\n{said}")
                    expect(order != "forward" or any(re.match(r"graph of \d+ works, [23] branches", line) for line in lines), "nothing is copied beside a step")
                    expect(all((a == b).all() for a, b in zip(answers[name, order], answers["resident", "forward"], strict=True)), f"other bits in order {order}")
                else:
                    expect(held > 1.5 * budget, f"{held} bytes are no reason to swap")
        told, _ = self._every_call_fails(self.work / "swapped/bin/net_run", x)
        expect(told >= 10, f"only {told} calls told that they failed")
        status, said = command(self.metac, "compile", model, "-o", self.work / "too little", "--target", "cuda", "--memory-budget", 20000, status=None, env=self.stand_in)
        expect(status == 1 and "cannot be met" in said, said)
        return f"{held} bytes held"

    def same_sources_twice(self):
        for folder in ("once", "twice"):
            command(self.metac, "compile", self.models / "attention/model.onnx", "-o", self.work / folder, "--name", "net", "--target", "cuda", "--no-build")
        command("diff", "-r", self.work / "once", self.work / "twice")

    def no_toolkit(self):
        empty = self.work / "tools"
        empty.mkdir()
        for tool in ("c++", "ar", "as", "ld"):
            if shutil.which(tool):
                (empty / tool).symlink_to(shutil.which(tool))
        if any(os.path.exists(usual) for usual in ("/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc")):
            self.skipped += 1
            return "skipped: this machine has a toolkit where metac looks for one"
        status, said = command(self.metac, "compile", DIGITS / "digits.onnx", "-o", self.work / "unbuilt", "--target", "cuda", status=None, env={**os.environ, "PATH": str(empty)})
        expect(status == 1 and "nvcc" in said and "--no-build" in said and not (self.work / "unbuilt").exists(), said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--cases", type=pathlib.Path, help="the folder of ONNX's backend cases")
    parser.add_argument("--sample", type=int, default=120, help="how many of them, for each check")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whole", action="store_true", help="everything where a sample is usual: all programs of several networks, all builders of models as projects by nvcc")
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    parser.add_argument("--only", default=".", help="checks whose name matches")
    arguments = parser.parse_args()
    work = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-cuda-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    checks, passed, failed = Checks(work, arguments.build.resolve(), arguments.cases and arguments.cases.resolve(), arguments.sample, arguments.seed, arguments.whole), 0, 0
    names = [n for kind in Checks.__mro__ for n, member in vars(kind).items() if callable(member) and not n.startswith("_") and re.search(arguments.only, n)]

    def attempt(name):
        begin = time.monotonic()
        try:
            said, good = getattr(checks, name)(), True
        except Exception as error:  # a check that cannot run has failed
            said, good = error, False
        return name, good, said, time.monotonic() - begin

    with ThreadPoolExecutor(max_workers=2) as pool:
        # It takes what derivatives left.
        for name, good, said, seconds in itertools.chain(pool.map(attempt, [n for n in names if n != "derivatives_by_nvcc"]), map(attempt, [n for n in names if n == "derivatives_by_nvcc"])):
            skip = good and str(said).startswith("skipped")
            passed, failed = passed + (good and not skip), failed + (not good)
            print(f"{'ok   ' if good else 'FAIL '} {name.replace('_', ' ')}{': ' + str(said) if said else ''} ({seconds:.0f} s)", flush=True)
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{passed} passed, {failed} failed, {checks.skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
