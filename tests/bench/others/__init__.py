"""Small networks of many kinds with random weights, each a class whose docstring says what it is and whose `inputs` gives
the shapes (float32) or values it is exported with."""
