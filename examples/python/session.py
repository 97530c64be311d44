"""A model in this process, compiled when it is first run: session.py MODEL FILE.npy..."""
import sys

import metac
import numpy

with metac.Session(sys.argv[1]) as session:
    for path in sys.argv[2:]:
        print(session.run({"image": numpy.load(path)})["probabilities"].argmax())
