#!/usr/bin/env bash
# Formatting, clippy with every warning an error (once as the domain alone, once as the extension), shellcheck,
# and the rules of the tree.
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
use_postgres
use_rust

check 'formatting' cargo fmt --check
for crate in tests/clients/rust tests/model fuzz fuzz/domain benches; do
  check "formatting, $crate" cargo fmt --check --manifest-path "$crate/Cargo.toml"
done
check 'clippy, domain alone' cargo clippy --locked --all-targets --no-default-features -- -D warnings
check "clippy, pg$PG_MAJOR" cargo clippy --locked --all-targets --no-default-features --features "pg$PG_MAJOR pg_test" -- -D warnings
check 'shellcheck' shellcheck -x scripts/*.sh .ci/run
check 'rules of the tree' scripts/lint-tree.sh
closing_line
