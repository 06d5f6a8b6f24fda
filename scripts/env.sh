# shellcheck shell=bash
# Sourced by the other scripts: where things are, which PostgreSQL, which Rust, and who may run a server.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
BUILD=$ROOT/build # everything made here, apart from cargo's target/
export VENV=$BUILD/venv
umask 022 # what is installed must be readable by the server's user, whatever the builder's habits
mkdir -p "$BUILD"
cd "$ROOT"

export PATH="$BUILD/tools/bin:$PATH"   # a cargo-pgrx of our version, where the user's own is another
export USER="${USER:-$(id -un)}"       # pgrx-tests insists on it; a bare container has none
# More known answers of signatures than the repository holds, where they lie beside it.
[ ! -f "$ROOT/../shared/vectors/signatures.jsonl" ] ||
  export PAYMENT_IDEM_VECTORS="${PAYMENT_IDEM_VECTORS:-$ROOT/../shared/vectors/signatures.jsonl}"
export SCALE="${SCALE:-short}"         # how long the long proofs run: short or full
export PYTHONPYCACHEPREFIX="$BUILD/pycache" PIP_DISABLE_PIP_VERSION_CHECK=1

say() { echo "$*" >&2; }
die() { say "error: $*"; exit 1; }

# --- which PostgreSQL -------------------------------------------------------------------------------------------

supported() { sed -n 's/^pg\([0-9][0-9]*\) *=.*/\1/p' Cargo.toml; } # majors: the pgNN features of Cargo.toml

# Sets PG_CONFIG and PG_MAJOR: the caller's PG_CONFIG, else the newest supported server in Debian's layout or PATH.
find_postgres() {
  local config major
  while read -r config; do
    [ -x "$("$config" --bindir 2>/dev/null)/postgres" ] || continue # a client's pg_config, or none
    major=$("$config" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
    if supported | grep -qx "$major"; then
      PG_CONFIG=$config PG_MAJOR=$major
      return
    fi
  done < <(
    if [ -n "${PG_CONFIG:-}" ]; then command -v "$PG_CONFIG"; else
      printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort -Vr
      command -v pg_config
    fi
  )
  return 1
}

use_postgres() {
  find_postgres || die "no PostgreSQL server of a supported major ($(supported | xargs)); run make setup"
  PG_BIN=$("$PG_CONFIG" --bindir)
  PG_TEST=$(dirname "$("$PG_CONFIG" --pgxs)")/../../src/test # pg_regress and its relatives
  # Features are always spelt out, so that the default one cannot clash with the server found.
  # shellcheck disable=SC2034 # used by the scripts that source this one
  PG_FEATURES=(--no-default-features --features "pg$PG_MAJOR")
  export PG_CONFIG PG_MAJOR PG_BIN PG_TEST
}

# --- which Rust -------------------------------------------------------------------------------------------------

use_rust() {
  local toolchain
  toolchain=$(scripts/toolchain.sh) || exit 1
  [ -z "$toolchain" ] || export RUSTUP_TOOLCHAIN="$toolchain"
}

# --- who runs a server ------------------------------------------------------------------------------------------

# PostgreSQL refuses to run as root; root therefore hands the server, and only the server, to user postgres.
if [ "$(id -u)" = 0 ]; then
  SUDO=() SERVER_USER=postgres
  as_server() { (cd / && exec runuser -u "$SERVER_USER" -- "$@"); }
else
  # shellcheck disable=SC2034 # used by the scripts that source this one
  SUDO=(sudo) SERVER_USER=$USER
  as_server() { (cd / && exec "$@"); }
fi

# Prints a directory that the server's user owns and reaches: build/NAME. Where a parent folder keeps that user out,
# or the path is too long for a socket (107 bytes), it lies in /tmp and build/NAME links to it.
server_dir() {
  local dir=$BUILD/$1 away
  if [ ! -d "$dir" ]; then
    rm -f "$dir" # a link whose target is gone
    mkdir -p "$dir"
    chown "$SERVER_USER" "$dir"
    if [ ${#dir} -gt 85 ] || ! as_server test -w "$dir"; then
      away=$(mktemp -d /tmp/payment_idem.XXXXXX)
      chown "$SERVER_USER" "$away"
      rmdir "$dir"
      ln -s "$away" "$dir"
    fi
    chmod 700 "$dir"
  fi
  (cd -P "$dir" && pwd)
}

# --- counting checks --------------------------------------------------------------------------------------------

passed=0 failed=0
check() { # check NAME COMMAND...: runs one check, says how it went, goes on
  local name=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
    echo "ok      $name"
  else
    failed=$((failed + 1))
    echo "FAILED  $name"
  fi
}
closing_line() { # the form that scripts/test.sh reads
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}
