#!/usr/bin/env bash
# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of a package so many times, as go test -exec 'hack/rounds.sh ROUNDS': the package is compiled once. Prints what a
# round that failed has printed, and fails if one did.
set -euo pipefail
rounds="$1" failed=0
shift
out="$(mktemp)"
trap 'rm -f "$out"' EXIT
for round in $(seq "$rounds"); do
  if "$@" >"$out" 2>&1; then continue; fi
  failed=$((failed + 1))
  echo "=== round $round of $rounds failed in $PWD"
  cat "$out"
done
echo "$((rounds - failed)) of $rounds rounds passed"
[ "$failed" = 0 ]
