#!/usr/bin/env bash
# Starts a throwaway cluster with the extension in it and runs the guided tour, tests/demo/demo.py.
# KEEP=1 leaves the cluster running to look around in.
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
use_postgres

finish() {
  [ "${KEEP:-}" = 1 ] || scripts/cluster.sh drop demo
}
trap finish EXIT
trap 'exit 130' INT TERM

scripts/cluster.sh start demo
variables=$(scripts/cluster.sh env demo payment_idem_demo)
eval "$variables"
"$VENV/bin/python" tests/demo/demo.py "$@"
if [ "${KEEP:-}" = 1 ]; then
  say
  say "The cluster is still running:"
  say "  look around   scripts/cluster.sh psql demo payment_idem_demo"
  say "  from a client $(scripts/cluster.sh url demo payment_idem_demo)"
  say "  remove it     scripts/cluster.sh drop demo"
fi
