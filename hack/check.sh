#!/usr/bin/env bash
# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0
#
# What `make check` runs. Every check prints one line. A check that fails prints its output as well, the others still run, and the
# last lines name all that failed (_artifacts/check/failed holds them, each with its first lines). A check that could not run is no
# success: it prints "skip" and why, and the last line names it. With CHECK_NOTHING_SKIPPED=1 it is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skipped=() failed=()
readonly not_made=77 why=_artifacts/check/failed
mkdir -p "$(dirname "$why")"
: >"$why"

step() { # step NAME COMMAND...: a command that could not run its check returns 77, and its last line says why
  local name="$1" start=$SECONDS log code
  shift
  log="$(mktemp)"
  # In a condition, or before "||", the shell would continue after a command that fails in a function.
  set +e
  (set -e; "$@") >"$log" 2>&1
  code=$?
  set -e
  if [ "$code" = 0 ]; then
    echo "ok    $name ($((SECONDS - start)) s)"
  elif [ "$code" = "$not_made" ] && [ -z "${CHECK_NOTHING_SKIPPED:-}" ]; then
    echo "skip  $name: $(tail -n 1 "$log")"
    skipped+=("$name")
  else
    echo "FAIL  $name"
    cat "$log"
    failed+=("$name")
    echo "$name: $(head -n 5 "$log" | tr '\n' ' ' | cut -c 1-400)" >>"$why"
  fi
  rm -f "$log"
}

headers() { # every source file names its licence
  local file bad=0
  while IFS= read -r file; do
    head -n 5 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || { echo "no SPDX header: $file"; bad=1; }
  done < <(git ls-files --cached --others --exclude-standard -- '*.go' '*.sh' Makefile .ci/run)
  return "$bad"
}

formatted() {
  local files
  files="$(git ls-files --cached --others --exclude-standard -- '*.go' | xargs gofmt -l)"
  [ -z "$files" ] || { echo "not formatted (run gofmt -w):"; echo "$files"; return 1; }
}

module_files() { # the pins of the gardener modules agree, and go.mod needs no change
  local main apis
  main="$(go list -m -f '{{.Version}}' github.com/gardener/gardener)"
  apis="$(go list -m -f '{{.Version}}' github.com/gardener/gardener/pkg/apis)"
  [ "$main" = "$apis" ] || { echo "github.com/gardener/gardener is $main, its pkg/apis $apis: pin both to one version"; return 1; }
  go mod tidy -diff
}

words() { # documents and code name no registry host and no path of one machine
  ! git grep -nIE 'proxy\.golang\.org|registry\.npmjs|deb\.debian\.org|(^|[^.[:alnum:]])/work/' -- . ':!hack/check.sh' ':!go.sum' ':!**/go.sum'
}

rules() { # the alerts of the charts fire when they should, and not otherwise
  hack/build-tools.sh promtool >/dev/null
  local promtool
  promtool="$(hack/build-tools.sh --path promtool)/promtool"
  "$promtool" check rules charts/*/monitoring/rules.yaml
  "$promtool" test rules charts/testdata/*-rules.test.yaml
}

vulnerabilities() { # what is shipped calls no code of a dependency that is known to be vulnerable
  hack/build-tools.sh govulncheck >/dev/null
  local govulncheck database
  govulncheck="$(hack/build-tools.sh --path govulncheck)/govulncheck"
  database="${GOVULNDB:-https://vuln.go.dev}"
  # If the database answers, this prints when it was last changed.
  if ! "$govulncheck" -version -db "$database" | grep '^DB updated:'; then
    echo "the vulnerability database $database does not answer (set GOVULNDB to another one; file:///folder works too)"
    return "$not_made"
  fi
  "$govulncheck" -db "$database" ./cmd/...
}

licences() { # what is shipped contains only code under permitted licences, and the list is up to date
  go run -C hack/licences . -check
}

lint() { # go vet is one of the linters; by itself it would analyse everything a second time
  hack/build-tools.sh golangci-lint >/dev/null
  local linter found module
  linter="$(hack/build-tools.sh --path golangci-lint)/golangci-lint"
  # The rules for the shape of functions find what is planted.
  found="$("$linter" run --enable-only funlen,revive --output.text.print-issued-lines=false ./hack/golangci/testdata/planted |
    grep -c '^hack/golangci/' || true)"
  [ "$found" = 3 ] || { echo "of 3 faults in hack/golangci/testdata/planted $found were found"; return 1; }
  "$linter" run ./...
  # What is in modules of its own has the same shape.
  for module in hack/licences test/standins/etcdwrapper; do
    (cd "$module" && GONOSUMDB='go.etcd.io/etcd/*' "$linter" run --enable-only funlen,lll,revive ./...)
  done
}

prose() { # pages and what the plugin prints say it in plain English (docs/glossary.md)
  hack/build-tools.sh vale >/dev/null
  local vale rules found
  vale="$(hack/build-tools.sh --path vale)/vale"
  # The linter must find what is planted: one item for each rule.
  rules="$(grep -c '^- ' hack/vale/planted.md)"
  [ "$rules" = "$(sed '1,/^swap:/d' hack/vale/styles/livecpm/Calques.yml | grep -c .)" ] || {
    echo "hack/vale/planted.md has $rules items, and Calques.yml has another number of rules: plant one for each"; return 1; }
  found="$("$vale" --config hack/vale/vale.ini --output line hack/vale/planted.md | cut -d: -f2 | sort -u | wc -l || true)"
  [ "$found" = "$rules" ] || { echo "of $rules items in hack/vale/planted.md $found were found"; return 1; }
  git ls-files --cached --others --exclude-standard -- '*.md' '*/testdata/golden/*.txt' | grep -v -e '^hack/vale/' -e '^docs/glossary.md$' \
    -e '^docs/licences.md$' | xargs "$vale" --config hack/vale/vale.ini --output line
}

line_lengths() { # of pages; the linters measure Go
  local bad
  # Tables, headings, links by themselves, and code are as long as they have to be.
  bad="$(git ls-files --cached --others --exclude-standard -- '*.md' | grep -v -e '^docs/licences.md$' -e '^docs/benchmarks.md$' -e fault-matrix/README.md -e /testdata/ | LC_ALL=C xargs awk '
    FNR == 1 { code = 0 }
    /^ *(```|~~~)/ { code = !code; next }
    { line = $0; gsub(/[\200-\277]/, "", line) } # a character counts once, however many bytes it has
    !code && length(line) > 120 && !/^ *\|/ && !/^#/ && !/^!\[/ && !/^ *<!--/ { print FILENAME ":" FNR }')"
  [ -z "$bad" ] || { echo "lines of more than 120 columns:"; echo "$bad"; return 1; }
}

fault_matrix() { # the page of the fault matrix says what its data say, and shows nothing as fresh that the code has made stale
  go run ./test/robustness/cmd/matrix --check
}

setup() { # a machine with only Debian's smallest set of packages, make and Go gets all it needs from the two commands
  hack/fresh-machine.sh setup
}

step "licence headers" headers
step "gofmt" formatted
step "words" words
step "lines of pages" line_lengths
step "module files" module_files
step "import restrictions" hack/check-imports.sh
step "set-up in a minimal root" setup
step "charts and examples" go test -count=1 -vet=off ./charts/... ./hack/examples/...
step "fault matrix" fault_matrix
step "alerts" rules
step "licences" licences
step "prose" prose
step "vulnerabilities" vulnerabilities
step "go vet and other linters" lint
if [ "${#failed[@]}" -gt 0 ]; then
  printf 'check: failed: %s\n' "${failed[@]}"
  exit 1
elif [ "${#skipped[@]}" -gt 0 ]; then
  echo "check: passed, except for what could not be checked: ${skipped[*]}"
else
  echo "check: all passed"
fi
