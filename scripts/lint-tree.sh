#!/usr/bin/env bash
# Rules about what may stand where, each one a promise of docs/ARCHITECTURE.md that no compiler checks.
# shellcheck source=scripts/env.sh
. "$(dirname "$0")/env.sh"
use_rust

# What is, or is about to be, in the repository, below the given folders.
tree() {
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
    [ ! -f "$file" ] || printf '%s\n' "$file"
  done
}

# none PATTERN [FOLDER...]: no line of the tree matches; those that do are shown. Nothing to look through is a failure.
none() {
  local pattern=$1 files status=0
  shift
  mapfile -t files < <(tree "$@")
  [ ${#files[@]} -gt 0 ] || return 1
  grep -nHIP -e "$pattern" -- "${files[@]}" || status=$?
  [ "$status" = 1 ]
}

domain_alone() { # neither its code nor its dependencies hold pgrx
  local all
  all=$(cargo tree --locked --no-default-features --edges all --prefix none) &&
    ! grep '^pgrx' <<<"$all" &&
    none '\bpgrx\s*::|\bextern crate pgrx|#\[pg_|feature\s*=\s*"(extension|pg)' src/domain
}

no_gateway_in_code() { # gateways are data ("generic" is an English word before it is a gateway)
  local names
  names=$(basename -s .json gateways/*.json | grep -vx generic | paste -sd'|')
  [ -n "$names" ] && none "(?i)\\b($names)\\b" src
}

no_machine_path() { # nobody's home or work folder
  none '(^|[^\w.$}/-])/(home|Users|root|work)/[\w.]'
}

no_weak_test() { # nothing ignored, skipped, expected to fail, or run alone
  none '#\[(cfg_attr\(.*)?ignore\b|\bpytest\.(mark\.)?(skip|xfail|importorskip)|\bunittest\.skip|\b(it|test|describe)\.(skip|only|todo)\b|@(Disabled|Ignore)\b|\bt\.Skip|^ignore:' \
    src tests
}

all_scheduled() { # all_scheduled SCHEDULE FILE...: a file that is in no schedule would never fail
  local schedule=$1
  shift
  diff <(basename -a "${@%.*}" | sort) <(sed -n 's/^test: *//p' "$schedule" | xargs -n1 | sort)
}

arrows_point_down() { # api -> flow -> store -> pg, and statements in the store only
  none 'crate::(api|flow|store)\b' src/pg && none 'crate::(api|flow)\b' src/store && none 'crate::api\b' src/flow &&
    none '\bstatement!\(' src/api src/flow
}

every_promise_named() { # the promises that have behaviour, each named in the comments of a test
  local promise
  for promise in P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11; do
    none "(--|#|//|\"\"\").*\b$promise\b" tests src/tests >/dev/null || continue
    echo "no test names promise $promise"
    return 1
  done
}

check 'the domain stands alone' domain_alone
check 'arrows point down' arrows_point_down
check 'every promise is named by a test' every_promise_named
check 'no gateway is named in code' no_gateway_in_code
check 'no path of a machine' no_machine_path
check 'no weakened test' no_weak_test
check 'every regression file is scheduled' all_scheduled tests/pg_regress/schedule tests/pg_regress/sql/*.sql
check 'every isolation spec is scheduled' all_scheduled tests/isolation/isolation_schedule tests/isolation/specs/*.spec
[ "$failed" = 0 ]
