#!/usr/bin/env bash
# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints a folder for KUBEBUILDER_ASSETS: links to the kube-apiserver and etcd that hack/build-tools.sh builds.
# Builds them first if they are missing; the build prints to stderr.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
"$here/build-tools.sh" etcd kubernetes >&2
etcd="$("$here/build-tools.sh" --path etcd)"
kubernetes="$("$here/build-tools.sh" --path kubernetes)"

# The name has both versions, so that a version bump leaves no stale links.
assets="$(dirname "$etcd")/envtest-$(basename "$kubernetes")-$(basename "$etcd")"
mkdir -p "$assets"
for binary in "$kubernetes/kube-apiserver" "$etcd/etcd"; do
  ln -sfn "$binary" "$assets/$(basename "$binary")"
done
echo "$assets"
