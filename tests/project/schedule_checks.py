"""What schedules a compilation took, and others than it would take: --tune, --emit schedules, --tune-from."""
import json
import pathlib

from checks import command, expect

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "models/digits"


class ScheduleChecks:
    """Of run_project.py's Checks."""

    def schedules_chosen_by_measurement(self):
        """--tune writes what it took; --tune-from makes the same library of it, and takes no file of another compilation."""
        folder, again, shape = self.work / "tuned", self.work / "again tuned", ("--shape", "image=4x1x8x8")
        said = self.compile(folder, "--tune", *shape)
        expect("tuned in " in said, said)
        file = folder / "tuned.tune.json"
        self.compile(again, "--tune-from", file, *shape, name="tuned")
        expect("no difference" in command(self.metac, "diff", folder, again), "another library from the same choices")
        expect(json.loads((folder / "tuned.json").read_text())["options"]["tuning_sha256"], "the manifest does not tell")
        tuning = json.loads(file.read_text())
        model = DIGITS / "digits.onnx"
        # What was decided, tuned or not, compiled again is the same; a line that people change is done.
        emitted = json.loads(command(self.metac, "compile", model, "--emit", "schedules", "--tune-from", file, *shape))
        (self.work / "emitted.json").write_text(json.dumps(emitted))
        self.compile(again, "--tune-from", self.work / "emitted.json", *shape, name="tuned")
        kernels = [(f / "src/kernels_0.cpp").read_text() for f in (folder, again)]
        expect(kernels[0] == kernels[1], "other kernels from the schedules that were emitted")
        row = next(row for row in emitted["choices"] if "direct" in row["schedule"])
        row["schedule"] = "direct, tile 3x1"
        (self.work / "changed.json").write_text(json.dumps(emitted))
        changed = json.loads(command(self.metac, "compile", model, "--emit", "schedules", "--tune-from", self.work / "changed.json", *shape))
        expect({"subject": row["subject"], "schedule": "direct, tile 3x1, block 1"} in changed["choices"], "a schedule that was written by hand")
        self.compile(again, "--tune-from", self.work / "changed.json", *shape, name="tuned")
        expect((again / "src/kernels_0.cpp").read_text() != kernels[0], "the same kernels from another schedule")
        tuning["choices"].append({"subject": "of another model", "schedule": "tile 6x4"})
        misfit = {**emitted, "choices": [{**row, "schedule": "tile 28x4"}]}
        for text, word in ((json.dumps(tuning), "there is nothing of the kind"), ("{", "foreign.json: these are no schedules"), (json.dumps({**tuning, "cpu": "z80"}), "schedules for z80"),
                           (json.dumps(misfit), "tile 28x4 for"), (json.dumps({**emitted, "choices": [{**row, "schedule": "tile; 3"}]}), "not a transform")):
            (self.work / "foreign.json").write_text(text)
            expect(word in command(self.metac, "compile", model, "-o", again, "--name", "tuned", "--tune-from", self.work / "foreign.json", *shape, status=1), word)
        expect("needs every dim" in command(self.metac, "compile", model, "-o", again, "--name", "tuned", "--tune", status=1), "open dims")
