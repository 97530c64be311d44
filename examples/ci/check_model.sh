#!/usr/bin/env bash
# Compiles a model for continuous integration and fails where anything about it has changed unasked.
#
#   check_model.sh MODEL.onnx OUT
#
# Beside the model lie the files that say what is expected. They belong to the repository, so that a review sees a change of
# one; each is made by the command behind it:
#
#   MODEL.lock.json     what the library is        metac compile MODEL.onnx -o OUT/library --lock MODEL.lock.json
#   MODEL.answers.npz   what it answers            metac record MODEL.onnx -o MODEL.answers.npz --input NAME=FILE.npy
#   MODEL.bench.json    how fast it was, or none   OUT/bench.json of an earlier run on the same machine
#
# OUT gets the library, junit.xml and bench.json. The exit status is metac's: 1 another library than the lock's, or an error;
# 3 other answers, or slower than the baseline. From the environment: METAC, the program; METAC_COMPILE and METAC_BENCH,
# options of `metac compile` and `metac bench` (the shapes to time, where a model leaves some open).
set -euo pipefail
model=${1:?MODEL.onnx} out=${2:?OUT}
metac=${METAC:-metac} known=${model%.onnx}
read -ra compile <<<"${METAC_COMPILE:-}"
read -ra bench <<<"${METAC_BENCH:-}"
for file in "$known.lock.json" "$known.answers.npz"; do
  [ -e "$file" ] || { echo "$file is missing; ${0##*/} says how it is made (--lock, record)" >&2; exit 1; }
done
mkdir -p "$out"
"$metac" compile "$model" -o "$out/library" --locked "$known.lock.json" ${compile+"${compile[@]}"}
"$metac" verify "$out/library" --against "$known.answers.npz" --junit "$out/junit.xml"
"$metac" bench "$out/library" ${bench+"${bench[@]}"} --json >"$out/bench.json"
[ ! -e "$known.bench.json" ] || "$metac" bench "$out/library" ${bench+"${bench[@]}"} --baseline "$known.bench.json"
