#!/usr/bin/env bash
# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs make demo and make test as on a machine with only Debian's smallest set of packages, make and Go: in a root made by
# debootstrap, in its own mount and process namespaces, with empty caches. That shows which packages only developers have.
#
#   hack/fresh-machine.sh setup    only what both commands install, and whether it works
#   hack/fresh-machine.sh all      make demo, make test, make demo again (back), make landscape-down; or the targets that follow
#   hack/fresh-machine.sh ci       .ci/run
#
# FRESH=folder   where to make the root (default: a new folder below /var/tmp, which is removed at the end). A root that is there is
#                used again, with what its caches hold and with today's repository.
# KEEP=yes       keep the root
#
# It takes from this machine the Go installation, the configuration of Go and apt, and certificate authorities that were added by
# hand, because this machine reaches a mirror and a module proxy with them. It needs root and installs nothing outside of the new
# root: debootstrap is unpacked into the cache.
set -euo pipefail
repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly not_made=77 # the exit code for "could not run" (hack/check.sh)

cannot() { # cannot WHY: reports that the check could not run
  echo "$*"
  exit "$not_made"
}

debootstrap_folder() { # prints where debootstrap is unpacked
  local cache="${LIVECPM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/livecpm}/debootstrap" work
  if [ ! -e "$cache/usr/sbin/debootstrap" ]; then
    work="$(mktemp -d)"
    chmod 755 "$work"
    (
      cd "$work"
      apt-get download debootstrap >/dev/null 2>&1 || { apt-get update >/dev/null 2>&1 && apt-get download debootstrap >/dev/null 2>&1; }
    ) || { rm -rf "$work"; return 1; }
    mkdir -p "$work/unpacked" "$(dirname "$cache")"
    dpkg-deb -x "$work"/debootstrap_*.deb "$work/unpacked"
    rm -rf "$cache"
    mv "$work/unpacked" "$cache"
    rm -rf "$work"
  fi
  echo "$cache"
}

make_root() { # make_root FOLDER
  local root="$1" tools suite log
  tools="$(debootstrap_folder)" || cannot "debootstrap does not come from Debian's mirror"
  suite=stable
  if [ "$(. /etc/os-release && echo "${ID:-}")" = debian ]; then suite="$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")"; fi
  log="$(mktemp)"
  # Both commands are make targets, so make cannot install itself.
  if ! DEBOOTSTRAP_DIR="$tools/usr/share/debootstrap" "$tools/usr/sbin/debootstrap" --variant=minbase --include=make \
    "$suite" "$root" >"$log" 2>&1; then
    tail -n 5 "$log"
    rm -f "$log"
    cannot "debootstrap failed"
  fi
  rm -f "$log"
  # How this machine reaches mirror and proxy.
  cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  if [ -d /usr/local/share/ca-certificates ]; then
    mkdir -p "$root/usr/local/share"
    cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
  fi
  mkdir -p "$root/usr/local/go" "$root/root/.config/go" "$root/root/livecpm" "$root/old"
  local goenv
  goenv="$(cd / && go env GOENV)"
  if [ -e "$goenv" ]; then cp "$goenv" "$root/root/.config/go/env"; fi
}

copy_repository() { # copy_repository FOLDER: what is committed, with its history, and on top what is not committed yet
  git clone --quiet --no-hardlinks "$repo" "$1"
  (cd "$repo" && git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    if [ -e "$file" ]; then printf '%s\0' "$file"; fi
  done | tar --null -T - -cf -) | tar -C "$1" -xf -
}

# Runs a command in the root. It is process 1 there: when it ends, the kernel ends everything that it started.
inside() { # inside ROOT COMMAND
  local root="$1"
  # shellcheck disable=SC2016 # It is expanded inside.
  unshare --mount --pid --fork --kill-child=KILL --propagation private bash -euc '
    root="$1" go="$2"
    mount --bind "$root" "$root"
    mount --bind "$go" "$root/usr/local/go"
    mount -o remount,bind,ro "$root/usr/local/go"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    cd "$root"
    pivot_root . old
    umount -l /old
    cd /root/livecpm
    shift 2
    exec "$@"
  ' inside "$root" "$(cd / && GOTOOLCHAIN=local go env GOROOT)" \
    env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 ${GOPROXY:+GOPROXY="$GOPROXY"} ${REQUIREMENTS:+REQUIREMENTS="$REQUIREMENTS"} \
    PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    bash -euo pipefail -c "$2"
}

# Every program of the table in hack/setup.sh works.
readonly try='
export LIVECPM_SHOOT=workers
make --no-print-directory setup-landscape setup-test setup-check
for purpose in landscape test check; do
  hack/setup.sh --programs "$purpose"
done | sort -u | while read -r program package; do
  case "$program" in
  /*) [ -s "$program" ] ;;
  gcc) echo "#include <stdlib.h>
#include <pthread.h>
int main(void) { return 0; }" | gcc -x c - -pthread -o /tmp/tried && /tmp/tried ;;
  *) "$program" --version >/dev/null ;;
  esac || { echo "$program of package $package does not work"; exit 1; }
  echo "tried: $program ($package)"
done
hack/build-tools.sh --path etcd
# INSTALL=no fails if a package is missing. What it says of memory and disk is about the machine, not about the set-up.
again="$(INSTALL=no hack/setup.sh landscape 2>&1)" || { echo "a second look finds something missing: $again"; exit 1; }
'

# shellcheck disable=SC2016
readonly everything='
stamp() { while IFS= read -r line; do printf "%6d s  %s\n" "$SECONDS" "$line"; done; }
down() { make --no-print-directory landscape-down >/dev/null 2>&1 || true; }
trap down EXIT
part() { local begin=$SECONDS; echo "=== $*"; "$@" 2>&1 | stamp; echo "=== $*: 0 after $((SECONDS - begin)) s"; }
for target in $TARGETS; do part make --no-print-directory "$target"; done
trap - EXIT
du -sh /root/.cache/livecpm /root/.cache/go-build /root/go .landscape
'

[ "$(id -u)" = 0 ] || cannot "a root of its own needs root"
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || cannot "debootstrap needs apt, which this distribution does not have"
command -v wget >/dev/null || cannot "debootstrap needs wget"
case "${1:-}" in
setup) command="$try" REQUIREMENTS=warn ;;
all) command="TARGETS='${*:2}'; TARGETS=\"\${TARGETS:-demo test demo landscape-down}\"; $everything" ;;
ci) command='trap "make --no-print-directory landscape-down >/dev/null 2>&1 || true" EXIT; bash .ci/run' ;;
*)
  echo "usage: hack/fresh-machine.sh setup|all|ci" >&2
  exit 2
  ;;
esac

folder="${FRESH:-$(mktemp -d /var/tmp/livecpm-fresh-XXXXXX)}"
cleanup() { # the mounts are gone with their namespace
  if [ "${KEEP:-}" = yes ]; then echo "the root is kept in $folder"; else rm -rf --one-file-system "$folder"; fi
}
trap cleanup EXIT
mkdir -p "$folder"
chmod 755 "$folder"
if [ ! -d "$folder/root/livecpm" ]; then make_root "$folder"; fi
copy_repository "$folder/root/livecpm.copy"
rm -rf --one-file-system "$folder/root/livecpm"
mv "$folder/root/livecpm.copy" "$folder/root/livecpm"
code=0
inside "$folder" "$command" || code=$?
exit "$code"
