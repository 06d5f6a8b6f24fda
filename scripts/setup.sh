#!/usr/bin/env bash
# Installs what is missing and says so; does nothing, quickly, when nothing is.
#
#   setup.sh build    PostgreSQL with its headers, the compilers, cargo-pgrx
#   setup.sh demo     ... and Python's driver
#   setup.sh [test]   ... and the other languages' drivers, and what lint needs
#
# Works as root and as a user with sudo on Debian and its relatives; elsewhere it names what is needed.
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
level=${1:-test}
[[ $level =~ ^(build|demo|test)$ ]] || die "setup.sh build|demo|test, not '$level'"

# --- system packages --------------------------------------------------------------------------------------------
# Asked for by what they provide, not by name: a compiler or Node of another origin is as good.

missing=()
want() { # want PACKAGE PROBE...
  local package=$1
  shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
any() { # any FILE...: one of them is there (patterns are expanded by the caller)
  local file
  for file; do [ ! -e "$file" ] || return 0; done
  return 1
}

install_missing() {
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "missing (as Debian calls them): ${missing[*]}; please install them"
  [ ${#SUDO[@]} = 0 ] || command -v sudo >/dev/null ||
    die "missing: ${missing[*]}; please run as root: apt-get install ${missing[*]}"
  say "setup: installing ${missing[*]}"
  local apt=("${SUDO[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
  # Old package lists are good enough as long as they lead to the packages.
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >"$BUILD/apt.log" 2>&1 ||
    { "${apt[@]}" update >"$BUILD/apt.log" 2>&1 &&
      "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >>"$BUILD/apt.log" 2>&1; } ||
    { tail -n 20 "$BUILD/apt.log" >&2; die "could not install ${missing[*]} (whole log: build/apt.log)"; }
  missing=()
}

pgrx_version=$(sed -n 's/^pgrx *=.*"=\([0-9.]*\)".*/\1/p' Cargo.toml)
has_pgrx() { [ "$(cargo-pgrx pgrx --version 2>/dev/null)" = "cargo-pgrx $pgrx_version" ]; }

# The server comes first: its major names the package with its headers.
want postgresql find_postgres
install_missing
find_postgres || die "the system's PostgreSQL is not of a supported major ($(supported | xargs)); install one that is, or set PG_CONFIG"
use_postgres

want "postgresql-server-dev-$PG_MAJOR" any "$("$PG_CONFIG" --includedir-server)/postgres.h"
want "postgresql-server-dev-$PG_MAJOR" any "$PG_TEST/regress/pg_regress"
[ "$PG_MAJOR" -lt 18 ] || want libicu-dev any /usr/include/unicode/ucol.h /usr/include/*/unicode/ucol.h # its headers include ICU's
want build-essential command -v cc
want clang command -v clang
want libclang-dev any "${LIBCLANG_PATH:-/nowhere}" /usr/lib/llvm-*/lib/libclang.so /usr/lib*/libclang.so /usr/lib/*/libclang.so
if ! has_pgrx; then
  want pkg-config command -v pkg-config
  want libssl-dev any /usr/include/openssl/ssl.h
fi
[ "$level" = build ] || want python3-venv python3 -c 'import ensurepip, venv'
if [ "$level" = test ]; then
  want shellcheck command -v shellcheck
  [ "$(id -u)" != 0 ] || want sudo command -v sudo # how cargo-pgrx hands its test server to user postgres
  want nodejs command -v node
  want npm command -v npm
  want default-jdk-headless command -v javac
  want libpostgresql-jdbc-java any /usr/share/java/postgresql.jar
  want golang-go command -v go
  want golang-github-jackc-pgx-v4-dev any /usr/share/gocode/src/github.com/jackc/pgx/v4
fi
install_missing

# --- Rust -------------------------------------------------------------------------------------------------------

use_rust
if ! has_pgrx; then
  # A cargo-pgrx of another version belongs to the user's other projects: ours then goes below build/.
  root=()
  ! command -v cargo-pgrx >/dev/null || root=(--root "$BUILD/tools")
  say "setup: building cargo-pgrx $pgrx_version (some minutes)"
  cargo install cargo-pgrx --version "=$pgrx_version" --locked "${root[@]}" >"$BUILD/cargo-pgrx.log" 2>&1 ||
    { tail -n 20 "$BUILD/cargo-pgrx.log" >&2; die "could not install cargo-pgrx (whole log: build/cargo-pgrx.log)"; }
fi
known=$(cargo pgrx info pg-config "pg$PG_MAJOR" 2>/dev/null || true)
if [ ! -x "$known" ]; then
  say "setup: showing $PG_CONFIG to cargo-pgrx"
  cargo pgrx init "--pg$PG_MAJOR" "$PG_CONFIG" >"$BUILD/pgrx-init.log" 2>&1 ||
    { cat "$BUILD/pgrx-init.log" >&2; die "cargo pgrx init failed"; }
fi

# --- Python and Node, below build/ ------------------------------------------------------------------------------
# Each carries a stamp of what it was made from: other pins, or another folder, and it is made anew.

fresh() { # fresh DIR FILE: the stamp in DIR is that of FILE
  stamp=$(printf '%s %s' "$1" "$(sha256sum <"$2")" | sha256sum)
  [ "$(cat "$1/.stamp" 2>/dev/null)" = "$stamp" ]
}

if [ "$level" != build ] && ! fresh "$VENV" tests/requirements.txt; then
  say "setup: Python packages of tests/requirements.txt"
  rm -rf "$VENV"
  python3 -m venv "$VENV"
  "$VENV/bin/pip" install -q -r tests/requirements.txt
  echo "$stamp" >"$VENV/.stamp"
fi
if [ "$level" = test ] && ! fresh "$BUILD/node" tests/package.json; then
  say "setup: Node packages of tests/package.json"
  rm -rf "$BUILD/node"
  mkdir "$BUILD/node"
  cp tests/package.json "$BUILD/node/"
  npm install --prefix "$BUILD/node" --no-package-lock --no-audit --no-fund --loglevel=error >/dev/null
  echo "$stamp" >"$BUILD/node/.stamp"
fi
