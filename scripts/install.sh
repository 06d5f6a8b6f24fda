#!/usr/bin/env bash
# Builds the extension as it ships (release) and installs it into the system's PostgreSQL.
# --quiet shows cargo's words only where it fails. With --package DIR it only lays the files out below DIR, for a DBA to copy.
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
use_postgres
use_rust
install() {
  cargo pgrx install --release --pg-config "$PG_CONFIG" "${SUDO[@]/#sudo/--sudo}" "${PG_FEATURES[@]}"
}

case ${1:-} in
  --package) cargo pgrx package --pg-config "$PG_CONFIG" --out-dir "${2:?a directory}" "${PG_FEATURES[@]}" ;;
  --quiet)
    say 'building and installing the extension (two or three minutes the first time)'
    mkdir -p "$BUILD/log"
    install >"$BUILD/log/install.log" 2>&1 || { cat "$BUILD/log/install.log" >&2; exit 1; }
    ;;
  *) install ;;
esac
