"""What the commands for CI and for people leave behind: stored answers, JUnit, baselines, the reference, completion."""
import json
import pathlib
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
