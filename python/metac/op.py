"""Every operator of the registry as a function: metac.op.Conv(x, w, pads=[1, 1, 1, 1]).

Operands go by position, attributes by name, as ONNX has them at the newest opset (docs/operators.md). Operators of other
domains lie in metac.op.com_microsoft, metac.op.metac, ... What stands beside Vars may be a number, a list of numbers or an
array; None leaves an operand out. Lists of integers are constants of the structure: shapes, axes, pads.
"""
import sys
import types

from . import _metac

# Where a number takes the dtype of the Var that it stands beside; elsewhere integers are int64, as indices and counts are.
_NUMBERS_BESIDE = frozenset("""Add Sub Mul Div Pow Mod Max Min Sum Mean Equal Less LessOrEqual Greater GreaterOrEqual Where
PRelu Clip And Or Xor BitwiseAnd BitwiseOr BitwiseXor CastLike elementwise""".split())
_KINDS = {0: "int", 1: "float", 2: "str", 3: "array", 5: "ints", 6: "floats", 7: "strs"}


def _range(least, most, what):
    if least == most:
        return f"{least} {what}{'' if least == 1 else 's'}"
    return f"{least} or more {what}s" if most < 0 else f"{least} to {most} {what}s"


def _function(domain, name, min_inputs, max_inputs, min_outputs, max_outputs, attributes):
    operators = {}
    beside = name in _NUMBERS_BESIDE
    find, apply = _metac.find_operator, _metac.apply
    fixed = min_outputs if min_outputs == max_outputs and min_outputs > 1 else 0
    # Without attributes the operator is found once; lists cannot be keys, so they are looked up as tuples.
    state = []

    def function(*inputs, outputs=None, **given):
        if given:
            key = tuple((k, tuple(v) if type(v) is list else v) for k, v in given.items())
            try:
                operator = operators.get(key)
                if operator is None:
                    if len(operators) > 1024:
                        operators.clear()
                    operator = operators[key] = find(domain, name, given)
            except TypeError:  # an array
                operator = find(domain, name, given)
        elif state:
            operator = state[0]
        else:
            state.append(find(domain, name, given))
            operator = state[0]
        if outputs is None:
            outputs = fixed or (_split_outputs(inputs, given) if name == "Split" else 0)
        return apply(operator, inputs, outputs, beside)

    function.__name__ = function.__qualname__ = name
    parameters = "".join(f"\n  {key}: {_KINDS.get(kind, '?')}{', required' if required else ''}"
                         for key, (kind, required) in attributes.items())
    function.__doc__ = (f"{domain + '.' if domain else ''}{name}: {_range(min_inputs, max_inputs, 'operand')}, "
                        f"{_range(min_outputs, max_outputs, 'output')}."
                        + (f"\n\nAttributes:{parameters}" if parameters else "")
                        + ("" if fixed or max_outputs == 1 else "\n\noutputs=n: a tuple of the first n outputs."))
    return function


def defined(name, domain="user"):
    """An operator that metac.define() or metac.define_file() made, as a function of Vars: operands by position, its numbers
    by name. Raises ModelError where there is none."""
    _metac.find_operator(domain, name, {})
    return _function(domain, name, 1, -1, 1, 1, {})


def _split_outputs(inputs, attributes):
    if "num_outputs" in attributes:
        return attributes["num_outputs"]
    if len(inputs) > 1 and inputs[1] is not None:
        return len(inputs[1]) if isinstance(inputs[1], (list, tuple)) else inputs[1].shape[0]
    return 2


def _fill():
    here = sys.modules[__name__]
    for domain, name, min_in, max_in, min_out, max_out, attributes, no_function in _metac.schemas():
        if no_function:
            continue
        target = here
        if domain:
            short = domain.replace(".", "_")
            if not hasattr(here, short):
                module = types.ModuleType(f"{__name__}.{short}", f"Operators of the domain {domain}.")
                sys.modules[module.__name__] = module
                setattr(here, short, module)
            target = getattr(here, short)
        setattr(target, name, _function(domain, name, min_in, max_in, min_out, max_out, attributes))


_fill()
