#!/usr/bin/env bash
# test.sh [STEP...]: runs the steps (all of them, in order, when none is named), each with a log in build/log, goes on
# after a failure, and closes with a table and the line `N passed, N failed`. A step that ran no test has failed.
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

all=(lint domain fuzz-domain pgrx install regress isolation gateways concurrency model fuzz clients docs)
[ $# -gt 0 ] || set -- "${all[@]}"
[ "$SCALE" = full ] && limit=4h || limit=25m # a step that hangs must not eat the whole run

mkdir -p "$BUILD/log"
# A password must be asked for now: the steps have no terminal.
[ ${#SUDO[@]} = 0 ] || sudo -v

finish() {
  [ -z "${child:-}" ] || kill "$child" 2>/dev/null || true
  [ "${KEEP:-}" = 1 ] || scripts/cluster.sh drop test >/dev/null 2>&1 || true
}
trap finish EXIT
trap 'exit 130' INT TERM

rows=()
for step; do
  log=$BUILD/log/$step.log
  began=$SECONDS
  # In the background, so that an interrupt reaches us at once and is handed on to the step and all below it.
  timeout -k 30 "$limit" scripts/step.sh "$step" >"$log" 2>&1 </dev/null &
  child=$!
  status=0
  wait "$child" || status=$?
  child=
  read -r p f < <(awk -f scripts/count.awk "$log")
  word=ok
  if [ "$status" != 0 ]; then
    f=$((f > 0 ? f : 1)) # a step that broke without a count is a failure all the same
    [ "$status" = 124 ] && word="FAILED (over $limit)" || word=FAILED
  elif [ "$f" != 0 ]; then
    word='FAILED (skipped tests)'
  elif [ "$p" = 0 ] && [ "$step" != install ]; then
    f=1 word='FAILED (ran no test)'
  fi
  passed=$((passed + p)) failed=$((failed + f))
  rows+=("$(printf '%-12s %7d %7d %6ds  %s' "$step" "$p" "$f" $((SECONDS - began)) "$word")")
  echo "${rows[-1]}"
  [ "$word" = ok ] || tail -n 40 "$log" | sed 's/^/    | /'
done

printf '\n%-12s %7s %7s %7s\n' step passed failed time
printf '%s\n' "${rows[@]}"
printf 'logs: build/log/STEP.log\n\n'
closing_line
