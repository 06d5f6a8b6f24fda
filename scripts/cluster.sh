#!/usr/bin/env bash
# Throwaway PostgreSQL clusters below build/clusters, on a Unix socket and loopback TCP.
#
#   cluster.sh start NAME [setting=value...]   make it if need be, (re)start it when it is down or its settings differ
#   cluster.sh stop NAME                       stop it; data and log stay
#   cluster.sh drop NAME                       stop it and remove its data; the log stays in build/log
#   cluster.sh env NAME [DATABASE]             export lines for a shell: eval "$(scripts/cluster.sh env NAME)"
#   cluster.sh url NAME [DATABASE]             the same as a URL, over TCP
#   cluster.sh fresh NAME DATABASE             an empty database with the extension in it
#   cluster.sh psql NAME [ARGUMENT...]
#   cluster.sh list
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"

usage() { sed -n '2,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

control() { as_server "$PG_BIN/pg_ctl" -D "$home/data" -w -t 60 -s "$@"; }
running() { [ -d "$home/data" ] && control status >/dev/null; }

# A port that is free now: the wanted one when it is.
free_port() {
  python3 - "$1" <<'PY'
import socket, sys
for port in (int(sys.argv[1]), 0):
    try:
        with socket.socket() as s:
            s.bind(("127.0.0.1", port))
            print(s.getsockname()[1])
            break
    except OSError:
        pass
PY
}

settings() { # PORT [setting=value...]
  local port=$1 pair value
  shift
  # fsync off: these clusters lose power never; a killed server loses nothing by it.
  for pair in port="$port" listen_addresses=127.0.0.1 unix_socket_directories="$home" max_connections=200 \
    fsync=off timezone=UTC lc_messages=C log_line_prefix='%m [%p] %u@%d ' "$@"; do
    value=${pair#*=}
    printf "%s = '%s'\n" "${pair%%=*}" "${value//\'/\'\'}"
  done
}

make_data() {
  # initdb into another name first: one that was interrupted leaves no half-made cluster behind.
  rm -rf "$home/data.new"
  as_server "$PG_BIN/initdb" -D "$home/data.new" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$log" 2>&1 ||
    { cat "$log" >&2; die "initdb failed"; }
  echo "include '../cluster.conf'" >>"$home/data.new/postgresql.conf"
  mv "$home/data.new" "$home/data"
}

start() {
  local port try
  [ -d "$home/data" ] || make_data
  port=$(sed -n "s/^port = '\([0-9]*\)'/\1/p" "$home/cluster.conf" 2>/dev/null || true)
  port=${port:-0}
  if running; then
    [ "$(settings "$port" "$@")" != "$(cat "$home/cluster.conf")" ] || return 0
    control stop -m fast
  fi
  for try in 1 2 3; do # between finding a free port and binding it, somebody else may take it
    port=$(free_port "$port")
    settings "$port" "$@" >"$home/cluster.conf"
    chmod 644 "$home/cluster.conf"
    # Its output goes to the log alone: a server that kept our stdout would keep a pipe of ours open for ever.
    ! control start -l "$home/server.log" >/dev/null 2>&1 </dev/null || return 0
    sleep "$try"
  done
  tail -n 20 "$home/server.log" >&2
  die "cluster $name does not start"
}

stop() { ! running || control stop -m fast; }

drop() {
  ! running || control stop -m immediate
  [ ! -f "$home/server.log" ] || { mkdir -p "$BUILD/log" && cp "$home/server.log" "$BUILD/log/cluster-$name.log"; }
  rm -rf "$home" "$BUILD/clusters/$name" # where it lies, and the link to it
}

environment() { # [DATABASE]
  local port
  port=$(sed -n "s/^port = '\([0-9]*\)'/\1/p" "$home/cluster.conf" 2>/dev/null) || die "no cluster $name: start it first"
  printf 'export %s\n' "PGHOST='$home'" "PGPORT=$port" PGUSER=postgres "PGDATABASE=${1:-postgres}" \
    "PAYMENT_IDEM_TCP_PORT=$port"
}

fresh() { # DATABASE
  eval "$(environment)"
  "$PG_BIN/psql" -XqAt -v ON_ERROR_STOP=1 -c 'SET client_min_messages = warning' \
    -c "DROP DATABASE IF EXISTS $1 WITH (FORCE)" -c "CREATE DATABASE $1" -c "\\connect $1" \
    -c 'CREATE EXTENSION payment_idem' >/dev/null
}

command=${1:-}
name=${2:-}
shift $(($# < 2 ? $# : 2))
if [ "$command" = list ]; then
  ls "$BUILD/clusters" 2>/dev/null || true
  exit
fi
[[ $name =~ ^[a-z][a-z0-9_-]*$ ]] || usage
use_postgres
if [ "$command" = start ]; then home=$(server_dir "clusters/$name"); else
  home=$(cd -P "$BUILD/clusters/$name" 2>/dev/null && pwd) || {
    [[ $command != stop && $command != drop ]] || exit 0 # nothing there, nothing to do
    die "no cluster $name: start it first"
  }
fi
log=$home/initdb.log

case $command in
  start) start "$@" ;;
  stop) stop ;;
  drop) drop ;;
  env) environment "$@" ;;
  url)
    eval "$(environment "$@")"
    echo "postgresql://$PGUSER@127.0.0.1:$PGPORT/$PGDATABASE"
    ;;
  fresh) fresh "$@" ;;
  psql)
    eval "$(environment)"
    exec "$PG_BIN/psql" "$@"
    ;;
  *) usage ;;
esac
