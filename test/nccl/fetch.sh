#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fetch.sh SUITE [nccl|driver]: prints a folder with Debian's libnccl-dev of that suite, or with the libraries of NVIDIA's
# driver, unpacked, and the version. Packages are kept in a cache folder and fetched again when the suite has another version.
# apt checks their signatures; nothing is installed and root is not needed. Where they cannot be had it prints one line that
# says why and ends with status 77.
#   RIG_CACHE   the cache folder
#   RIG_MIRROR  the mirror of Debian; default: that of this system
set -euo pipefail
suite=$1
libraries() { ls "$1"/usr/lib/*/libnccl_static.a "$1"/usr/include/nccl.h; }
component=contrib packages=(libnccl-dev) layout="no nccl.h or libnccl_static.a"
if [ "${2:-nccl}" = driver ]; then
  libraries() { ls "$1"/usr/lib/*/nvidia/current/lib{nvidia-ml,cuda}.so.1; }
  component=non-free packages=(libnvidia-ml1 libcuda1) layout="no libnvidia-ml.so.1 or libcuda.so.1"
fi
package=${packages[0]}
cache=${RIG_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpufabric-nccl}/$suite${2:+-$2}
keys=/usr/share/keyrings/debian-archive-keyring.gpg
skip() { echo "skipped: $*"; exit 77; }
complete() { [ -s "$cache/version" ] && libraries "$cache" >/dev/null 2>&1; }
give() { echo "$cache $(cat "$cache/version")"; exit; }

command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "no apt-get here to fetch Debian's $package with"
[ -e "$keys" ] || skip "no keys of Debian here ($keys) to check $package with"
mirror=${RIG_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep -m 1 '/debian/*$' || true)}
[ -n "$mirror" ] || skip "no mirror of Debian among the sources of this system"

apt=$cache.apt
mkdir -p "$apt/lists/partial" "$apt/archives/partial"; : >"$apt/status"
echo "deb [signed-by=$keys] $mirror $suite $component" >"$apt/sources.list"
apt() {
  "$1" -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$apt" \
    -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o APT::Get::AllowUnauthenticated=false -o Acquire::AllowInsecureRepositories=false \
    -o Acquire::Languages=none -o Acquire::Retries=2 "${@:2}" 2>"$apt/log"
}
why() { grep -m 1 -e '^W: GPG' -e 'Failed to fetch' -e '^E:' "$apt/log" || echo failed; }

# apt-get update succeeds with a warning where it keeps old lists.
if ! apt apt-get update || grep -q '^[WE]:' "$apt/log"; then
  ! complete || { echo "nccl: $suite as it was fetched before: $(why)" >&2; give; }
  skip "apt-get update: $(why)"
fi
version=$(apt apt-cache show --no-all-versions "$package" | sed -n 's/^Version: //p') || true
[ -n "$version" ] || skip "Debian $suite has no $package"
! complete || [ "$(cat "$cache/version")" != "$version" ] || give

rm -rf "$cache.new"; mkdir "$cache.new"; cd "$cache.new"
apt apt-get download "${packages[@]}" || skip "apt-get download: $(why)"
for file in *.deb; do dpkg -x "$file" . 2>/dev/null || skip "$package $version is damaged"; done
rm -f ./*.deb
libraries . >/dev/null 2>&1 || skip "$package $version has another layout: $layout"
echo "$version" >version
rm -rf "$cache"; mv "$cache.new" "$cache"
give
