#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command in a fresh guest with the devices of guest/*.sh; its output and exit status come back.
#   run.sh FOLDER COMMAND [ARG...]
# FOLDER is /job in the guest and the working directory of COMMAND: what it needs is there before, what it
# writes is there afterwards, beside console, dmesg and setup.log. Status 125: the guest did not finish.
set -euo pipefail
LAB=${LAB:-${XDG_CACHE_HOME:-$HOME/.cache}/gpufabric-lab}
here=$(dirname "$(readlink -f "$0")")
job=$(readlink -f "$1"); shift
chmod 755 "$job"   # not only root looks into it
cp "$here"/guest/*.sh "$job"
devices='rxe siw fakehca'
# Plain emulation: it needs no /dev/kvm.
accelerator=(-accel tcg,thread=multi)
. "$here/${MACHINE:-machine}.sh"
{ echo "for devices in $devices"'; do sh -ex ./$devices.sh >>setup.log 2>&1 || exit; done'
  printf '%q ' "$@"; echo; } >"$job/command"
rm -f "$job"/{status,dmesg,setup.log}; : >"$job/output"

host=$LAB/host
export QEMU_MODULE_DIR=$host/usr/lib/x86_64-linux-gnu/qemu
timeout -k 5 "${TIMEOUT:-1260}" "$host"/lib64/ld-linux-x86-64.so.2 \
  --library-path "$host/lib/x86_64-linux-gnu:$host/usr/lib/x86_64-linux-gnu" "$host"/usr/bin/qemu-system-x86_64 \
  -L "$host"/usr/share/qemu -L "$host"/usr/share/seabios -L "$host"/usr/lib/ipxe/qemu \
  "${accelerator[@]}" "${machine[@]}" -nodefaults -display none -no-reboot -serial "file:$job/console" -device isa-debug-exit,iobase=244 \
  -kernel "$LAB/kernel/${KERNEL:-vmlinux}" -initrd "$LAB/initrd/initrd.cpio" \
  -append "console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off tsc=reliable no_timer_check" \
  -fsdev "local,id=job,path=$job,security_model=none" -device virtio-9p-pci,bus=pcie.0,fsdev=job,mount_tag=job \
  </dev/null >"$job/qemu.log" 2>&1 &
qemu=$!
tail -f -n +1 --pid=$qemu "$job/output" &   # follows the command
wait $qemu || true
wait $!
if [ ! -s "$job/status" ]; then
  echo "lab: the guest did not finish; its console, set-up and QEMU said:" >&2
  tail -n 30 "$job"/{console,setup.log,qemu.log} >&2 || true
  exit 125
fi
exit "$(cat "$job/status")"
