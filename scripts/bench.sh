#!/usr/bin/env bash
# Measures payment_idem beside its peers on a throwaway cluster with durable settings; see docs/PERFORMANCE.md.
#
#   bench.sh            the report, by SCALE: short (about 12 minutes) or full (an hour or two, 60 GB of disk)
#   bench.sh --quick    the same in a minute, without growth: does it work at all?
#   bench.sh growth     growth alone, to ten million receipts
#   bench.sh verify     what verifying and reading cost, per gateway, without a server
#   bench.sh profile    where a backend's time goes, by perf: ours, then the floor
#
# The report is printed and kept in build/bench. KEEP=1 leaves the cluster running.
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
use_postgres
use_rust

mode=${1:-$SCALE}
[[ $mode =~ ^(short|full|--quick|growth|verify|profile)$ ]] || die "bench.sh [--quick|growth|verify|profile]"
mode=${mode#--}

finish() {
  [ "${KEEP:-}" = 1 ] || scripts/cluster.sh drop bench
}
trap finish EXIT
trap 'exit 130' INT TERM

mkdir -p "$BUILD/bench"
CARGO_TARGET_DIR=$BUILD/cargo cargo build --release --locked --quiet --manifest-path benches/Cargo.toml

# Durable as in production. Checkpoints and vacuums come when the bench asks for them, not when they like.
scripts/cluster.sh start bench fsync=on full_page_writes=on synchronous_commit=on wal_compression=off \
  shared_buffers=1GB max_wal_size=24GB min_wal_size=4GB checkpoint_timeout=1d autovacuum=off
variables=$(scripts/cluster.sh env bench)
eval "$variables"

bench=$BUILD/cargo/release/payment_idem_bench
if [ "$mode" = profile ]; then
  "$bench" profile ours > /dev/null # the first to touch the shared buffers pays for their pages
  for peer in ours floor; do "$bench" profile "$peer"; done | tee "$BUILD/bench/profile.txt"
else
  "$bench" "$mode" | tee "$BUILD/bench/$mode.txt"
fi
