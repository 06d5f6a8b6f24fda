#!/usr/bin/env bash
# Prints the rustup toolchain to build with: the first installed one that meets `rust-version` of Cargo.toml.
# Prints an empty line when cargo is not rustup's and is new enough by itself.
# The only place where a toolchain is chosen; scripts/env.sh exports the answer as RUSTUP_TOOLCHAIN.
set -euo pipefail
cd "$(dirname "$0")/.."

need=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml)

version() { # of the named toolchain, or of the rustc in PATH
  { if [ -n "$1" ]; then RUSTUP_AUTO_INSTALL=0 rustup run "$1" rustc --version; else rustc --version; fi; } 2>/dev/null |
    cut -d' ' -f2
}

meets() { # 1.97.0-nightly meets 1.96
  [ -n "$1" ] && [ "$(printf '%s\n' "$need" "$1" | sort -V | head -n1)" = "$need" ]
}

candidates() { # the caller's wish, the default, then releases before nightlies, newest first
  printf '%s\n' "${RUSTUP_TOOLCHAIN:-}"
  rustup default 2>/dev/null | cut -d' ' -f1
  rustup toolchain list | cut -d' ' -f1 | while read -r name; do
    have=$(version "$name") || continue
    [[ $have == *-* ]] && rank=1 || rank=0
    echo "$rank $have $name"
  done | sort -k1,1n -k2,2Vr | cut -d' ' -f3
}

if command -v rustup >/dev/null; then
  while read -r name; do
    if [ -n "$name" ] && have=$(version "$name") && meets "$have"; then
      echo "$name"
      exit
    fi
  done < <(candidates)
  found="installed: $(rustup toolchain list | tr '\n' ' ')"
elif command -v rustc >/dev/null; then
  have=$(version '')
  if meets "$have"; then
    echo
    exit
  fi
  found="found: rustc $have"
else
  found='no Rust found'
fi
echo "payment_idem needs Rust $need or newer ($found). With rustup: rustup toolchain install stable" >&2
exit 1
