#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the kernel lab in $LAB from Debian packages only: nothing is installed and root is not needed.
# Result: $LAB/host (QEMU), $LAB/kernel (vmlinux), $LAB/initrd (initrd.cpio).
# Where the packages cannot be had it prints one line that says why and ends with status 77.
set -eEuo pipefail
trap 'echo "lab: set-up failed at line $LINENO: $BASH_COMMAND" >&2' ERR
LAB=${LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/gpufabric-lab}
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$LAB"
exec 3>&1
skip() { echo "lab: skipped: $*" >&3; exit 77; }

# stage NAME FILE...: has build_NAME fill the folder $LAB/NAME, once for each content of that function and of
# the FILEs; the .key of a stage is a FILE of those that build on it. The folder gets its name when it is
# complete: what an interrupted set-up left is never taken for the lab.
stage() {
  local name=$1 key; shift
  key=$({ declare -f "build_$name" apt fetch unpack kbuild in_host; cat "$@"; } | sha256sum)
  [ "$(cat "$LAB/$name/.key" 2>/dev/null)" != "$key" ] || return 0
  rm -rf "$LAB/$name.new"; mkdir "$LAB/$name.new"; cd "$LAB/$name.new"
  "build_$name" "$@"
  echo "$key" >.key
  rm -rf "${LAB:?}/$name"; mv "$LAB/$name.new" "$LAB/$name"
}

# apt PROGRAM ARG...: apt-get or apt-cache with package lists of our own and the current folder for packages.
# The empty status file says that nothing is installed: even the C library is fetched.
apt() {
  "$1" -qq -y -o Dir::State="$LAB/apt" -o Dir::State::status="$LAB/apt/status" -o Dir::Cache="$PWD" \
    -o Dir::Cache::archives="$PWD" -o Debug::NoLocking=1 -o APT::Sandbox::User=root \
    -o APT::Install-Recommends=false -o Acquire::Languages=none -o Acquire::Retries=2 "${@:2}" \
    2>>"$LAB/apt/log" || skip "$1: $(grep -m 1 -e 'Failed to fetch' -e '^E:' "$LAB/apt/log")"
}

# fetch COMMAND PACKAGE...: "install" with all that the packages depend on, "download" without; into debs/
fetch() {
  mkdir -p debs/partial; cd debs
  if [ ! -e "$LAB/apt/status" ]; then
    mkdir -p "$LAB/apt/lists/partial"; apt apt-get update >&2; touch "$LAB/apt/status"
  fi
  apt apt-get --download-only "$@" >&2
  cd ..
}

unpack() { # debs/ into the current folder
  local deb
  for deb in debs/*.deb; do dpkg -x "$deb" .; done
  rm -r debs
}

kbuild() { # kbuild DIR [VAR=m]: the kernel modules whose source is in DIR
  make -s -C "$LAB"/kernel/headers M="$1" CC=gcc "${@:2}" modules 2>&1 | { grep -v 'Skipping BTF' >&2 || true; }
  strip -g "$1"/*.ko
}

in_host() { # in_host PROGRAM ARG...: a program of $LAB/host with the C library of that tree
  "$LAB"/host/lib64/ld-linux-x86-64.so.2 \
    --library-path "$LAB/host/lib/x86_64-linux-gnu:$LAB/host/usr/lib/x86_64-linux-gnu" "$LAB/host/$1" "${@:2}"
}

build_host() {
  fetch install qemu-system-x86 busybox-static kmod
  unpack
  ln -s kmod bin/depmod; ln -s kmod bin/modprobe
}

build_guest() {
  local unneeded='perl|libperl|debconf|dpkg_|tar_' deb
  fetch install busybox-static dash kmod iproute2 ethtool ibverbs-utils ibverbs-providers
  for deb in debs/*.deb; do [[ ! ${deb#debs/} =~ ^($unneeded) ]] || rm "$deb"; done
  unpack
  rm -rf usr/share usr/lib/x86_64-linux-gnu/{perl*,gconv}
  mkdir -p dev etc job proc root run sys tmp var
  ln -sf dash bin/sh; ln -sf ../proc/self/mounts etc/mtab
}

build_kernel() {
  local modules="aer_inject virtio_pci 9p 9pnet_virtio veth dummy 8021q bonding rdma_rxe tcp_diag crc32_generic libcrc32c crc32c_generic \
    bridge sch_netem sch_ingress cls_u32 act_gact"
  local image version common at m ko
  fetch download linux-image-amd64
  image=$(dpkg-deb -f debs/linux-image-amd64_*.deb Depends | grep -o '^linux-image-[^ ]*')
  version=${image#linux-image-}; common=linux-headers-${version%-amd64}-common
  [[ $version = 6.1.* ]] || skip "the kernel of this Debian is $version, fakehca and siw are built for 6.1"
  fetch download "$image" "linux-headers-$version" "$common" linux-kbuild-6.1
  unpack
  echo "$version" >version
  ln -s "usr/src/linux-headers-$version" headers
  echo "include ../$common/Makefile" >headers/Makefile

  # QEMU starts the ELF file inside the compressed image through PVH: emulated decompression takes 10 s.
  at=$(LC_ALL=C grep -abom 1 -P '\xfd7zXZ\x00' "boot/vmlinuz-$version" | cut -d: -f1)
  tail -c "+$((at + 1))" "boot/vmlinuz-$version" >vmlinux.xz
  xz -dc --single-stream vmlinux.xz >vmlinux; rm vmlinux.xz
  mv "boot/vmlinuz-$version" vmlinuz   # for what is suspended

  # Of 4,000 modules only those named above and those they need.
  in_host bin/depmod -b "$PWD" "$version"
  for m in $modules; do
    in_host bin/modprobe -d "$PWD" -S "$version" --show-depends "$m" | awk '/^insmod/ { print $2 }'
  done | sort -u >needed
  mkdir -p "root/lib/modules/$version"
  while read -r ko; do install -D -m 644 "$ko" "root/${ko#"$PWD/"}"; done <needed
  cp "lib/modules/$version"/modules.{builtin,builtin.modinfo,order} "root/lib/modules/$version"
  rm -rf boot lib; mv root/lib .
}

# siw is in the source of Debian's kernel, not in its packages: 14 of 80,000 files of a tar in a tar.
build_siw() {
  local dir=drivers/infiniband/sw/siw tar
  fetch download linux-source-6.1
  tar=$(dpkg-deb --fsys-tarfile debs/*.deb | tar -t | grep '\.tar\.xz$')
  dpkg-deb --fsys-tarfile debs/*.deb | tar -xO "$tar" | xz -T0 -dc | tar -x --strip-components=5 "linux-source-6.1/$dir"
  rm -r debs
  kbuild "$PWD" CONFIG_RDMA_SIW=m
}

build_fakehca() {
  cp "${@:2}" .
  kbuild "$PWD"
}

build_initrd() {
  local version; version=$(cat "$LAB/kernel/version")
  cp -a "$LAB/guest" root
  cp -a "$LAB/kernel/lib" root
  install -D -m 644 -t "root/lib/modules/$version/extra" "$LAB"/{siw,fakehca}/*.ko
  in_host bin/depmod -b "$PWD/root" "$version"
  install -m 755 "$here/guest/init" root/init
  (cd root && find . | "$LAB"/host/bin/busybox cpio -o -H newc -R 0:0 2>/dev/null) >initrd.cpio
  rm -r root
}

for tool in apt-get dpkg-deb flock gcc make xz; do
  command -v $tool >/dev/null || skip "no $tool on this machine"
done
[ "$(dpkg --print-architecture)" = amd64 ] || skip "the lab is for amd64"
mkdir -p "$LAB"; rm -rf "$LAB/apt"
stage host </dev/null
stage guest </dev/null
stage kernel "$LAB/host/.key"
stage siw "$LAB/kernel/.key"
stage fakehca "$LAB/kernel/.key" "$here"/fakehca/*
stage initrd "$LAB"/{host,guest,kernel,siw,fakehca}/.key "$here/guest/init"
rm -rf "$LAB/apt"
