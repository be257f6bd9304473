#!/usr/bin/env bash
# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command while an endless loop keeps each processor busy: hack/busy.sh COMMAND [ARGUMENT...]
set -euo pipefail
loops=()
quiet() { kill "${loops[@]}" 2>/dev/null || true; }
trap quiet EXIT
for _ in $(seq "$(nproc)"); do
  while :; do :; done &
  loops+=("$!")
done
"$@"
