#!/usr/bin/env bash
# Builds the extension as it ships (release) and installs it into the system's PostgreSQL.
# With --package DIR it only lays the files out below DIR, for a DBA to copy.
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
use_postgres
use_rust
if [ "${1:-}" = --package ]; then
  cargo pgrx package --pg-config "$PG_CONFIG" --out-dir "${2:?a directory}" "${PG_FEATURES[@]}"
else
  cargo pgrx install --release --pg-config "$PG_CONFIG" "${SUDO[@]/#sudo/--sudo}" "${PG_FEATURES[@]}"
fi
