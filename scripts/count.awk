# Adds up what test runners say at their ends, each in its own words; prints "PASSED FAILED".
# Whatever did not run (skipped, ignored, expected to fail) counts as failed: it proved nothing.

{ gsub(/\033\[[0-9;]*m/, "") }

# pytest: "== 1 failed, 2 passed in 0.3s =="; ours: "2 passed, 1 failed"; cargo: "test result: ok. 2 passed; 0 failed; ..."
/^(=+ )?[0-9]+ (passed|failed|errors?|skipped|deselected|xfailed|xpassed)([ ,]|$)/ || /^test result: / {
  for (i = 2; i <= NF; i++) {
    if ($i ~ /^passed/) passed += $(i - 1)
    else if ($i ~ /^(failed|error|skipped|ignored|xfailed|xpassed)/) failed += $(i - 1)
  }
}

# pg_regress: "All 7 tests passed." or "2 of 7 tests failed."; from PostgreSQL 16 on with "# " before it
/^[# ]*All [0-9]+ tests? passed/ { passed += number(1) }
/^[# ]*[0-9]+ of [0-9]+ tests? (passed|failed)/ {
  if (/tests? passed/) { passed += number(1); failed += number(2) - number(1) }
  else { failed += number(1); passed += number(2) - number(1) }
}

END { print passed + 0, failed + 0 }

function number(which,    words) { # the first or second number of the line
  split($0, words, /[^0-9]+/)
  return words[words[1] == "" ? which + 1 : which]
}
