// SPDX-License-Identifier: Apache-2.0

// Package observer owns every reader and decides when what is read. Observe combines the answers into an
// immutable *fabric.Node.
//
// It may be used by any number of goroutines. Each RDMA device is read by at most one goroutine at a time,
// so are all network interfaces together (they share the kernel's rtnl lock), and callers share one reading
// for FastInterval: the load on drivers does not grow with the number of scrapers. Nothing is read on a
// timer of its own; facts that change slowly are read again by the first Observe after SlowInterval.
//
// There are no errors: a source that fails, hangs or panics is a fabric.Source that is not up, and its facts
// are unknown with the reason. Observe returns by the deadline of its context whatever hangs.
//
// # Cadences
//
// Facts have one of four cadences (DefaultFastInterval and the others):
//
//   - Fast, with each scrape, shared by all callers within 5 s: port state and physical state, hardware counters,
//     PMA counters of data, packets and wait, occupied GID entries; processes, load and link states of GPUs; ranks
//     of jobs.
//   - Medium, when older than 10 s: statistics of network interfaces, which are tens of firmware commands on mlx5
//     under the rtnl lock.
//   - Slow, when older than 60 s: PCIe links and AER, identity, rate, LIDs, other PMA counters, network interfaces
//     with their DCB, pause, FEC and ECN settings, the GID slots that the kernel fills next, NCCL files, modules;
//     NVLink errors and modes of GPUs.
//   - Rare, at start, hourly, and when a function comes or goes: identity and configuration space of PCI
//     functions, whole GID tables. Suspended PCI functions are left alone. After a result of a probe below its
//     baseline, configuration space is read again, at most once a minute, so that what was changed since is named
//     as the cause (fabric.WantFreshPCI).
//
// What cannot change while a device exists (board, model, GUIDs, driver, NUMA node) is read until it is
// known. Slow facts of all devices are due with the same scrape, so that what follows from them is read once.
// Three cases differ:
//
//   - The rate is read again at once when the physical state changes, and network interfaces are read again with
//     every rate, so that the rates that are compared have the same age. A port whose physical link is down has no
//     rate, because drivers make one up.
//   - GID entries that vanish show with the next scrape. New entries show within a minute: ib_core fills the first
//     free slot of a RoCE table, so the free slots and the eight slots behind the last entry are read. An entry
//     further out, which was added while others were there, shows within the hour.
//   - 32-bit counters that wrap are continued to 64 bits, see wrapTracker.
//
// # Lanes
//
// A lane holds at most one read. There is one for each RDMA device, one for all network interfaces, and one
// each for the device list, the node, the PCI bus, the GPU driver, the processes that hold GPUs and the NCCL
// files. A read that does not return keeps its lane busy: no other read starts there, and once it is stuck
// for 5 s no caller waits for it. Time in which this process waited for a processor does not count. Its facts
// are unknown(stuck), or unknown(rtnl_stuck) for network interfaces; all other facts stay current. A device
// that is unplugged and returns while a read of it hangs
// stays with its old lane until the read returns, so that a flapping device cannot accumulate goroutines.
//
// What a lane has open is closed in the lane, once, when the read in flight has ended, even hours later;
// nothing waits for it. So it goes for a device that left, for what a reload replaces, and for all with
// Close. Whose files of jobs are still being read is known in the lane, and not in the reader that a reload
// replaces. After Close no read begins, and Observe returns a node of which nothing is known, with a source
// that says why.
//
// Half of the time of a scrape is for the devices, the rest for what depends on their answers.
//
// A hanging read costs an OS thread and nothing else, also with the one Go processor that the exporter uses
// by default: a blocking system call gives the processor up, at the latest when Go's monitor thread sees it
// (10 ms). test/hang proves it.
//
// # Load on drivers
//
// exporter_driver_commands_total counts what drivers are asked. Tests count the commands of each reading,
// with 1 and with 50 scrapers, instead of a rate over time: what a reading asks is exact, and no reading
// comes early.
//
//   - Netlink is preferred to sysfs for the counters of a port: one RDMA_NLDEV_CMD_STAT_GET makes the driver read
//     all of them once (rdma.go, sysfs.Device.ReadHWCounters).
//   - With MLNX_OFED, the files in ecn/ cost 18 firmware commands per interface and minute (kind="cong_query").
//   - A file that a driver refuses (EINVAL, EIO, EOPNOTSUPP, ENOSYS) is read again after 1 min, doubling to 1 h.
package observer
