#!/usr/bin/env bash
# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0

# Copies the output of the plugin that make test-e2e LABELS=cli recorded to docs/usage/recorded, and updates every block of
# the pages in docs/usage that quotes a file (the comment before it names the file).
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
recorded=_artifacts/cli

if [[ -d $recorded ]]; then
  mkdir -p docs/usage/recorded
  cp "$recorded"/*.txt docs/usage/recorded/
else
  echo "nothing is recorded in $recorded: run make test-e2e LABELS=cli. The page is updated from the files in docs/usage/recorded." >&2
fi

new=$(mktemp)
trap 'rm -f "$new"' EXIT
for page in docs/usage/*.md; do
  awk -v folder=docs/usage '
    function quote(file, line) {
      print "```"
      while ((status = (getline line < file)) > 0) print line
      if (status < 0) { print "cannot read " file > "/dev/stderr"; exit 1 }
      close(file)
      print "```"
    }
    /^<!-- [^ ]+ -->$/ { print; file = folder "/" $2; next }
    file != "" && /^```$/ { if (inside) { file = ""; inside = 0 } else { inside = 1; quote(file) }; next }
    !inside { print }
  ' "$page" >"$new"
  cat "$new" >"$page"
done
