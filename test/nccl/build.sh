#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh DEV OUT VERSION: links NCCL's objects in DEV, libnccl-dev unpacked, with the stand-ins in rig/ into
# OUT/lib/libnccl.so.VERSION and OUT/rank. Where they do not fit it prints one line that says why and ends with status 77.
set -euo pipefail
dev=$1 out=$2 version=$3
src=$(dirname "$(readlink -f "$0")")/rig
lib=$out/lib/libnccl.so.$version
mkdir -p "$out/lib"
gcc -O1 -fPIC -Wall -c -o "$out/cudart.o" "$src/cudart.c"
gcc -O1 -fPIC -Wall -c -o "$out/isoc23.o" "$src/isoc23.c"

# binutils 2.40 makes a call of a push of the address of a function, and NET/IB crashes: --no-relax.
g++ -shared -static-libstdc++ -static-libgcc -o "$lib" -Wl,-soname,libnccl.so.2 -Wl,--no-relax -Wl,--version-script="$src/exports.map" "$out/cudart.o" \
  "$out/isoc23.o" -Wl,--whole-archive "$dev"/usr/lib/*/libnccl_static.a -Wl,--no-whole-archive -Wl,-z,defs -lpthread -ldl -lrt \
  2>"$out/log" || {
  echo "skipped: libnccl_static.a does not link with the stand-ins: $(grep -m 1 -o -e 'undefined reference.*' -e 'error.*' "$out/log" \
    || tail -n 1 "$out/log")"
  exit 77
}
ln -sf "libnccl.so.$version" "$out/lib/libnccl.so.2"
gcc -O1 -shared -fPIC -Wall -Wl,-soname,libnvidia-ml.so.1 -o "$out/lib/libnvidia-ml.so.1" "$src/nvml.c"
gcc -O1 -Wall -I "$dev/usr/include" -I "$src/include" -o "$out/rank" "$src/rank.c" "$out/lib/libnccl.so.2" \
  -Wl,-rpath,'$ORIGIN/lib'

# The code of kernels, which are not run, becomes a hole in the file: 225 MB of which 3 are on the disk.
readelf -SW "$lib" | sed 's/^ *\[ *[0-9]*\]//' | while read -r name _ _ offset size _; do
  case $name in
  .nv_fatbin | __nv_relfatbin) fallocate -p -o $((0x$offset)) -l $((0x$size)) "$lib" 2>/dev/null || true ;;
  esac
done
