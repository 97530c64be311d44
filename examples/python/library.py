"""A compiled library in Python; needs NumPy alone: library.py FILE.npy..."""
import sys

import digits
import numpy

with digits.Model(threads=1) as model:
    print(model.inputs, "->", model.outputs)
    for path in sys.argv[1:]:
        print(model.run({"image": numpy.load(path)})["probabilities"].argmax())
