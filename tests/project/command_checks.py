"""What the commands for CI and for people leave behind: stored answers, JUnit, baselines, the reference, completion."""
import json
import os
import pathlib
import re
import xml.etree.ElementTree

from checks import command, expect

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "models/digits"


class CommandChecks:
    """Of run_project.py, whose work folder, program and compiled library `first` they use."""

    def recorded_answers(self):
        """metac record stores what verify --against takes, of a model and of a compiled folder; the same run gives the same bytes."""
        import numpy as np
        image = ("--input", f"image={DIGITS}/digit_3.npy")
        files = [self.work / "recorded" / name for name in ("model.npz", "folder.npz", "again.npz")]
        for what, path in zip((DIGITS / "digits.onnx", self.first, self.first), files):
            said = command(self.metac, "record", what, "-o", path, *image)
            expect("1 inputs and 1 outputs" in said and "metac verify" in said, said)
        expect(files[1].read_bytes() == files[2].read_bytes(), "other bytes the second time")
        with np.load(files[0]) as stored:
            expect(sorted(stored) == ["image", "probabilities"] and stored["probabilities"].argmax() == 3, f"{sorted(stored)}")
        for what in (DIGITS / "digits.onnx", self.first):
            for path in files[:2]:
                expect("1 passed" in command(self.metac, "verify", what, "--against", path), f"{what} against {path}")
        drawn = self.work / "recorded/drawn.npz"
        expect('input "image" (float32 batchx1x8x8) is not given' in command(self.metac, "record", self.first, "-o", drawn, status=1), "invented")
        expect("random values need every dim" in command(self.metac, "record", self.first, "-o", drawn, "--input", "random", status=1), "an open dim")
        command(self.metac, "record", self.first, "-o", drawn, "--input", "random", "--dim", "batch=2")
        with np.load(drawn) as stored:
            expect(stored["image"].shape == (2, 1, 8, 8), f"{stored['image'].shape}")

    def locked_compilations(self):
        """--lock notes what a library is, whatever builds it; --locked refuses another one, with what differs, and writes nothing."""
        lock, again, folder = (self.work / f"locked/{name}" for name in ("net.lock.json", "again.json", "library"))
        compiled, cpu = ("compile", DIGITS / "digits.onnx", "--name", "digits", "--no-build"), ("--cpu", "x86-64-v3")
        command(self.metac, *compiled, *cpu, "-o", folder, "--lock", lock)
        command(self.metac, *compiled, *cpu, "-o", self.work / "locked/elsewhere", "--locked", lock, "--lock", again)
        expect(lock.read_bytes() == again.read_bytes() and len(json.loads(lock.read_text())["files"]) > 20, "another lock of the same library")
        for changed, word in (((*cpu, "--fusion", "greedy"), "options.fusion was best and is greedy"), (("--cpu", "x86-64"), "cpu was x86-64-v3 and is x86-64"), ((*cpu, "--embed-weights"), "digits.json was")):
            said = command(self.metac, *compiled, "-o", self.work / "locked/refused", "--locked", lock, *changed, status=1)
            expect(word in said, said)
        document = json.loads(lock.read_text())
        for key, value, word in (("metac", "9.9.9", "metac was 9.9.9 and is"), ("weights_sha256", 64 * "0", "weights_sha256 was 000000000000..."), ("metac_lock", 2, "2 is not known"), ("files", {}, "is new")):
            lock.write_text(json.dumps({**document, key: value}))
            said = command(self.metac, *compiled, *cpu, "-o", self.work / "locked/refused", "--locked", lock, status=1)
            expect(word in said, said)
        for text in ("", "[]", '{"x": 1}'):
            lock.write_text(text)
            expect("a lock is what --lock writes" in command(self.metac, *compiled, *cpu, "-o", self.work / "locked/refused", "--locked", lock, status=1), text)
        expect(not (self.work / "locked/refused").exists(), "something was written")

    def sums_and_signatures(self):
        """SHA256SUMS has every file of a compiled folder; signed by minisign with a key of the test's own, damage of a file, of the manifest and of the sums is refused."""
        folder, key, public = self.work / "sealed", self.work / "test.key", self.work / "test.pub"
        self.compile(folder, "--wheel")
        listed = [line.split("  ", 1)[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
        expect(listed == sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.name != "SHA256SUMS"), f"files in the sums: {listed}")
        expect({"sealed.json", "sealed.weights", "lib/libsealed.so", "lib/libsealed.so.1", "include/sealed.h", "python/sealed/__init__.py"} <= set(listed), f"{listed}")
        verify = ["minisign", "-V", "-q", "-p", public, "-m", folder / "SHA256SUMS"]
        check = lambda status: command("sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS", cwd=folder, status=status)  # noqa: E731
        command("minisign", "-G", "-W", "-f", "-s", key, "-p", public)
        command("minisign", "-S", "-s", key, "-m", folder / "SHA256SUMS")
        command(*verify)
        check(0)
        for name in ("lib/libsealed.so.1", "sealed.json", "sealed.weights"):
            whole = (folder / name).read_bytes()
            (folder / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            expect(f"{name}: FAILED" in check(1), f"damage of {name} is not seen")
            (folder / name).write_bytes(whole)
        (folder / "sealed.json").rename(folder / "moved.json")
        expect("sealed.json: FAILED open or read" in check(1), "a file that is gone")
        (folder / "moved.json").rename(folder / "sealed.json")
        sums = (folder / "SHA256SUMS").read_text()
        (folder / "SHA256SUMS").write_text(sums.replace(sums[:64], 64 * "0"))
        expect("Signature verification failed" in command("minisign", "-V", "-p", public, "-m", folder / "SHA256SUMS", status=1), "other sums are taken for signed")
        (folder / "SHA256SUMS").write_text(sums)
        command(*verify)
        command("minisign", "-G", "-W", "-f", "-s", self.work / "other.key", "-p", self.work / "other.pub")
        command("minisign", "-V", "-p", self.work / "other.pub", "-m", folder / "SHA256SUMS", status=1)

    def workflows_for_ci(self):
        """examples/ci: the script of all workflows accepts the model that it knows, and refuses a drifted one and other answers; the workflows call it."""
        import numpy as np
        script, model, out = ROOT / "examples/ci/check_model.sh", self.work / "ci model/net.onnx", self.work / "ci"
        model.parent.mkdir()
        model.write_bytes((DIGITS / "digits.onnx").read_bytes())
        environment = {**os.environ, "METAC": str(self.metac), "METAC_BENCH": "--shape image=1x1x8x8 --seconds 0.1"}
        command(self.metac, "record", model, "-o", model.with_suffix(".answers.npz"), "--input", f"image={DIGITS}/digit_3.npy")
        said = command(script, model, out, status=1, env=environment)
        expect("net.lock.json is missing" in said and "--lock" in said, said)
        command(self.metac, "compile", model, "-o", out / "first", "--no-build", "--lock", model.with_suffix(".lock.json"))
        said = command(script, model, out, env=environment)
        expect("1 passed" in said and (out / "junit.xml").exists() and json.loads((out / "bench.json").read_text())["median_ms"] > 0, said)
        model.with_suffix(".bench.json").write_text((out / "bench.json").read_text().replace('"median_ms": ', '"median_ms": 1000'))
        expect("no worse" in command(script, model, out, env=environment), "the baseline is not looked at")
        answers = dict(np.load(model.with_suffix(".answers.npz")))
        np.savez(model.with_suffix(".answers.npz"), **{**answers, "probabilities": 1 - answers["probabilities"]})
        command(script, model, out, status=3, env=environment)
        model.write_bytes((DIGITS / "untrained.onnx").read_bytes())
        expect("model_sha256 was" in command(script, model, out, status=1, env=environment), "a drifted model passed")
        for name in ("github.yml", "gitlab-ci.yml", "Jenkinsfile"):
            text = (script.parent / name).read_text()
            expect("check_model.sh" in text and "junit.xml" in text, f"{name} does not call the script")

    def results_for_ci(self):
        """verify --junit, and bench against an earlier report."""
        import numpy as np
        path, report = self.work / "wrong.npz", self.work / "junit/report.xml"
        np.savez(path, image=np.zeros((1, 1, 8, 8), "f4"), probabilities=np.full((1, 10), 2, "f4"))
        command(self.metac, "verify", self.first, "--against", path, "--junit", report, status=3)
        root = xml.etree.ElementTree.parse(report).getroot()
        failure = root.find("testsuite/testcase/failure")
        expect(root.get("tests") == "1" and root.get("failures") == "1" and "10 of 10 elements differ" in failure.get("message"), report.read_text())
        bench = ("bench", self.first, "--shape", "image=1x1x8x8", "--seconds", "0.1")
        now = json.loads(command(self.metac, *bench, "--json"))
        for factor, status, word in ((100, 0, "no worse"), (0.001, 3, "slower")):
            earlier = self.work / "earlier.json"
            earlier.write_text(json.dumps({**now, "median_ms": now["median_ms"] * factor, "min_ms": now["min_ms"] * factor}))
            said = command(self.metac, *bench, "--baseline", earlier, status=status)
            expect(f": {word} (allowed: 5.0 %)" in said, said)
            told = json.loads(command(self.metac, *bench, "--baseline", earlier, "--json", status=status))
            expect(told["baseline"]["slower"] is (status == 3), f"{told['baseline']}")
        earlier.write_text("{}")
        expect("is no report of `metac bench MODEL --json`" in command(self.metac, *bench, "--baseline", earlier, status=1), "no report")

    def speed_of_two_folders(self):
        """bench --against: processes take turns, what they find is one report; what is wrong is told as by one process."""
        shape = ("--shape", "image=4x1x8x8", "--threads", "1")
        one, two = (json.loads(command(self.metac, "bench", self.first, "--against", self.first, *shape, "--seconds", "0.3", "--processes", n, "--threshold", "1000", "--json"))
                    for n in (1, 3))
        expect(list(one) == list(two) and two["pairs"] >= 18 and two["low"] <= two["change"] <= two["high"] and not two["slower"], f"{one} {two}")
        said = command(self.metac, "bench", self.first, "--against", self.first, *shape, "--seconds", "0.2", "--threshold", "1000")
        expect(re.search(r"with 90 % from .* pairs\): (no slower|undecided)", said), said)
        for processes in (1, 2):
            said = command(self.metac, "bench", self.first, "--against", DIGITS, *shape, "--processes", processes, status=1)
            expect(said.startswith("metac: ") and "it has no manifest" in said and said.count("\n") == 1, said)

    def reference_of_the_command_line(self):
        """docs/cli.md is what the options' definitions say; the man page and the completions are scripts that their readers take."""
        page = command(self.metac, "reference")
        expect(page == (ROOT / "docs/cli.md").read_text(), "docs/cli.md is old: metac reference > docs/cli.md")
        for name in ("compile", "run", "record", "targets"):
            expect(f"\n## metac {name}\n" in page, f"{name} is not there")
        man = command(self.metac, "reference", "--man")
        expect(man.startswith(".TH METAC 1") and ".SS metac compile" in man, man[:200])
        script = self.work / "completion.bash"
        script.write_text(command(self.metac, "completion", "bash"))
        for words, expected in ((["metac", "comp"], {"compile", "completion"}), (["metac", "compile", "--stat"], {"--state"}), (["metac", "run", "--target", ""], {"cpu", "cuda"})):
            line = " ".join(f"'{w}'" for w in words)
            done = command("bash", "-c", f'. "$0"; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _metac; printf "%s\\n" "${{COMPREPLY[@]}}"', script)
            expect(set(done.split()) == expected, f"{words}: {done}")
        told = command(self.metac, "--version")
        for name in re.findall(r"^## metac (\w+)$", page, re.MULTILINE):
            expect(command(self.metac, name, "--version") == told and f"metac {name}" in command(self.metac, name, "--help"), f"metac {name} --version, --help")
        for shell in ("zsh", "fish"):
            expect("metac" in command(self.metac, "completion", shell), shell)
        command(self.metac, "completion", "tcsh", status=2)

    def what_can_be_compiled_for(self):
        told = json.loads(command(self.metac, "targets", "--json"))
        native = [cpu["name"] for cpu in told["cpus"] if cpu["native"]]
        expect(len(native) == 1 and all(cpu["runs_here"] for cpu in told["cpus"] if cpu["native"]), f"{told}")
        expect(f"{native[0]} " in command(self.metac, "targets"), "the native one")
        expect([t["name"] for t in told["targets"]] == ["cpu", "cuda"], f"{told}")

    def formats_of_later_versions(self):
        """Files that a later metac wrote in another format are refused with the number, not misread."""
        import shutil
        folder = self.work / "later"
        shutil.copytree(self.first, folder, symlinks=True)
        manifest = folder / "first.json"
        text = manifest.read_text()
        expect('"format": 1,' in text, "the manifest has no format")
        manifest.write_text(text.replace('"format": 1,', '"format": 2,'))
        for words in (["bench", folder], ["diff", self.first, folder], ["record", folder, "-o", self.work / "r.npz"]):
            expect("has the format 2, of a later metac; this one reads up to 1" in command(self.metac, *words, status=1), f"{words}")
        schedules = self.work / "later.tune.json"
        schedules.write_text('{"metac": "9.0.0", "format": 2, "cpu": "x86-64-v3", "choices": []}')
        said = command(self.metac, "compile", DIGITS / "digits.onnx", "-o", self.work / "tuned", "--tune-from", schedules, "--no-build", status=1)
        expect("schedules of the format 2, of a later metac" in said, said)
        recipe = json.loads((DIGITS / "recipe.json").read_text())
        later = self.work / "later_recipe.json"
        later.write_text(json.dumps({**recipe, "metac_recipe": 2}))
        said = command(self.metac, "compile", DIGITS / "untrained.onnx", "-o", self.work / "trained", "--train", later, "--no-build", status=1)
        expect("a recipe of the format 2, of a later metac" in said, said)
