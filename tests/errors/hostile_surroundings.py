"""The command line and the machine: what surrounds a good model."""
import os
import pathlib

import numpy as np

import onnx
from onnx import helper

from case_list import FLOAT, INT64, Run, info, model_of, refused, relu_model, run_with, works

DIGITS = str(pathlib.Path(__file__).resolve().parents[2] / "models/digits/digits.onnx")
COMPILE = ["compile", DIGITS, "--no-build", "-o"]
two = np.array([1, -2], np.float32)


# ---- values for `metac run` ----
@refused("R1", "int64|float")
def input_of_wrong_type(folder):
    return run_with(folder, relu_model(), {"x": np.array([1, 2])})


@refused("R2", "3")
def input_of_wrong_shape(folder):
    return run_with(folder, relu_model(), {"x": np.zeros(3, np.float32)})


@refused("R3", "2")
def input_of_wrong_rank(folder):
    return run_with(folder, relu_model(), {"x": np.zeros((2, 1), np.float32)})


@refused("R4", "nosuch")
def input_of_wrong_name(folder):
    return run_with(folder, relu_model(), {"nosuch": two})


@refused("R5", "nosuch.npy")
def input_file_missing(folder):
    return run_with(folder, relu_model(), {"x": "{folder}/nosuch.npy"})


@refused("R4", 'no input "z"; did you mean "x"')
def input_of_misspelt_name(folder):
    return run_with(folder, relu_model(), {"z": two})


@refused("R6", r'input "x" \(float32 2\) is not given: .*"x=FILE.npy".*"x=random"')
def input_not_given(folder):
    return run_with(folder, relu_model(), {})


@works("R6")
def all_inputs_random(folder):
    run = run_with(folder, relu_model(), {})
    run.arguments += ["--input", "random"]
    return run


@refused("R6", "twice", status=2)
def input_given_twice(folder):
    return run_with(folder, relu_model(), {"x": two}, more=["--input", "x=random"])


@refused("R7", r'dim 0 \("batch"\) is open: give --dim "batch=1" or --shape "image=1x1x8x8"')
def random_input_with_an_open_dim(folder):
    return Run(["run", DIGITS, "--input", "random", "--output-dir", "{out}"])


@refused("R7", "is open")
def random_input_with_a_range(folder):
    return Run(["run", DIGITS, "--input", "random", "--dim", "batch=1..8", "--output-dir", "{out}"])


@refused("R7", "is open")
def bench_of_an_open_dim(folder):
    return Run(["bench", DIGITS, "--seconds", "0.1"])


@works("R7")
def random_input_with_its_dims(folder):
    return Run(["run", DIGITS, "--input", "random", "--dim", "batch=3", "--output-dir", "{out}"])


def npy(folder, content):
    (folder / "x.npy").write_bytes(content)
    return run_with(folder, relu_model(), {"x": "{folder}/x.npy"})


def npy_with_header(header, data=bytes(8)):
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@refused("J14", "x.npy")
def npy_truncated_header(folder):
    return npy(folder, npy_with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n")[:20])


@refused("J14", "x.npy")
def npy_with_an_expression(folder):
    return npy(folder, npy_with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os').getpid(),), }\n"))


@refused("J14", "x.npy")
def npy_data_short(folder):
    return npy(folder, npy_with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", bytes(7)))


@refused("J14", "x.npy")
def npy_shape_overflows(folder):
    return npy(folder, npy_with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905, 4), }\n"))


@refused("J14", "x.npy")
def npy_of_objects(folder):
    return npy(folder, npy_with_header(b"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }\n"))


# ---- shapes and dims on the command line ----
def compile_digits(folder, *more):
    return Run(["compile", DIGITS, "--no-build", "-o", "{out}", *more])


@refused("S1", "nosuch")
def shape_for_unknown_input(folder):
    return compile_digits(folder, "--shape", "nosuch=1x1x8x8")


@refused("S2", "image")
def shape_of_wrong_rank(folder):
    return compile_digits(folder, "--shape", "image=1x64")


@refused("S3", "9")
def shape_against_the_model(folder):
    return compile_digits(folder, "--shape", "image=1x1x9x9")


@refused("S4", status=2)
def shape_that_is_no_shape(folder):
    return compile_digits(folder, "--shape", "image=1xtwo")


@refused("S5", "nosuch")
def unknown_dim(folder):
    return compile_digits(folder, "--dim", "nosuch=4")


@refused("S6", status=2)
def dim_range_the_wrong_way(folder):
    return compile_digits(folder, "--dim", "batch=8..2")


@refused("S7", "metac compile: there is no option \"--frobnicate\"\n", status=2, lines=2)
def unknown_option(folder):
    return compile_digits(folder, "--frobnicate")


@refused("S7", 'there is no option "--targett"; did you mean "--target"', status=2, lines=2)
def misspelt_option(folder):
    return compile_digits(folder, "--targett", "cpu")


@refused("S7", 'there is no option "--jsn"; did you mean "--json"', status=2, lines=2)
def misspelt_option_beside_a_missing_argument(folder):
    return Run(["diff", "--jsn", "a"])


@refused("S7", 'the argument "more" is one too many', status=2, lines=2)
def argument_too_many(folder):
    return compile_digits(folder, "more")


@refused("S8", 'there is no command "frobnicate"\n', status=2, lines=2)
def unknown_command(folder):
    return Run(["frobnicate"])


@refused("S8", 'there is no command "compil"; did you mean "compile"', status=2, lines=2)
def misspelt_command(folder):
    return Run(["compil", DIGITS, "-o", "{out}"])


@refused("S8", 'there is no command "compil"; did you mean "compile"', status=2, lines=2)
def help_on_a_misspelt_command(folder):
    return Run(["help", "compil"])


@works("S8")
def help_on_a_command(folder):
    return Run(["help", "compile"])


@refused("S8", "Usage", status=2, lines=99)
def no_command(folder):
    return Run([])


@refused("S10", '"pentium" is not known; known are native', status=2)
def unknown_instruction_set(folder):
    return compile_digits(folder, "--cpu", "pentium")


@refused("S9", "recipe.json: cannot be read")
def recipe_that_is_not_there(folder):
    return compile_digits(folder, "--train", "{folder}/recipe.json")


@refused("S10", "x86-64 is asked for twice", status=2)
def the_same_instruction_set_twice(folder):
    return compile_digits(folder, "--cpu", "x86-64,x86-64-v3,x86-64")


@refused("S10", "--precision int8 is not for --train", status=2)
def precision_of_a_training(folder):
    (folder / "recipe.json").write_text("{}")
    return compile_digits(folder, "--precision", "int8", "--train", "{folder}/recipe.json")


@refused("S10", "--keep is for --precision", status=2)
def exceptions_of_no_precision(folder):
    return compile_digits(folder, "--keep", "Conv")


@refused("S10", '--keep "\\(" is not a regular expression')
def exceptions_that_are_no_expression(folder):
    return compile_digits(folder, "--precision", "bfloat16", "--keep", "(")


@refused("S11", "these are no schedules")
def tuning_that_is_none(folder):
    (folder / "none.json").write_text("[1, 2")
    return compile_digits(folder, "--tune-from", "{folder}/none.json")


@refused("S12", "needs every dim")
def tuning_with_open_dims(folder):
    return compile_digits(folder, "--tune")


@refused("S13", status=2, lines=9)
def derivatives_by_nothing_known(folder):
    return compile_digits(folder, "--grad=weights")


@refused("S14", "can have no cotangent")
def derivative_of_a_shape_that_the_data_decides(folder):
    model = model_of([helper.make_node("NonZero", ["x"], ["at"]), helper.make_node("Gather", ["x", "at"], ["y"])], [info("x", FLOAT, [4])], [info("y")])
    onnx.save(model, folder / "model.onnx")
    return Run(["compile", "{folder}/model.onnx", "--no-build", "-o", "{out}", "--grad"])


@works("J18")
def two_random_inputs_differ(folder):
    model = model_of([helper.make_node("Sub", ["a", "b"], ["y"])], [info("a", FLOAT, [64]), info("b", FLOAT, [64])], [info("y", FLOAT, [64])])

    def differ(folder, out):
        return None if np.count_nonzero(np.load(out / "y.npy")) > 32 else "both inputs are the same"

    run = run_with(folder, model, {"a": "random", "b": "random"})
    run.after = differ
    return run


def verified(folder, dtype):
    """`metac verify --grad` of x + x, where z is an input that y does not depend on."""
    model = model_of([helper.make_node("Add", ["x", "x"], ["y"])], [info("x", dtype, [2]), info("z", dtype, [2])], [info("y", dtype, [2])])
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return Run(["verify", "{folder}/model.onnx", "--grad", "--json"])


@works("J19")
def gradient_of_integers_is_skipped(folder):
    return verified(folder, INT64)


@works("J19")
def gradient_of_what_cannot_be_reached(folder):
    return verified(folder, FLOAT)


# ---- output folders ----
@refused("J15")
def output_is_root(folder):
    return Run([*COMPILE, "/"], may_write=True)


@refused("J15", "plain")
def output_is_a_file(folder):
    (folder / "plain").write_text("keep me")
    return Run([*COMPILE, "{folder}/plain"], after=lambda folder, out: None if (folder / "plain").read_text() == "keep me" else "the file was changed")


@refused("J15")
def output_is_somebody_elses_folder(folder):
    (folder / "mine").mkdir()
    (folder / "mine/notes.txt").write_text("keep me")
    return Run([*COMPILE, "{folder}/mine"], after=lambda folder, out: None if os.listdir(folder / "mine") == ["notes.txt"] else "something was written there")


@refused("J15")
def output_name_of_4096_characters(folder):
    return Run([*COMPILE, "{folder}/" + "a" * 4096])


@refused("J15")
def output_in_unwritable_place(folder):
    return Run([*COMPILE, "/proc/metac-output"])


@works("J15")
def output_below_missing_folders(folder):
    return Run([*COMPILE, "{out}/a/b"], after=lambda folder, out: None if (out / "a/b/b.json").exists() or list((out / "a/b").glob("*.json")) else "nothing is there")


@refused("J15", "Not a directory")
def output_below_a_file(folder):
    (folder / "plain").write_text("keep me")
    return Run([*COMPILE, "{folder}/plain/a/b"])


@works("J15")
def output_with_odd_characters(folder):
    return Run([*COMPILE, "{folder}/a b'\"$(touch x);\n*"], after=lambda folder, out: None if not (folder / "x").exists() else "a shell ran", may_write=True)


@refused("F1", "space|large|limit|[Ff]ile")
def disk_full(folder):
    return Run([*COMPILE, "{out}"], file_limit=4096)


@refused("F2", "compiler|c\\+\\+|cmake|found")
def no_compiler(folder):
    return Run(["compile", DIGITS, "-o", "{out}"], environment={"PATH": "/nonexistent"})


@refused("J16")
def compiler_with_a_shell_command(folder):
    return Run(["compile", DIGITS, "-o", "{out}", "--cxx", f"c++; touch {folder}/x"], after=lambda folder, out: None if not (folder / "x").exists() else "a shell ran")


@refused("J17", "nosuch")
def model_name_with_a_newline(folder):
    return Run(["compile", "{folder}/nosuch\nmodel.onnx", "-o", "{out}", "--no-build"])


@works("F3")
def cache_folder_not_writable(folder):
    return Run(["run", DIGITS, "--input", "image=random", "--dim", "batch=1", "--output-dir", "{out}"], environment={"METAC_CACHE_DIR": "/proc/metac-cache"})


@works("F4")
def empty_environment(folder):
    return Run(["run", DIGITS, "--input", "image=random", "--dim", "batch=1", "--output-dir", "{out}"], environment={"HOME": "", "METAC_CACHE_DIR": "", "XDG_CACHE_HOME": ""})


@works("F5")
def locale_with_decimal_comma(folder):
    return Run(["compile", DIGITS, "-o", "{out}", "--no-build"], environment={"LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Kathmandu"})
