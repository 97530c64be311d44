#!/usr/bin/env bash
# Installs what is missing, builds metac, reads handwritten digits with a compiled network, then compiles ResNet-50 and
# times it. Everything it makes is in build/ and .cache/.
set -euo pipefail
cd "$(dirname "$0")"
. tests/tools/prepare_machine.sh

install_debian_packages
prepare_python tests/tools/requirements.txt

echo "== building metac"
cmake --preset release -DMETAC_TESTS=OFF >/dev/null
cmake --build --preset release --parallel "$(nproc)"
metac=$PWD/build/release/bin/metac
export METAC_CACHE_DIR="$PWD/.cache/metac"
mkdir -p build/demo

echo
echo "== compiling models/digits/digits.onnx to a library and reading ten handwritten digits with it"
"$python" models/digits/read_digits.py --metac "$metac" --out build/demo/digits

echo
echo "== compiling ResNet-50 for this processor (25.5 million weights, random ones: only its speed is looked at)"
[ -s .cache/resnet50.onnx ] || "$python" models/backbones/build.py resnet50 .cache/resnet50.onnx
start=$SECONDS
"$metac" compile .cache/resnet50.onnx -o build/demo/resnet50 --name resnet50 --shape input=1x3x224x224
echo "compiled and built in $((SECONDS - start)) s"

echo
echo "== timing it at batch 1"
"$metac" bench build/demo/resnet50

echo
echo "The libraries are in build/demo/digits and build/demo/resnet50: sources in src/, the C interface in include/."
