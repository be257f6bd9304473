#!/usr/bin/env bash
# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target of the repository, one after the other, each for FUZZTIME (1m by default). FUZZ, a pattern as for
# grep -E, chooses some. An input that fails is kept in the package's testdata/fuzz, and every run of the tests tries it again:
# commit it together with the fix. Inputs that only widened the coverage stay in Go's cache.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

time="${FUZZTIME:-1m}"
found=0
while IFS=: read -r file target; do
  [[ "$target" =~ ${FUZZ:-.} ]] || continue
  found=$((found + 1))
  echo "=== $target in ./$(dirname "$file") for $time"
  # The coverage of code with goroutines differs from run to run, so minimizing without a limit would use up the time.
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x "./$(dirname "$file")"
done < <(git ls-files --cached --others --exclude-standard -- '*_test.go' | xargs grep -oE '^func Fuzz[A-Za-z0-9]+' | sed 's/:func /:/' | sort)
[ "$found" -gt 0 ] || { echo "fuzz: no target matches \"${FUZZ:-}\"" >&2; exit 1; }
echo "fuzz: $found targets, nothing found"
