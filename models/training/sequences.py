"""Networks of numbers for build.py: a recurrent translator with attention, and neural collaborative filtering."""
from layers import Network


def gnmt(batch, vocabulary=64, width=128, layers=3, time=16):
    """A small relative of Y. Wu et al., arXiv:1609.08144: an encoder whose first layer reads in both directions, residual layers, a decoder whose
    first layer asks for attention over what was encoded and whose other layers read the answer. The decoder is taught with the right words so far.
    """
    n = Network("gnmt", 9)
    source, so_far = n.input("source", "int64", [time]), n.input("so_far", "int64", [time])

    def words(x, name):
        """[batch, time] to [time, batch, width]."""
        return n.node("Transpose", [n.node("Gather", [n.weight(name, (vocabulary, width), width), x], axis=0)], perm=[1, 0, 2])

    def lstm(x, name, inputs, hidden, directions=1):
        operands = [x, n.weight(name + ".weight_ih", (directions, 4 * hidden, inputs), hidden), n.weight(name + ".weight_hh", (directions, 4 * hidden, hidden), hidden),
                    n.weight(name + ".bias", (directions, 8 * hidden), hidden)]
        y = n.node("LSTM", operands, hidden_size=hidden, **({"direction": "bidirectional"} if directions == 2 else {}))  # [time, directions, batch, hidden]
        y = n.node("Transpose", [y], perm=[0, 2, 1, 3]) if directions == 2 else y
        return n.node("Reshape", [y, n.shape(time, batch, directions * hidden)])

    x = lstm(words(source, "source.embedding"), "encoder0", width, width // 2, 2)
    for k in range(1, layers):
        x = n.node("Add", [x, lstm(x, f"encoder{k}", width, width)])
    keys = n.node("Transpose", [x], perm=[1, 2, 0])   # [batch, width, time]
    values = n.node("Transpose", [x], perm=[1, 0, 2])
    y = lstm(words(so_far, "target.embedding"), "decoder0", width, width)
    scores = n.node("MatMul", [n.project(n.node("Transpose", [y], perm=[1, 0, 2]), "attention.query", width, width), keys])
    answer = n.node("MatMul", [n.node("Softmax", [n.node("Mul", [scores, n.weight("scale", (), value=width ** -0.5)])], axis=-1), values])
    answer = n.node("Transpose", [answer], perm=[1, 0, 2])
    for k in range(1, layers):
        z = lstm(n.node("Concat", [y, answer], axis=2), f"decoder{k}", 2 * width, width)
        y = n.node("Add", [y, z])
    return n, n.project(n.node("Transpose", [y], perm=[1, 0, 2]), "out", width, vocabulary), {"classes": vocabulary, "time": time, "axis": 2}


def ncf(batch, users=2000, items=1000, factors=16):
    """X. He et al., arXiv:1708.05031 (NeuMF): a product of factors beside a network over two others, together one score."""
    n = Network("ncf", 10)
    user, item = n.input("user", "int64", []), n.input("item", "int64", [])

    def rows(x, name, count, width):
        return n.node("Gather", [n.weight(name, (count, width), 100), x], axis=0)

    product = n.node("Mul", [rows(user, "product.user", users, factors), rows(item, "product.item", items, factors)])
    x, width = n.node("Concat", [rows(user, "layers.user", users, 2 * factors), rows(item, "layers.item", items, 2 * factors)], axis=1), 4 * factors
    for k in range(3):
        x, width = n.node("Relu", [n.linear(x, f"fc{k}", width, width // 2)]), width // 2
    x = n.linear(n.node("Concat", [product, x], axis=1), "score", factors + width, 1)
    return n, n.node("Reshape", [x, n.shape(-1)]), {"users": users, "items": items}
