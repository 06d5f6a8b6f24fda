#!/usr/bin/env bash
# fuzz-domain.sh SECONDS: runs every coverage-guided target of fuzz/domain so long, each from a corpus in build/ that
# grows from run to run and begins with tests/vectors. Needs neither cargo-fuzz nor a nightly toolchain.
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
use_rust
seconds=${1:?usage: fuzz-domain.sh SECONDS}

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$BUILD/cargo-fuzz}"
# What cargo-fuzz 0.13 passes to rustc with --sanitizer none. --target keeps it from build scripts.
flags=(
  -Cpasses=sancov-module
  -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares
  -Cllvm-args=-simplifycfg-branch-fold-threshold=0
  -Cllvm-args=-sanitizer-coverage-stack-depth
  --cfg fuzzing
  -Clink-dead-code
  -Ccodegen-units=1
)
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="${flags[*]}" cargo build --release --locked --quiet --target "$host" --manifest-path fuzz/domain/Cargo.toml

fuzz() { # fuzz TARGET: one run; what the engine says goes to a log, and to us only when it stops early
  local target=$1 program=$CARGO_TARGET_DIR/$host/release/$1 corpus=$BUILD/corpus/$1 found=$BUILD/crashes/$1 log runs
  log=$BUILD/log/fuzz-domain-$target.log
  rm -rf "${BUILD:?}/seeds/$target"
  mkdir -p "$corpus" "$found" "$BUILD/log"
  SEEDS_TO=$BUILD/seeds/$target "$program" >"$log" 2>&1 || { cat "$log"; return 1; }
  if "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -dict=fuzz/domain/json.dict \
    -artifact_prefix="$found/" -print_final_stats=1 "$corpus" "$BUILD/seeds/$target" >"$log" 2>&1; then
    runs=$(sed -n 's/^Done \([0-9]*\) runs in .*/\1/p' "$log")
    echo "ok      $target: ${runs:?"$log tells no number of runs"} runs"
  else
    echo "FAILED  $target: $(grep -m1 -E 'panicked at|^SUMMARY:|ERROR: libFuzzer' "$log" || echo 'see the log')"
    grep -v '^#' "$log" | tail -n 60
    echo "the input: $(sed -n 's/.*Test unit written to //p' "$log" | tail -n1)"
    echo "once more: $program FILE; all it said: $log"
    return 1
  fi
}

for target in delivery payload; do
  if fuzz "$target"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
closing_line
