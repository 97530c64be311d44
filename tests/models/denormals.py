#!/usr/bin/env python3
"""Does a library compute with memory that nobody wrote, though it stores none of that?

    METAC_FILL=denormals LD_PRELOAD=libmetac_fill_memory.so python3 denormals.py FOLDER MODULE FEEDS.npz...

Runs MODULE of FOLDER/python on one thread with each file of inputs, none of them denormal, while memory begins as denormal
numbers (tests/tools/fill_memory.c), and prints the files with which such a number became an operand, a line each.
"""
import ctypes
import importlib
import os
import sys

import numpy as np


def main():
    folder, module, *files = sys.argv[1:]
    met = ctypes.CDLL(os.environ["LD_PRELOAD"]).metac_denormals_met
    sys.path.insert(0, f"{folder}/python")
    for file in files:
        model = importlib.import_module(module).Model(threads=1)
        with np.load(file) as feeds:
            inputs = {name: feeds[name] for name in feeds.files}
        met()
        model.run(inputs)
        if met() == 1:
            print(file)


if __name__ == "__main__":
    main()
