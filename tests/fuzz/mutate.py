"""Small changes to files, all drawn from one generator: the same seed makes the same files."""
import json

INTEGERS = [0, 1, -1, 2, 3, 7, 64, 255, 1 << 20, 1 << 31, -(1 << 31), 1 << 40, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e30, -1e30, 1e-45, float("inf"), float("-inf"), float("nan")]
LETTERS = "i0123456789+-*/%()<>=!&|?:,.@xN[] \"\\\n\0é"


def bytes_mutated(rng, data, other):
    """A few changes: bits flipped, pieces cut, doubled, moved or taken from `other`."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        size = len(data)
        at = rng.randrange(size + 1) if size else 0
        length = rng.choice([1, 1, 2, 4, 8, rng.randrange(1, 64)])
        kind = rng.randrange(7)
        if kind == 0 and at < size:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < size:
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 2:
            del data[at:at + length]
        elif kind == 3:
            data[at:at] = data[at:at + length]
        elif kind == 4 and other:
            start = rng.randrange(len(other))
            data[at:at + rng.choice([0, length])] = other[start:start + length]
        elif kind == 5:
            data[at:at] = bytes(rng.randrange(256) for _ in range(length))
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


def text_mutated(rng, text):
    letters = list(text)
    for _ in range(rng.choice([1, 1, 2, 3])):
        at = rng.randrange(len(letters) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            letters[at:at + 1] = rng.choice(LETTERS)
        elif kind == 1:
            letters[at:at] = rng.choice(LETTERS)
        elif kind == 2:
            del letters[at:at + rng.randrange(1, 4)]
        else:
            letters[at:at] = letters[at:at + rng.randrange(1, 6)]
    return "".join(letters)


# ---- protobuf messages, field by field ----
def fields_below(message, found):
    """Every (message, field) that is set, of this message and those inside."""
    for field, value in message.ListFields():
        found.append((message, field))
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                fields_below(inner, found)
    return found


def scalar(rng, field, strings):
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice(FLOATS)
    if field.type == field.TYPE_STRING:
        return rng.choice([*strings, "", text_mutated(rng, rng.choice(strings))]).replace("\ud800", "")
    if field.type == field.TYPE_BYTES:
        return rng.choice([b"", b"\0", rng.randbytes(rng.randrange(1, 40)), rng.choice(strings).encode()])
    if field.cpp_type == field.CPPTYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    value = rng.choice([*INTEGERS, *range(30)])
    if field.cpp_type == field.CPPTYPE_INT64:
        return value
    if field.cpp_type == field.CPPTYPE_UINT64:
        return value % (1 << 64)
    return value % (1 << 31)


def message_mutated(rng, message):
    """Changes some fields of a protobuf message in place: values, lengths, order, presence."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        places = fields_below(message, [])
        if not places:
            return
        strings = [value for owner, field in places if field.type == field.TYPE_STRING
                   for value in (getattr(owner, field.name) if field.is_repeated else [getattr(owner, field.name)])] or ["x"]
        owner, field = rng.choice(places)
        name = field.name
        if not field.is_repeated:
            if field.message_type is not None or rng.random() < 0.15:
                owner.ClearField(name)
            else:
                setattr(owner, name, scalar(rng, field, strings))
            continue
        values = getattr(owner, name)
        at, kind = rng.randrange(len(values)), rng.randrange(4)
        if kind == 0:
            del values[at]
        elif kind == 1:
            values.extend([values[at]])
        elif field.message_type is None:
            values[at] = scalar(rng, field, strings)
        elif len(values) > 1:
            copy = type(values[at])()
            copy.CopyFrom(values[at])
            values[at].CopyFrom(values[at - 1])
            values[at - 1].CopyFrom(copy)


# ---- JSON, value by value ----
def json_mutated(rng, document):
    """The document with some values replaced, doubled, removed or moved."""
    document = json.loads(json.dumps(document))
    for _ in range(rng.choice([1, 1, 2])):
        places, stack = [], [document]
        while stack:
            value = stack.pop()
            keys = list(value) if isinstance(value, dict) else list(range(len(value)))
            for key in keys:
                places.append((value, key))
                if isinstance(value[key], (dict, list)):
                    stack.append(value[key])
        if not places:
            break
        owner, key = rng.choice(places)
        value, kind = owner[key], rng.randrange(5)
        if kind == 0:
            del owner[key]
        elif kind == 1 and isinstance(owner, list):
            owner.insert(key, value)
        elif kind == 2:
            other, there = rng.choice(places)
            owner[key] = json.loads(json.dumps(other[there])) if len(json.dumps(other[there])) < 20_000 else None
        elif isinstance(value, str) and rng.random() < 0.8:
            owner[key] = text_mutated(rng, value)
        else:
            owner[key] = rng.choice([*INTEGERS, 1 << 63, 1.5, -0.5, 1e300, None, True, "", [], {}, [[]], "x", ["x"], "i0"])
    return document
