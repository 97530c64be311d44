# Sourced by test.sh: its stages. Several run side by side, each with a log of its own; they are reported in the order in
# which they were started. A stage that passed is not run again while nothing that it depends on has changed, and the last
# line says so.
#
#   stage NAME COMMAND...   starts a command as soon as there is a place for it
#   alone NAME COMMAND...   the same, with nothing beside it: for what measures time
#   await NAME              waits until the stage has ended; its status
#   finish                  waits for all, prints the sums and ends the script
#
# Needs: $logs, a folder; $stamps, a folder; $places, how many stages run at once; $always, yes if none may be left out.

passed=0 failed=0 skipped=0 failures="" absent="" unchanged=""
unreported=()
declare -A key_of_stage process_of_stage sums_of_build

# What a stage depends on: its words, the programs and packages, the files of its folder and of those that all share, and
# the pages that these name. Programs hold what they were built from; those of the unit tests are no other stage's. Sets
# $key.
stage_key() {
  local word build=build/ci
  local folders="tests/tools tests/conformance models runtime templates compiler/api/package compiler/api/include"
  for word; do
    case $word in
      tests/python/*.py) folders="$folders ${word%/*} python" ;;
      tests/pages/*.py) folders="$folders ${word%/*} README.md docs examples python" ;;
      tests/package/*.py) folders="$folders ${word%/*} packaging python examples/c" ;;
      tests/*.py | models/*.py) folders="$folders ${word%/*}" ;;
      *build/asan*) build=build/asan ;;
      *build/tsan*) build=build/tsan ;;
    esac
  done
  [ -n "${sums_of_build[$build]-}" ] ||
    sums_of_build[$build]=$(
      find "$build/bin" "$build/lib" -type f -name '*metac*' ! -name metac_unit_tests -print0 2>/dev/null |
        sort -z | xargs -0 sha256sum)
  key=$({
    printf '%s\n' "$@" "${METAC_FLOAT_STEP-}" "$jobs" "$(uname -m)" "$(grep -m1 flags /proc/cpuinfo)"
    dpkg-query -W 2>/dev/null
    if [ "$1" = unit_tests ]; then
      find . -type f -not -path './build/*' -not -path './.*' -not -path '*/__pycache__/*' -print0 | sort -z |
        xargs -0 sha256sum
      sha256sum build/ci/bin/*
    else
      # shellcheck disable=SC2086
      find $folders -type f -not -path '*/__pycache__/*' -print0 | sort -zu | xargs -0 sha256sum
      # shellcheck disable=SC2086
      grep -rhoIE 'docs/[a-z_]+\.md' $folders | sort -u | xargs sha256sum 2>/dev/null
      echo "${sums_of_build[$build]}"
    fi
  } | sha256sum)
}

# Waits until at most $1 stages are running.
wait_for_place() {
  while [ "$(jobs -pr | wc -l)" -gt "$1" ]; do
    wait -n
    report_ended
  done
  report_ended
}

stage() {
  wait_for_place $((places - 1))
  start_stage "$@"
}

alone() {
  wait_for_place 0
  start_stage "$@"
  wait_for_place 0
}

start_stage() {
  local name=$1
  shift
  rm -f "$logs/$name".{log,time,status}
  unreported+=("$name")
  case $1 in
    build | prepare | prepare_pytorch) ;;  # they look themselves for what has changed
    *) stage_key "$@" && key_of_stage[$name]=$key ;;
  esac
  if [ "$always" = no ] && [ -n "${key_of_stage[$name]-}" ] &&
    [ "$(head -n 1 "$stamps/$name" 2>/dev/null)" = "${key_of_stage[$name]}" ]; then
    echo unchanged >"$logs/$name.status"
    report_ended
    return
  fi
  rm -f "$stamps/$name"
  set -m  # a process group of its own, which can be ended as one
  {
    TIMEFORMAT='%0R %0U'
    { time "$@" >"$logs/$name.log" 2>&1 </dev/null; } 2>"$logs/$name.time"
    echo $? >"$logs/$name.status.new"
    mv "$logs/$name.status.new" "$logs/$name.status"
  } &
  process_of_stage[$name]=$!
  set +m
}

# Reports the stages that have ended, up to the first that has not.
report_ended() {
  while [ ${#unreported[@]} -gt 0 ] && [ -f "$logs/${unreported[0]}.status" ]; do
    report_stage "${unreported[0]}"
    unreported=("${unreported[@]:1}")
  done
}

# Adds up what the last summary line of a stage says.
report_stage() {
  local name=$1 status line p f s seconds processors
  status=$(cat "$logs/$name.status")
  if [ "$status" = unchanged ]; then
    p=$(sed -n 2p "$stamps/$name")
    skipped=$((skipped + p)) unchanged="$unchanged $name"
    echo "== $name: not run again, nothing that it depends on has changed since its $p passed"
    return
  fi
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$logs/$name.log" | tail -n 1)
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)? ]]; then
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[4]:-0}
  else
    p=$((status == 0)) f=0 s=0
  fi
  [ "$status" = 0 ] || [ "$f" -gt 0 ] || f=1
  read -r seconds processors < <(tail -n 1 "$logs/$name.time")
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  [ "$p" != 0 ] || [ "$s" = 0 ] || absent="$absent $name"
  if [ "$f" = 0 ]; then
    [ -z "${key_of_stage[$name]-}" ] || [ "$p" = 0 ] || printf '%s\n%s\n' "${key_of_stage[$name]}" "$p" >"$stamps/$name"
  else
    failures="$failures $name"
    echo "== $name:"
    tail -n 60 "$logs/$name.log"
  fi
  echo "== $name: $p passed, $f failed, $s skipped ($seconds s, $processors s of processors)"
}

await() {
  while [ ! -f "$logs/$1.status" ] && kill -0 "${process_of_stage[$1]}" 2>/dev/null; do wait -n; done
  report_ended
  [ "$(cat "$logs/$1.status" 2>/dev/null)" = 0 ]
}

finish() {
  wait_for_place 0
  [ ${#unreported[@]} = 0 ] || { failed=$((failed + 1)) failures="$failures ${unreported[0]}"; }  # it was killed
  [ -z "$failures" ] || echo "failed:$failures (logs in $logs)"
  absent=${absent:+; nothing was tested by:$absent} unchanged=${unchanged:+; unchanged and not run again:$unchanged}
  echo "$passed passed, $failed failed, $skipped skipped$absent$unchanged"
  [ "$failed" = 0 ]
  exit
}

# What is interrupted takes its stages along.
end_stages() {
  trap - INT TERM
  for name in "${unreported[@]}"; do
    [ -z "${process_of_stage[$name]-}" ] || kill -- "-${process_of_stage[$name]}" 2>/dev/null
  done
  exit 130
}
trap end_stages INT TERM
