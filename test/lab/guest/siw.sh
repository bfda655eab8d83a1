# SPDX-License-Identifier: Apache-2.0
#
# Runs in the guest: two software iWARP devices, siw0 up, siw1 down.
# Tests run it again after they removed iw0 and iw1.
modprobe dummy numdummies=0
modprobe -a crc32c_generic siw
for i in 0 1; do
  ip link add iw$i address 02:00:00:00:09:0$i type dummy
  rdma link add siw$i type siw netdev iw$i
done
ip addr add 10.9.0.9/24 dev iw0
ip link set iw0 up
