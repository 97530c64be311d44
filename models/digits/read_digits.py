#!/usr/bin/env python3
"""Compiles the digits network with metac, reads the ten samples with the library, and shows picture and answer.

    python3 read_digits.py --metac build/release/bin/metac --out DIR [--quiet]          needs: pip install numpy

Ends with 'N passed, N failed'; exit status 1 if a digit was misread.
"""
import argparse
import pathlib
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
INK = " .:-=+*#%@"  # from background to full ink


def picture(image):
    """An 8x8 image of values 0 to 16 as eight lines; two characters a pixel, because characters are tall."""
    return ["".join(INK[int(v) * (len(INK) - 1) // 16] * 2 for v in row) for row in image]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--quiet", action="store_true", help="no pictures")
    arguments = parser.parse_args()
    subprocess.run([arguments.metac, "compile", str(HERE / "digits.onnx"), "-o", str(arguments.out), "--name", "digits"], check=True)
    sys.path.insert(0, str(arguments.out / "python"))
    import digits

    model, right = digits.Model(), 0
    for digit in range(10):
        image = np.load(HERE / f"digit_{digit}.npy")
        probabilities = model.run({"image": image})["probabilities"][0]
        answer = int(probabilities.argmax())
        right += answer == digit
        text = f"digit_{digit}.npy is read as {answer}, {100 * probabilities[answer]:.1f} % sure" + ("" if answer == digit else "  WRONG")
        if not arguments.quiet:
            lines = picture(image[0, 0])
            lines[3] += "    " + text
            print("\n".join(lines) + "\n")
        elif answer != digit:
            print(text)
    print(f"{right} passed, {10 - right} failed")
    return 0 if right == 10 else 1


if __name__ == "__main__":
    sys.exit(main())
