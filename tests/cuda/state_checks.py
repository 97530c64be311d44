"""States and generation on a GPU, on the stand-in: networks that hand values from run to run, decoders as programs."""
import json
import pathlib
import sys

from gpu_script_checks import command, expect

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS = "1,2,3\n5,6,7,8,9,10,11\n4\n7,7,7,7\n9,8\n"


class StateChecks:
    def states(self):
        """tests/models/run_states.py with the libraries of this target: ONNX Runtime's and the CPU's answers, states cut, forked and set."""
        return self._run_states("grouped|recurrent|scattered|stack", "--target", "cuda", "--sessions", "none", env=self.stand_in)

    def streams_of_sessions(self):
        """The same of sessions by the driver and NVRTC, which stand in."""
        environment = self._sessions("streams")
        return self._run_states("grouped|stack", "--sessions", "cuda", env=environment) if environment else "skipped: the Python module is not built"

    def random_states(self):
        """Random graphs with states (tests/fuzz/state_graphs.py): sessions and libraries beside the same graph fed by hand."""
        environment = self._sessions("random states")
        if not environment:
            return "skipped: the Python module is not built"
        count, libraries = (300, 0.3) if self.whole else (25, 0.2)
        said = command(sys.executable, ROOT / "tests/fuzz/state_graphs.py", "--build", self.build, "--target", "cuda", "--count", count, "--seed", self.seed, "--libraries", libraries, env=environment)
        expect(", 0 failed" in said, said)
        return said.splitlines()[-1]

    def _sessions(self, name):
        """The environment of sessions by the driver and NVRTC that stand in; None: the Python module is not built."""
        if not list((self.build / "python").glob("metac/_metac*")):
            self.skipped += 1
            return None
        folder = self.work / f"driver of {name}"
        return {**self.stand_in, "LD_LIBRARY_PATH": str(self._driver(folder)), "METAC_CACHE_DIR": str(folder / "cache"), "METAC_SHIM_NVCC": str(self.toolkit / "bin/nvcc")}

    def _run_states(self, usual, *options, env):
        only = [] if self.whole else ["--only", usual]
        said = command(sys.executable, ROOT / "tests/models/run_states.py", "--metac", self.metac.resolve(), *options, *only, env=env)
        expect(", 0 failed" in said, said)
        return said.splitlines()[-1]

    def decoders(self):
        """Tokens as by the CPU target, alone, with drafts and several texts in one set of states, whatever the order of what may be next; behind the first
        few, which are noted and recorded, a token is one graph whose nodes are changed."""
        folder, changed = self.work / "decoders", 0
        folder.mkdir()
        for weights in ("f32", "int4"):
            model = folder / f"{weights}.onnx"
            command(sys.executable, ROOT / "models/decoders/build.py", model, "--size", "tiny", "--weights", weights, "--context", "256")
            programs = {}
            for target, more in (("cpu", ("--cpu", "native")), ("cuda", ("--target", "cuda"))):
                command(self.metac, "compile", model, "-o", folder / f"{weights} {target}", "--name", "net", "--generate", *more, env=self.stand_in)
                programs[target] = folder / f"{weights} {target}/bin/net_generate"
            prompts, notes = folder / "prompts", folder / "notes"
            prompts.write_text(PROMPTS)
            if weights == "int4":   # few rows and many
                file, kept = (sum(f.stat().st_size for f in where) for where in (folder.glob("int4.onnx*"), (folder / "int4 cuda").glob("*.weights")))
                expect(kept <= 1.05 * file + 16384, f"{kept} bytes of weights, {file} in the file")
            ways = {"alone": ("--tokens", "1,5,9,3,7,2,4,6,8,10,11,12" if weights == "int4" else "1,5,9,3,7", "--most", "90"), "with drafts": ("--tokens", "3,4,3,4", "--most", "40", "--drafts", "3"),
                    "together": ("--prompts", prompts, "--together", "3", "--most", "70")}
            for way, options in ways.items() if weights == "f32" else [("alone", ways["alone"])]:
                def tokens(target, **environment):
                    said = command(programs[target], *options, "--json", "--quiet", env={**self.stand_in, **environment})
                    return sorted((row.get("line", 0), row["tokens"]) for row in map(json.loads, said.splitlines()))

                wanted = tokens("cpu")
                for order in ("forward", "5"):
                    notes.unlink(missing_ok=True)
                    expect(tokens("cuda", METAC_SHIM_ORDER=order, METAC_SHIM_CALLS=str(notes)) == wanted, f"{weights}, {way}, {order}: other tokens than the CPU's")
                lines = notes.read_text().splitlines()
                graphs = sum(line.startswith("graph of") for line in lines)
                changed += lines.count("a node is changed")
                expect(way != "alone" or graphs > 80, f"{weights}: {graphs} of 89 tokens are one graph")
        expect(changed > 0, "no node was changed")
        # One call after the other fails: the program says so, or does without.
        ended, status, call = {0: 0, 1: 0}, 0, 0
        while True:
            call += 61
            notes.unlink(missing_ok=True)
            status, said = command(programs["cuda"], "--tokens", "1,5,9", "--most", "8", "--json", "--quiet", status=None, env={**self.stand_in, "METAC_SHIM_FAIL": str(call), "METAC_SHIM_CALLS": str(notes)})
            if "a call fails" not in (notes.read_text() if notes.exists() else ""):
                break
            expect(status in ended and (status == 0 or "CUDA: " in said or "no memory" in said or "no CUDA device" in said), f"call {call} failing: status {status}, {said}")
            ended[status] += 1
        return f"{changed} nodes changed; of {sum(ended.values())} calls that fail {ended[0]} were done without"
