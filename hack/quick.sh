#!/usr/bin/env bash
# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0
#
# The inner loop: what a change to a package must pass before make check and make test, which check everything. It runs formatting,
# linters (with go vet), import rules, and the unit tests with the race detector.
#
#   hack/quick.sh [PACKAGE...]   as ./pkg/etcd/quorum; without one: the packages that differ from origin/main, or main
#
# FOCUS=TEXT runs only the specs whose names match. Landscape and integration suites are vetted and not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# More packages than this take longer than a minute: use make check test for them.
readonly at_most="${QUICK_PACKAGES:-8}"
readonly suites='^\./test/(integration|suites)(/|$)'

changed() { # prints the packages whose Go files differ from the main branch, or are not committed
  local base=main folder
  if git rev-parse --verify --quiet origin/main >/dev/null; then base=origin/main; fi
  if git rev-parse --verify --quiet "$base" >/dev/null; then base="$(git merge-base "$base" HEAD)"; else base=HEAD; fi
  {
    git diff --name-only "$base" -- '*.go'
    git ls-files --others --exclude-standard -- '*.go'
  } | while IFS= read -r file; do dirname "$file"; done | sort -u | while IFS= read -r folder; do
    # A folder without files is no package any more. Other modules have their own tests.
    if compgen -G "$folder/*.go" >/dev/null && [ "$(go -C "$folder" list -m 2>/dev/null)" = "$(go list -m)" ]; then
      echo "./$folder"
    fi
  done
}

packages=("$@")
if [ "${#packages[@]}" = 0 ]; then mapfile -t packages < <(changed); fi
if [ "${#packages[@]}" = 0 ]; then
  echo "quick: no package differs from the main branch; name one, as in make quick PKG=./pkg/etcd/quorum"
  exit 0
fi
for package in "${packages[@]}"; do
  # The name of a package may end with /...
  if [ ! -d "${package%/...}" ]; then
    echo "quick: there is no folder ${package%/...}: name a package as in PKG=./pkg/etcd/quorum" >&2
    exit 2
  fi
done
if [ "${#packages[@]}" -gt "$at_most" ]; then
  echo "quick: ${#packages[@]} packages have changed, which takes longer than a minute: run make check test," >&2
  echo "       name some with PKG=, or set QUICK_PACKAGES=${#packages[@]}" >&2
  exit 2
fi

start=$SECONDS
folders=("${packages[@]%/...}")
unformatted="$(gofmt -l "${folders[@]}")"
if [ -n "$unformatted" ]; then
  echo "not formatted (run gofmt -w):"
  echo "$unformatted"
  exit 1
fi
hack/check-imports.sh
hack/build-tools.sh golangci-lint >/dev/null
"$(hack/build-tools.sh --path golangci-lint)/golangci-lint" run "${packages[@]}"

mapfile -t tested < <(printf '%s\n' "${packages[@]}" | grep -Ev "$suites" || true)
if [ "${#tested[@]}" -gt 0 ]; then
  focus=()
  if [ -n "${FOCUS:-}" ]; then focus=(-ginkgo.focus "$FOCUS"); fi
  CGO_ENABLED=1 go test -race -vet=off -timeout 5m "${tested[@]}" "${focus[@]}"
fi
echo "quick: passed after $((SECONDS - start)) s: ${packages[*]}"
