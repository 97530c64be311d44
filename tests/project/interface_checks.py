"""The promise of docs/versioning.md: one table for all models, and programs of one version with libraries of the next."""
import os
import pathlib

from checks import command, expect

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parents[1] / "models"


class InterfaceChecks:
    """Of run_project.py, whose work folder, compile() and identity() they use."""

    def any_library_by_its_table(self):
        """One program runs libraries of several models that it was built without; several of them linked into one program have a table each."""
        program = self._program("any_model", self.first / "include")
        library = self.first / "lib/libfirst.so.1"
        said = command(program, library, 2, 1, 8, 8)
        expect("first: metac " in said and "1 inputs, 1 outputs" in said and "image -> probabilities" in said and "80 bytes, rank 2" in said, said)
        expect("without a size: options.size is 0; set it to the size of the struct" in said, said)
        self.compile(self.work / "derived", "--grad", "--derivatives", "vjp", "--embed-weights", model=self._plain(), name="derived")
        said = command(program, self.work / "derived/lib/libderived.so", 1, 4)
        expect("vjp 2" in said and "x -> y: 3 of 16 bytes, rank 2" in said, said)
        expect("cannot open shared object file" in command(program, self.work / "none.so", status=1), "no library")
        expect("no library that metac compiled" in command(program, "libm.so.6", status=1), "a library of others")
        header = (self.first / "include/metac_model.h").read_bytes()
        expect(header == (self.work / "derived/include/metac_model.h").read_bytes(), "the shared header depends on the model")
        users = self.work / "two_tables.c"
        users.write_text("#include <first.h>\n#include <derived.h>\n#include <stdio.h>\n"
                         'int main(void) { return printf("%s %s", first_model()->name, derived_model()->name) < 0; }\n')
        folders = [self.first, self.work / "derived"]
        command("c++", *(f"-I{f}/include" for f in folders), "-x", "c", users, "-x", "none", *(f"{f}/lib/lib{f.name}.a" for f in folders),
                "-pthread", "-ldl", "-lm", "-o", self.work / "two_tables")
        expect(command(self.work / "two_tables") == "first derived", "two libraries in one program")

    def programs_and_libraries_of_the_next_version(self):
        """Programs built before run with libraries whose structs have grown, and the other way round where nothing new is asked for."""
        now, after = self.work / "now/net", self.work / "after/net"
        for folder, options in ((now, ()), (after, ("--no-build",))):
            folder.parent.mkdir()
            self.compile(folder, *options, model=self._plain(), name="net")
        for header in ("include/metac_model.h", "src/runtime/metac_model.h"):
            self._grow(after / header)
        build = self.work / "after build"
        command("cmake", "-S", after, "-B", build, "-DCMAKE_CXX_FLAGS=-Wno-missing-field-initializers")
        command("cmake", "--build", build, "--target", "net")
        libraries = {"now": now / "lib/libnet.so.1", "after": build / "libnet.so.1"}
        expect("SONAME" in command("readelf", "-d", libraries["now"]) and "[libnet.so.1]" in command("readelf", "-d", libraries["after"]), "soname")
        linked = self._program("linked_model", now / "include", now / "lib/libnet.so")
        for version, library in libraries.items():
            said = command(linked, env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)})
            expect(said == "x 4 2: 3 2, 16 bytes\n", f"linked with now, run with {version}: {said}")
        programs = {"now": self._program("any_model", now / "include"), "after": self._program("any_model", after / "include", name="next_any_model")}
        for built, program in programs.items():
            for version, library in libraries.items():
                expect("x -> y: 3 of 16 bytes" in command(program, library, 1, 4), f"built with {built}, run with {version}")
        asks = self._program("any_model", after / "include", "-DSETS_NEXT", name="asks_next")
        expect("x -> y: 3" in command(asks, libraries["after"], 1, 4), "a member of the next version")
        expect("which this library has no member for" in command(asks, libraries["now"], 1, 4, status=1), "a member that is not there is ignored")

    def _plain(self):
        model = self.work / "plain.onnx"
        if not model.exists():
            self.identity(model, [1, 4])
        return model

    def _program(self, source, include, *options, name=None):
        program = self.work / (name or source)
        command("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", HERE / f"{source}.c", f"-I{include}", *options, "-ldl", "-o", program)
        return program

    @staticmethod
    def _grow(header):
        text = header.read_text()
        for before, after in (
                ("#define METAC_MODEL_REVISION 6", "#define METAC_MODEL_REVISION 7"),
                ("  METAC_MODEL_CALLBACK = 8", "  METAC_MODEL_NEXT = 99, METAC_MODEL_CALLBACK = 8"),
                ("} metac_model_port;", "  const char* next_member;\n} metac_model_port;"),
                ("} metac_model_options;", "  int64_t next_member;\n  const char* other_member;\n} metac_model_options;"),
                ("} metac_model_function;", "  const char* next_member;\n} metac_model_function;"),
                ("} metac_model;\n", "  void (*next_function)(void);\n} metac_model;\n")):
            expect(before in text, f"the shared header has no {before}")
            text = text.replace(before, after, 1)
        header.write_text(text)
