# SPDX-License-Identifier: Apache-2.0
#
# Runs in the guest: a veth pair rdma0 <-> rdma1 with IPv4, IPv6 and a VLAN, a Soft-RoCE device on each end.
# Tests run it again after they removed rdma0.
modprobe -a veth 8021q rdma_rxe
sysctl -q net.ipv6.conf.all.keep_addr_on_down=1
ip link add rdma0 type veth peer name rdma1
for i in 0 1; do
  ip link set rdma$i address 02:00:00:00:08:0$i mtu 4200
  sysctl -q net.ipv6.conf.rdma$i.accept_dad=0
  ip link set rdma$i up
  ip addr add 10.0.0.1$i/24 dev rdma$i
  ip addr add fd00::1$i/64 dev rdma$i nodad
  ip link add link rdma$i name rdma$i.100 type vlan id 100
  ip link set rdma$i.100 up
  ip addr add 10.0.100.1$i/24 dev rdma$i.100
  rdma link add rxe$i type rxe netdev rdma$i
done
