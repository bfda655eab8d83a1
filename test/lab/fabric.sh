# SPDX-License-Identifier: Apache-2.0
#
# Sourced by run.sh instead of machine.sh: a machine for guest/ping.sh. Its clock counts instructions, two for a nanosecond: however
# busy the host is, nothing in the guest comes too late, and seconds are those of the guest.
devices=ping
machine=(-M q35 -cpu max -smp 1 -m 2048)
accelerator=(-accel tcg,thread=single -icount shift=0,sleep=off)
