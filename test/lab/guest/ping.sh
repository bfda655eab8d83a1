# SPDX-License-Identifier: Apache-2.0
#
# Runs in the guest: eight nodes with two rails on three leaves and a spine, in one namespace. A rail is a veth pair with a
# Soft-RoCE device; leaves and the spine are bridges. n0r1 is rail 1 of node 0, its port on the leaf p0r1; a leaf's port to the
# spine is ua, the port of the spine to that leaf sa. Leaf a has 10.0.0.0/30 and 10.1.0.0/30, b and c the next four addresses. Tables of routes for each rail keep packets off the short way.
date -s '2026-01-01 00:01:00' # no window of an hour ends before the test
modprobe -a veth bridge rdma_rxe ib_uverbs sch_netem sch_ingress cls_u32 act_gact
sysctl -q net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.all.arp_ignore=1 \
  net.ipv4.conf.all.arp_announce=2 net.ipv4.conf.all.accept_local=1 net.ipv4.conf.default.accept_local=1 \
  net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
ip link add spine type bridge
ip link set spine mtu 4200 up
for leaf in a b c; do
  ip link add leaf$leaf type bridge
  ip link set leaf$leaf mtu 4200 up
  ip link add u$leaf type veth peer name s$leaf
  ip link set u$leaf mtu 4200 master leaf$leaf up
  ip link set s$leaf mtu 4200 master spine up
done
ip rule add pref 10 to 127.0.0.0/8 lookup local
for n in 0 1 2 3 4 5 6 7; do
  case $n in 0|1|2) leaf=a host=$((n + 1));; 3|4|5) leaf=b host=$((n + 2));; *) leaf=c host=$((n + 3));; esac
  for r in 0 1; do
    d=n${n}r$r a=10.$r.0.$host t=$((100 + 10 * r + n))
    ip link add $d type veth peer name p${n}r$r
    ip link set $d address 02:00:00:00:0$r:0$n mtu 4200 up
    ip link set p${n}r$r mtu 4200 master leaf$leaf up
    ip addr add $a/24 dev $d
    ip route add local $a dev $d table $t
    ip route add 10.$r.0.0/24 dev $d src $a table $t
    ip rule add pref 20 iif lo from $a lookup $t
    ip rule add pref 30 iif $d lookup local
  done
done
ip rule add pref 32000 lookup local
ip rule del pref 0
for d in /sys/class/net/n[0-7]r[01]; do rdma link add ${d##*/} type rxe netdev ${d##*/}; done
