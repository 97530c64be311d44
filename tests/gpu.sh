#!/usr/bin/env bash
# What a machine with an NVIDIA GPU is asked to show: tests, compute-sanitizer, figures. In two halves, because such a
# machine may have little time and no network:
#
#   tests/gpu.sh prepare BUNDLE.tar.xz [options]    anywhere with a build of metac and the CUDA toolkit: compiles all that runs
#   tests/gpu.sh run BUNDLE.tar.xz OUT [options]    on the GPU: OUT/gpu.json, and a table; compiles nothing
#
# `--help` behind either lists its options. What it measured, and what not, is written down in docs/gpu_evidence.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in
  prepare) shift; exec "${PYTHON:-python3}" "$here/cuda/prepare_gpu.py" "$@" ;;
  run) shift; exec "${PYTHON:-python3}" "$here/cuda/run_gpu.py" "$@" ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
