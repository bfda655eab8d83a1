# SPDX-License-Identifier: Apache-2.0
#
# Runs in the guest: a fakehca device on each Ethernet controller, with addresses and RoCE settings. The last
# one has an InfiniBand port. Tests run it again after rmmod.
modprobe -r fakehca
modprobe -a 8021q nvidia_peermem
cd /sys/bus/pci/devices
pci=$(grep -l 0x020000 0000:[!0]?:*/class 0000:00:*/class | cut -d/ -f1 | paste -sd,)
modprobe fakehca pci=$pci infiniband=5
for dir in /sys/class/net/hca*; do
  dev=${dir##*/} i=${dir##*hca}
  sysctl -q net.ipv6.conf.$dev.accept_dad=0
  ip link set $dev mtu 9000 up
  ip addr add 192.168.$i.1/24 dev $dev
  ip addr add fd00:$i::1/64 dev $dev nodad
  ip link add link $dev name $dev.7 type vlan id 7
  ip link set $dev.7 up
  ip addr add 192.168.10$i.1/24 dev $dev.7
  # dcb numbers its messages by the second, and takes the end of its first answer for a broken second one
  # when the second has changed in between.
  dcb pfc set dev $dev prio-pfc all:off 3:on || dcb pfc set dev $dev prio-pfc all:off 3:on
  dcb app replace dev $dev dscp-prio 26:3 || dcb app replace dev $dev dscp-prio 26:3
done
