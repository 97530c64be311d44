"""Functions of the caller's that a context calls: its log."""
from checks import command, expect


class HookChecks:
    """Of run_project.py's Checks."""

    def hooks_under_sanitizers(self):
        if not self.rival.exists():
            self.compile(self.rival, "--grad=inputs")
        programs = ("logs",)
        build = self.build_programs("build hooks", "-O1 -DNDEBUG -fsanitize=address,undefined -g1", *programs)
        for program in programs:
            said = command(build / program, cwd=build)
            expect(said.strip() == "right", f"{program}: {said}")
