#!/usr/bin/env bash
# One step of the test suite, by name; scripts/test.sh runs them, logs them and counts what their runners report.
#
# The Python and client tests find in their environment: PGHOST PGPORT PGUSER PGDATABASE (a fresh database with the
# extension in it, through the socket), PAYMENT_IDEM_TCP_PORT (the same server on 127.0.0.1) and SCALE (short or full).
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
use_postgres
use_rust

database() { # a fresh one on the test cluster, named after the step
  local variables
  scripts/cluster.sh fresh test "$1"
  variables=$(scripts/cluster.sh env test "$1")
  eval "$variables"
}

regress() { # regress DRIVER DIR ARGUMENT...: PostgreSQL's own driver; it makes the database itself
  local driver=$1 dir=$2 variables
  shift 2
  variables=$(scripts/cluster.sh env test)
  eval "$variables"
  rm -rf "${BUILD:?}/$dir"
  mkdir -p "$BUILD/$dir"
  "$driver" --bindir="$PG_BIN" --inputdir="$ROOT/tests/$dir" --outputdir="$BUILD/$dir" \
    --host="$PGHOST" --port="$PGPORT" --user="$PGUSER" --dbname="$dir" "$@" ||
    { cat "$BUILD/$dir/regression.diffs"; return 1; }
}

run_tests() { "$VENV/bin/python" "$@"; }

case $1 in
  lint) scripts/lint.sh ;;
  domain) cargo test --locked --no-default-features --no-fail-fast ;;
  pgrx)
    # It installs a test build by writing over the library, which would kill every session that has it loaded.
    "${SUDO[@]}" rm -f "$("$PG_CONFIG" --pkglibdir)/payment_idem.so"
    cargo pgrx test "pg$PG_MAJOR" --runas "$SERVER_USER" --pgdata "$(server_dir pgrx-test)"
    ;;
  install)
    scripts/install.sh
    # Always a new cluster: nothing that an earlier run left can help this one.
    scripts/cluster.sh drop test
    scripts/cluster.sh start test
    ;;
  regress) regress "$PG_TEST/regress/pg_regress" pg_regress --schedule=tests/pg_regress/schedule ;;
  isolation)
    regress "$PG_TEST/isolation/pg_isolation_regress" isolation --schedule=tests/isolation/isolation_schedule
    ;;
  concurrency)
    database concurrency
    run_tests -m pytest -q -p no:cacheprovider --rootdir=tests --durations=5 tests/concurrency
    ;;
  gateways)
    database gateways
    run_tests -m pytest -q -s -p no:cacheprovider --rootdir=tests tests/gateways
    ;;
  model)
    database model
    CARGO_TARGET_DIR=$BUILD/cargo cargo run --release --locked --quiet --manifest-path tests/model/Cargo.toml
    ;;
  fuzz)
    database fuzz
    CARGO_TARGET_DIR=$BUILD/cargo cargo run --release --locked --quiet --manifest-path fuzz/Cargo.toml
    ;;
  fuzz-domain)
    case $SCALE in full) seconds=600 ;; *) seconds=60 ;; esac # for each target
    scripts/fuzz-domain.sh "$seconds"
    ;;
  clients)
    database clients
    run_tests tests/clients/run.py
    ;;
  docs)
    database docs
    run_tests tests/docs/run.py
    ;;
  *) die "no step $1" ;;
esac
