// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// denied has this program run another one that cannot open sockets of AF_NETLINK.
const denied = "LAB_WITHOUT_NETLINK"

// withoutNetlink replaces this process by a program for which socket(AF_NETLINK) fails with EAFNOSUPPORT, as
// for a unit of systemd without that family (RestrictAddressFamilies).
func withoutNetlink(args []string) error {
	runtime.LockOSThread()
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	unless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: skip}
	}
	answer := func(value uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
	}
	const number, family = 0, 16 // offsets in struct seccomp_data
	filter := []unix.SockFilter{
		load(number), unless(unix.SYS_SOCKET, 3), load(family), unless(unix.AF_NETLINK, 1),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)), answer(unix.SECCOMP_RET_ALLOW),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return err
	}
	return syscall.Exec(args[0], args, os.Environ())
}

// Without AF_NETLINK devices are read from sysfs, and what netlink alone shows has no series: nothing is 0 or wrong.
func testWithoutNetlink(t *testing.T, x *exporter) {
	cmd := exporterCommand(os.Args[0], "./gpufabric_exporter", "--observer.fast-interval=100ms", "--observer.slow-interval=1s")
	cmd.Env = append(os.Environ(), denied+"=1")
	without := startCommand(t, cmd).agrees(t, identity, counters)
	with := x.agrees(t, is(1, "node_rdma_netns_mode", "state", "shared"), is(1, "hca_netlink_visible", "device", "fakehca_0"))
	names := func(s scrape) map[string]bool {
		set := map[string]bool{}
		for _, m := range s {
			set[m.name] = true
		}
		return set
	}
	left, lost := names(without), []string{}
	for name := range names(with) {
		if !left[name] {
			lost = append(lost, name)
		}
	}
	slices.Sort(lost)
	t.Log(lost)
	for _, name := range []string{"node_rdma_netns_mode", "hca_netlink_visible", "roce_trust", "roce_pfc_enabled", "roce_received_discards_total", "ethernet_fec_info"} {
		if !slices.Contains(lost, name) {
			t.Errorf("%s is shown without netlink", name)
		}
	}
	for _, name := range lost {
		if name == "check_info" { // of checks that fail: what is unknown does not
			continue
		}
		if !strings.HasPrefix(name, "roce_") && !strings.HasPrefix(name, "ethernet_") && name != "node_rdma_netns_mode" && name != "hca_netlink_visible" {
			t.Errorf("%s is lost without netlink, although sysfs has it", name)
		}
	}
	for _, device := range []string{"fakehca_0", "rxe0"} {
		if len(without.find("exporter_facts_unknown", "device", device, "reason", "privilege")) == 0 {
			t.Errorf("no fact of %s is counted as unknown for want of a privilege", device)
		}
	}
	if checks := without.find("check_unknown", "check", "roce_pfc", "device", "fakehca_0", "reason", "privilege"); len(checks) == 0 {
		t.Error("the check roce_pfc is silent")
	}
}
