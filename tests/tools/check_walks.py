#!/usr/bin/env python3
"""No walk over shared expressions without memory.

    python3 tests/tools/check_walks.py

An expression is a graph: sixty squares of squares have sixty nodes and 2^60 paths. So functions of the compiler do not call themselves for the
arguments of a node; they ask visit, any_of, rewrite (compiler/ir/expr.h), rewrite_up, rewrite_loads or answer_once (compiler/ir/walks.h),
which meet every node once. Those that do call themselves are listed here with what bounds them; the list may only shrink. Prints a line for each
other one, and the last line is 'N functions, N complaints'.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

ALLOWED = {
    "compiler/ir/expr.cpp": {"rewrite_with", "rewrite_up_with", "visit_with", "any_with", "conjuncts", "to_string"},  # with a table of nodes; to_string names what is shared
    "compiler/ir/canonical.cpp": {"index_floor_div", "index_floor_mod", "factors_of", "linear_form", "from_digits"},  # of sums and products in canonical form
    "compiler/ir/bounds.cpp": {"interval", "proves", "is_at_least", "walk"},  # with a table of nodes; an axis or a quotient less each time
    "compiler/ir/graph_text.cpp": {"verify_ops"},  # of regions
    "compiler/tensor/definition.cpp": {"visit_loads_of"},  # with a table of nodes
    "compiler/oracle/evaluate_inline.cpp": {"expand"},  # with a table of nodes
    "compiler/target/cpu/strategies/hoist_tables.cpp": {"with_tables", "collect_terms"},  # with a table of nodes; 64 terms
    "compiler/tensor/gelu_form.cpp": {"factors"},  # 16 factors
    "compiler/target/gpu/vendor/library_convolution.cpp": {"terms"},  # the second of a term ends it
    "compiler/target/gpu/vendor/library_product.cpp": {"terms"},  # the second of a term ends it
    "compiler/printing/cpp_text.cpp": {"print"},  # what is large and shared has names (ValuePrinter::index_text)
    "compiler/printing/cpp_branches.cpp": {"visit_scope"},  # with a table of nodes
    "compiler/program/emit_extent.cpp": {"value"},  # what is large and shared is kept
    "compiler/region/split_parts.cpp": {"split", "largest_part"},  # a budget of parts
    "compiler/ops/shape_operands.cpp": {"index_call", "whole_number"},  # once more with another function; one operand
    "compiler/ops/meta/meta_binding.cpp": {"adapt"},  # of literals, as long as their text
}

HEAD = re.compile(r"(?:\b(\w+)\s*\((?:[^;{}()]|\((?:[^;{}()]|\([^()]*\))*\))*\)\s*(?:const)?\s*(?:->\s*[\w:<>]+)?\s*\{)|(?:\b(\w+)\s*=\s*\[[^\]]*\]\s*\([^{};]*\)\s*(?:->\s*[\w:<>]+\s*)?\{)")
WORDS = {"if", "for", "while", "switch", "catch", "return"}


def body_at(text, start):
    depth, at = 1, start
    while at < len(text) and depth:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    return text[start:at]


def main():
    functions = complaints = 0
    for file in sorted(p for folder in ("compiler", "frontends") for p in (ROOT / folder).rglob("*") if p.suffix in (".cpp", ".h")):
        text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', file.read_text())  # brackets in strings
        text = re.sub(r"//[^\n]*", "", text)
        name_of = file.relative_to(ROOT).as_posix()
        for head in HEAD.finditer(text):
            name = head.group(1) or head.group(2)
            if name in WORDS:
                continue
            functions += 1
            body = body_at(text, head.end())
            if "->args" not in body or not re.search(rf"(?<![\w.>:]){name}\b\s*[(),]", body) or name in ALLOWED.get(name_of, ()):
                continue
            line = text[:head.start()].count("\n") + 1
            print(f"{name_of}:{line}: {name} calls itself for the arguments of an expression; see answer_once")
            complaints += 1
    print(f"{functions} functions, {complaints} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
