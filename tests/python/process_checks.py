"""The module in processes of its own: without NumPy, beside PyTorch and another LLVM, forked, ended, installed; the page."""
import ctypes.util
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

import metac
import numpy as np
from expectations import Skip, expect, python
from models import ROOT

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = ROOT / "models/digits/digits.onnx"
RUN = """
import array, metac
with metac.Session(DIGITS) as session:
    image = memoryview(array.array("f", [0.5] * 64)).cast("B").cast("f", (1, 1, 8, 8))
    probabilities = memoryview(session.run({"image": image})["probabilities"])
    assert probabilities.shape == (1, 10) and abs(sum(probabilities.tolist()[0]) - 1) < 1e-5, probabilities.tolist()
"""


def script(*parts):
    return f"DIGITS = {str(DIGITS)!r}\n" + "\n".join(parts) + "\n"


def torch_or_skip():
    if not importlib.util.find_spec("torch"):
        raise Skip("PyTorch is not installed")


class ProcessChecks:
    def __init__(self, build):
        self._build = build

    def addresses_that_the_library_sees(self):
        with tempfile.TemporaryDirectory(prefix="metac-python-") as folder:
            observer = pathlib.Path(folder) / "observe_run.so"
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", f"-I{ROOT}/compiler/api/include", HERE / "observe_run.c",
                            "-o", observer, "-ldl"], check=True)
            # RTLD_NEXT finds what is loaded for all to see, which an extension's libraries are not.
            library = re.search(r"/.*libmetac\.so.*", pathlib.Path("/proc/self/maps").read_text())[0]
            torch = ["torch"] if importlib.util.find_spec("torch") else []
            return python(str(HERE / "observe_run.py"), observer, *torch, LD_PRELOAD=f"{observer} {library}").strip()

    def without_numpy(self):
        python(script("import sys", "sys.modules['numpy'] = None", RUN, """
assert sys.modules["numpy"] is None
array = metac.Session(DIGITS).run({"image": image})["probabilities"]
assert type(array) is metac.Array and array.dtype == "float32" and array.shape == (1, 10)
try:
    metac.Session(DIGITS).run({"image": [[[[0.5] * 8] * 8]]})
except metac.DTypeError as error:
    assert "NumPy" in str(error), error
else:
    raise AssertionError("lists need NumPy")
"""))

    def beside_pytorch(self):
        torch_or_skip()
        use = """
import torch
assert torch.ones(3, 3).matmul(torch.ones(3, 3)).sum() == 27
scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))
for _ in range(3):
    scripted(torch.ones(2, 4))
"""
        python(script(RUN, use, RUN))
        python(script(use, RUN, use))

    def tensors_of_pytorch(self):
        torch_or_skip()
        python(script("""
import metac, torch
from onnx import TensorProto
from models import identity
for dtype, number in ((torch.float32, 1), (torch.bfloat16, 16), (torch.float16, 10), (torch.int64, 7), (torch.bool, 9)):
    session = metac.Session(identity(number, ("n", "m")))
    given = torch.arange(12).reshape(3, 4).to(dtype)
    for tensor in (given, given.T, given[:, ::2]):
        back = torch.from_dlpack(session.run({"x": tensor}, as_numpy=False)["y"])
        assert back.dtype == dtype and torch.equal(back, tensor), (back, tensor)
    back += back
try:
    metac.Session(identity()).run({"x": torch.ones(3, requires_grad=True)})
except metac.DTypeError as error:
    assert 'input "x"' in str(error) and "gradient" in str(error), error
"""))

    def beside_another_llvm(self):
        library = next((name for name in (ctypes.util.find_library(f"LLVM-{n}") for n in range(25, 13, -1)) if name), None)
        if not library:
            raise Skip("there is no shared libLLVM")
        load = f"import ctypes\nctypes.CDLL({library!r}, ctypes.RTLD_GLOBAL).LLVMGetVersion"
        python(script(load, RUN))
        python(script(RUN, load, RUN))
        return library

    def forked(self):
        python(script(RUN, """
import os, sys
session = metac.Session(DIGITS)
output = session.run({"image": image})["probabilities"]
session.wait()
child = os.fork()
if child == 0:
    status = 1
    try:
        session.run({"image": image})
    except metac.UnsupportedError as error:
        assert "forked" in str(error)
        with metac.Session(DIGITS) as own:
            again = own.run({"image": image})["probabilities"]
            assert bytes(memoryview(again)) == bytes(memoryview(output))
        session.close()
        status = 0
    sys.exit(status)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert bytes(memoryview(session.run({"image": image})["probabilities"])) == bytes(memoryview(output))
"""), timeout=60)

    def ended_with_sessions_open(self):
        for rows in (1, 300):  # with a compilation under way, and without
            printed = python(script("""
import metac, numpy as np
from models import product
session = metac.Session(product(256)[0])
for turn in range(10):
    session.run({"x": np.ones((ROWS + turn // 5, 256), np.float32)})
""".replace("ROWS", str(rows))), timeout=60)
            expect(not printed, printed)

    def digits_as_onnx_runtime_reads_them(self):
        import onnxruntime
        other = onnxruntime.InferenceSession(str(DIGITS), providers=["CPUExecutionProvider"])
        rng, worst = np.random.default_rng(5), 0
        with metac.Session(DIGITS) as session:
            for batch in rng.integers(1, 200, 50):
                image = rng.random((batch, 1, 8, 8), np.float32)
                theirs = other.run(["probabilities"], {"image": image})[0]
                worst = max(worst, np.abs(session.run({"image": image})["probabilities"] - theirs).max())
        expect(worst < 1e-5, f"differs by {worst}")
        return f"50 batch sizes, the largest difference {worst:.1e}"

    def installed_and_moved(self):
        with tempfile.TemporaryDirectory(prefix="metac-python-") as folder:
            work = pathlib.Path(folder)
            install = ["cmake", "--install", self._build, "--prefix", work / "prefix"]
            subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
            (work / "prefix").rename(work / "moved prefix")
            package, = (work / "moved prefix").glob("lib*/**/site-packages")
            told = "print(metac.__file__, open('/proc/self/maps').read())"
            printed = python(script(RUN, told), PYTHONPATH=str(package))
            expect(printed.startswith(str(package)), printed[:200])
            libraries = set(re.findall(r"/.*libmetac\.so.*", printed))
            expect(libraries and all(str(work / "moved prefix") in path for path in libraries), libraries)

    def the_extension_has_no_compiler_in_it(self):
        extension, = (self._build / "python/metac").glob("_metac*.so")
        names = subprocess.run(["nm", "-D", "-C", extension], check=True, capture_output=True, text=True).stdout
        expect(" U metac_session_run" in names and "llvm::" not in names and "metac::" not in names, names[:500])
        expect(extension.stat().st_size < 1 << 20, f"{extension.stat().st_size} bytes")

    def the_page_does_what_it_shows(self):
        page = (ROOT / "docs/sessions.md").read_text()
        section = page[page.index("\n## Python\n"):page.index("\n## Options\n")]  # streams are shown in Python too
        programs = re.findall(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", section, re.S)
        expect(len(programs) > 2, "the section shows no programs")
        torch = importlib.util.find_spec("torch")
        told, shown = "", ""
        for program, printed in programs:  # one behind the other, as a reader types them
            if "torch" not in program or torch:
                told, shown = told + program, shown + printed
        done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, cwd=ROOT, check=False)
        expect(done.returncode == 0, done.stderr[-1000:])
        expect(done.stdout == shown, f"printed is {done.stdout!r}, shown is {shown!r}")
