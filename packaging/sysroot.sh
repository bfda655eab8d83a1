#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sysroot.sh ARCH DIR writes to DIR the headers and libraries of glibc 2.27 (Ubuntu 18.04) for amd64 or arm64. A program that is
# compiled and linked against them runs with every later glibc: 2.28 of RHEL 8, 2.31 of Ubuntu 20.04. It downloads 6 MB, by
# checksum, from MIRROR. Needed: curl, dpkg-deb.
set -euo pipefail

MIRROR=${MIRROR:-http://archive.ubuntu.com/ubuntu}
arch=$1 dir=$2

case $arch in
amd64)
	packages='
5b813d4512491cd8fb30b2eb9192349ee75ffe3c9f21ae136cc7b2429f70c3b2 pool/main/g/glibc/libc6_2.27-3ubuntu1.6_amd64.deb
96ae7d2cf38f0547ca3cccb3344c8802fdf5bcd71c4b6d9aed09558ac8cc87db pool/main/g/glibc/libc6-dev_2.27-3ubuntu1.6_amd64.deb
06d9f16644d3a1b2ab7dd01730e833d516b6f575d975855f496eea6463fef2f6 pool/main/l/linux/linux-libc-dev_4.15.0-213.224_amd64.deb'
	;;
arm64) # Ubuntu's packages for cross compilers: everything is below /usr/aarch64-linux-gnu
	packages='
1803c1170fb4f01bb3b0fd8ea22906fc33fee2c0363db53aa2dc2d4e5ed36232 pool/main/c/cross-toolchain-base/libc6-arm64-cross_2.27-3ubuntu1cross1.1_all.deb
2c3c7cc36f92203f553fe658834aa3669e3453c4db97a1b9f4ad0a1ae8689707 pool/main/c/cross-toolchain-base/libc6-dev-arm64-cross_2.27-3ubuntu1cross1.1_all.deb
e4463e6338b99f612e55ed775af220bc82dcb581ce283b01448a51998c1d0cd9 pool/main/c/cross-toolchain-base/linux-libc-dev-arm64-cross_4.15.0-35.38cross1.1_all.deb'
	;;
*)
	echo "sysroot.sh: architecture $arch: expected amd64 or arm64" >&2
	exit 1
	;;
esac

new=$dir.new.$$
trap 'rm -rf "$new"' EXIT
mkdir -p "$new"
while read -r sum path; do
	[ -n "$sum" ] || continue
	curl -fsSL --retry 3 -o "$new/package.deb" "$MIRROR/$path" || { echo "sysroot.sh: $MIRROR/$path could not be downloaded: set MIRROR to a mirror of Ubuntu" >&2; exit 1; }
	echo "$sum  $new/package.deb" | sha256sum --check --quiet || { echo "sysroot.sh: $MIRROR/$path is not the file that is expected" >&2; exit 1; }
	dpkg-deb -x "$new/package.deb" "$new"
done <<<"$packages"
rm "$new/package.deb"

if [ "$arch" = arm64 ]; then
	# As on a machine of that architecture, which is where a compiler looks in a sysroot.
	mv "$new/usr/aarch64-linux-gnu" "$new/flat"
	rm -r "$new/usr"
	mkdir "$new/usr"
	mv "$new/flat/include" "$new/usr/include"
	mv "$new/flat/lib" "$new/lib"
	rmdir "$new/flat"
	ln -s ../lib "$new/usr/lib"
	sed -i 's#/usr/aarch64-linux-gnu/lib/#/lib/#g' "$new/lib/libc.so" "$new/lib/libpthread.so" # scripts of the linker
fi
# Absolute links would lead to the libraries of this machine.
find "$new" -lname '/*' | while read -r link; do ln -srf "$new$(readlink "$link")" "$link"; done
rm -rf "$dir"
mv "$new" "$dir"
