# SPDX-License-Identifier: Apache-2.0
#
# Sourced by run.sh: a machine shaped like a small GPU server. On each of two NUMA nodes a PCIe switch with a
# NIC and a GPU (of ATI: QEMU emulates no other) below it, and a second NIC on a root port of its own; two more
# NICs on the root complex, where nothing says which node they belong to.
machine=(-M q35 -cpu max -smp 2 -m 512 -device intel-iommu
  -netdev hubport,hubid=0,id=nica -device e1000e,netdev=nica,bus=pcie.0
  -netdev hubport,hubid=0,id=nicb -device e1000e,netdev=nicb,bus=pcie.0)
for n in 0 1; do
  machine+=(-object "memory-backend-ram,id=mem$n,size=256M" -numa "node,nodeid=$n,cpus=$n,memdev=mem$n"
    -device "pxb-pcie,id=host$n,bus=pcie.0,bus_nr=$((32 + 64 * n)),numa_node=$n"
    -device "pcie-root-port,id=port${n}a,bus=host$n,chassis=$((10 + n)),slot=0"
    -device "x3130-upstream,id=switch$n,bus=port${n}a"
    -device "xio3130-downstream,id=down${n}a,bus=switch$n,chassis=$((20 + n)),slot=0"
    -device "xio3130-downstream,id=down${n}b,bus=switch$n,chassis=$((30 + n)),slot=1"
    -device "pcie-root-port,id=port${n}b,bus=host$n,chassis=$((40 + n)),slot=1"
    -netdev "hubport,hubid=0,id=nic${n}a" -device "e1000e,netdev=nic${n}a,bus=down${n}a"
    -device "ati-vga,bus=down${n}b,romfile="
    -netdev "hubport,hubid=0,id=nic${n}b" -device "e1000e,netdev=nic${n}b,bus=port${n}b")
done
