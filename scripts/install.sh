#!/usr/bin/env bash
# Builds the extension as it ships (release) and installs it into the system's PostgreSQL.
# --quiet shows cargo's words only where it fails. With --package DIR it only lays the files out below DIR, for a DBA to copy.
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
use_postgres
use_rust
package() { # DIR: lays the files out below DIR, as they lie in the system
  cargo pgrx package --pg-config "$PG_CONFIG" --out-dir "$1" "${PG_FEATURES[@]}"
}

# Each file is put beside its place and then renamed: written over in place, the library would kill every session that
# has it loaded.
install_files() {
  local file
  rm -rf "$BUILD/package"
  package "$BUILD/package"
  (cd "$BUILD/package" && find . -type f -printf '/%P\n') | while read -r file; do
    "${SUDO[@]}" install -D -m 644 "$BUILD/package$file" "$file.new"
    "${SUDO[@]}" mv -f "$file.new" "$file"
  done
}

case ${1:-} in
  --package) package "${2:?a directory}" ;;
  --quiet)
    say 'building and installing the extension (two or three minutes the first time)'
    mkdir -p "$BUILD/log"
    scripts/install.sh >"$BUILD/log/install.log" 2>&1 || { cat "$BUILD/log/install.log" >&2; exit 1; }
    ;;
  *) install_files ;;
esac
