"""Generated kernels and projects through NVIDIA's own compiler, where it is installed."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from gpu_script_checks import command, expect

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DIGITS = ROOT / "models/digits"
ARCHITECTURES = "80,90"
FLAGS = ("-std=c++17", "-O3", "--fmad=false", "--diag-suppress=177")
TRAINED = ("alexnet", "vgg19", "resnet50", "mobilenet_v2", "gnmt", "ncf")
DYNAMIC = ("detector", "decoder")
SCHEDULES = ("attention", "conv_3x3_stride_2_groups_1", "gemm_residual_relu", "layer_norm", "loop", "nonzero_gather", "packs_float16", "softmax_20000", "tensor_attention_bfloat16", "tensor_attention_float16")
GANS = ("dcgan", "lsgan", "wgan_gp", "cyclegan")


def real_nvcc():
    found = shutil.which("nvcc")
    return found or next((p for p in ("/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc") if os.path.exists(p)), None)


def one_source(projects, file):
    """The kernels of generated projects as one source, in a namespace each; a file that several have, once. How many kernels there are and were."""
    seen, all_kernels = {}, 0
    for project in projects:
        for source in sorted(project.rglob("src/*kernels_*.cu")):   # of derivatives too
            text = re.sub(r"\bnet\w*_runtime\b", "net_runtime", source.read_text())   # parts of training programs have other names
            head, body = re.split(r"namespace net_runtime(?:::\w+)? {", text, maxsplit=1)
            body = body[:body.rindex("}")]
            all_kernels += body.count("static __global__")
            seen.setdefault(re.sub("//.*", "", body), body)
    parts = "".join(f"namespace part{k} {{{body}}}\n" for k, body in enumerate(seen.values()))
    file.write_text(head.split("\n", 1)[1] + "namespace net_runtime {\n" + parts + "}\n")   # the head's first line counts kernels
    return sum(body.count("static __global__") for body in seen.values()), all_kernels


class NvccChecks:
    def _no_nvcc(self):
        self.skipped += 1
        return "skipped: nvcc is not installed, so no device code was compiled"

    def derivatives_by_nvcc(self):
        """The kernels that the stand-in compiled in `derivatives`, up to the code of a GPU that is not machine code yet."""
        nvcc = real_nvcc()
        if not nvcc:
            return self._no_nvcc()
        batches = sorted((self.work / "derivatives").glob("batch_*.cu"))
        for batch in batches:
            command(nvcc, *FLAGS, "-ptx", "-arch=sm_80", f"-I{ROOT}", f"-I{ROOT}/runtime", batch, "-o", self.work / "batch.ptx")
        return f"{len(batches)} batches"

    def proposals_of_cudnn(self):
        """Engines that the real cuDNN has for our convolutions on an H100, from that device's properties alone."""
        nvcc = real_nvcc()
        if not nvcc:
            return self._no_nvcc()
        built = self.work / "cudnn_proposals"
        found = subprocess.run([nvcc, "-std=c++17", "--diag-suppress=177", f"-I{ROOT}", f"-I{ROOT}/runtime", HERE / "cudnn_proposals.cu", "-o", built, "-lcudnn"], capture_output=True, text=True)
        if found.returncode and "cudnn" in found.stderr + found.stdout and not list(pathlib.Path(nvcc).resolve().parents[1].rglob("cudnn.h")):
            self.skipped += 1
            return "skipped: this toolkit has no cuDNN"
        expect(found.returncode == 0, found.stderr)
        status, said = command(built, status=None)
        if status == 4:
            self.skipped += 1
            return f"skipped: {said.splitlines()[-1]}"
        expect(status == 0, "\n".join(line for line in said.splitlines() if line.startswith("FAIL")))
        return said.splitlines()[-1]

    def projects_by_nvcc(self):
        """Whole projects by metac and by CMake. What is in their kernels is for `networks_by_nvcc`."""
        nvcc = real_nvcc()
        if not nvcc:
            return self._no_nvcc()
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{os.path.dirname(nvcc)}"}
        jobs = [(DIGITS / "digits.onnx", "digits_gpu")]
        if self.whole:
            jobs += [(file, f"{file.stem}_gpu") for file in sorted(self._networks().glob("*.onnx"))]
        for model, name in jobs:
            command(self.metac, "compile", model, "-o", self.work / name, "--name", name, "--target", "cuda", "--cuda-arch", ARCHITECTURES, env=environment)
        if self.whole:
            for model, recipe in self._programs():
                command(self.metac, "compile", model, "--train", recipe, "-o", self.work / f"{model.parent.name} by nvcc", "--name", "net", "--target", "cuda", "--cuda-arch", ARCHITECTURES, env=environment)
                jobs.append(model)
        if shutil.which("nvidia-smi") is None:
            said = command(self.work / "digits_gpu/bin/digits_gpu_run", "--input", DIGITS / "digit_3.npy", status=1)
            expect("no CUDA device" in said, said)
        command("cmake", "-G", "Ninja", "-S", self.work / "digits_gpu", "-B", self.work / "digits_cmake", f"-DCMAKE_CUDA_COMPILER={nvcc}", "-DCMAKE_CUDA_ARCHITECTURES=80", env=environment)
        command("cmake", "--build", self.work / "digits_cmake", env=environment)
        return f"{len(jobs)} projects compiled by {nvcc}; nothing ran on a GPU"

    def networks_by_nvcc(self):
        """What every builder of models makes, small, and models of several schedules: all kernels, for both architectures, linked with what calls the libraries."""
        nvcc = real_nvcc()
        if not nvcc:
            return self._no_nvcc()
        projects = [self._sources(file.stem, file, *(("--dim", "batch=1") if file.stem not in DYNAMIC else ())) for file in sorted(self._networks().glob("*.onnx"))]   # an open dim makes two kernels of each
        projects += [self._sources(folder.name, folder / "model.onnx") for folder in sorted(self.models.iterdir()) if self.whole or folder.name in SCHEDULES]
        projects.append(self._sources("derivatives of layers", self.models / "layers_gelu/model.onnx", "--grad"))   # whose products have second results
        programs = [self._sources(model.parent.name, model, "--train", recipe) for model, recipe in self._programs()]
        text = self.work / "networks.cu"
        kept, all_kernels = one_source(projects + programs, text)
        libraries = sorted({source.name: source for project in projects for source in (project / "src").glob("library_*.cpp")}.values())
        # PTX once, machine code for both: no kernel asks which of them it is for. Whole projects have PTX of their own for each (projects_by_nvcc).
        argv = [nvcc, *FLAGS, "--threads", 2, "-Xcompiler=-fPIC", "-shared", f"-gencode=arch=compute_80,code=[{','.join(f'sm_{a}' for a in ARCHITECTURES.split(','))}]", f"-I{projects[0]}/src"]
        command(*argv, text, *libraries, "-Xlinker=--no-undefined", *(f"-l{source.stem.split('_')[1]}" for source in libraries), "-o", self.work / "networks.so")
        return f"{len(projects)} models, {len(programs)} training programs, {kept} kernels of {all_kernels}; nothing ran on a GPU"

    def results_are_stored_wide(self):
        """Products and attention on tensor cores whose rows allow it store 16 bytes at once of float32 and 8 of half types; two half numbers where rows are even."""
        nvcc = real_nvcc()
        if not nvcc:
            return self._no_nvcc()
        wanted = {"tensor_residual_float32": 16, "tensor_residual_float16": 8, "tensor_attention_float16": 8, "tensor_attention_bfloat16": 8, "tensor_matmul_float16": 4}
        for name, width in wanted.items():
            folder = self._sources(f"{name} stores", self.models / name / "model.onnx", "--external", "none", "--tf32", "on")
            (kernels,) = (folder / "src").glob("kernels_*.cu")
            command(nvcc, *FLAGS, "-ptx", "-arch=sm_80", f"-I{folder}/src", kernels, "-o", folder / "kernels.ptx")
            stores = {int(count or 1) * int(bits) // 8 for count, bits in re.findall(r"\bst\.global\.(?:v(\d)\.)?[bfsu](\d+)", (folder / "kernels.ptx").read_text())}
            expect(stores == {width}, f"{name}: stores of {stores} bytes")
        return f"{len(wanted)} models"

    def _sources(self, name, model, *options):
        folder = self.work / f"{name} for nvcc"
        command(self.metac, "compile", model, *options, "-o", folder, "--name", "net", "--target", "cuda", "--no-build")
        return folder

    def _networks(self):
        """The networks of models/backbones and models/dynamic, a quarter as wide, with a block for each stage."""
        folder = self.work / "networks"
        with self.building:
            if not folder.exists():
                folder.mkdir()
                backbones = f"import build, onnx\nfor name in build.BUILDERS:\n  onnx.save(build.build(name, 96 if name == 'swin_t' else 64, 4, 1), {str(folder)!r} + f'/{{name}}.onnx')"
                command(sys.executable, "-c", backbones, env={**os.environ, "PYTHONPATH": str(ROOT / "models/backbones")})
                for name in DYNAMIC:
                    command(sys.executable, ROOT / "models/dynamic/build.py", name, folder / f"{name}.onnx")
        return folder

    def _programs(self):
        """Model and recipe of training programs: all of them, or one of each kind."""
        made = []
        for folder, names, model, options in (("gan", GANS if self.whole else ("wgan_gp",), "generator.json", ("--narrower", 8, "--blocks", 1)), ("training", TRAINED if self.whole else ("ncf",), "net.json", ())):
            for name in names:
                into = self.work / f"{folder} {name}"
                with self.building:
                    if not into.exists():
                        command(sys.executable, ROOT / "models" / folder / "build.py", name, into, "--batch", 1 if name == "cyclegan" else 2, "--samples", 8, *options)   # its builder's networks take one image
                made.append((into / model, into / "recipe.json"))
        return made
