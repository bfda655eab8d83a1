// SPDX-License-Identifier: Apache-2.0

//go:build lab

// Package lab tests the exporter on a real kernel: as root in the guest that run.sh starts, over Soft-RoCE,
// software iWARP and fakehca devices. Every expectation is what the kernel itself says at that moment, through
// rdma, ip, dcb, ethtool's speed and sysfs.
package lab

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// full is for proofs that take their time: test.sh sets it with FULL=1.
var full = flag.Bool("full", false, "run every test, and scrape what hangs 1,000 times instead of 50")

// suite is run in this order over one guest and, where they do not start their own, one exporter. Tests that are long
// run with full only: CI has no time for them.
var suite = []struct {
	name string
	run  func(*testing.T, *exporter)
	long bool
}{
	{name: "health", run: testHealth},
	{name: "identity", run: testIdentity},
	{name: "topology", run: testTopology},
	{name: "pci", run: testPCI},
	{name: "acs", run: testACS},
	{name: "gpus", run: testGPUs},
	{name: "peermem", run: testPeermem},
	{name: "aer", run: testAER},
	{name: "ports", run: testPorts},
	{name: "rates", run: testRates},
	{name: "gids", run: testGIDs},
	{name: "addresses", run: testAddresses},
	{name: "duplicate_gids", run: testDuplicateGIDs},
	{name: "selected_gid", run: testSelectedGID},
	{name: "iwarp", run: testIWARP},
	{name: "counters", run: testCounters},
	{name: "counter_limits", run: testCounterLimits, long: true},
	{name: "counters_from_sysfs", run: testCountersFromSysfs, long: true},
	{name: "dcb", run: testDCB},
	{name: "ethernet", run: testEthernet},
	{name: "roce", run: testRoCE},
	{name: "roce_designs", run: testRoCEDesigns, long: true},
	{name: "roce_traffic", run: testRoCETraffic, long: true},
	{name: "roce_bond", run: testRoCEBond, long: true},
	{name: "roce_ofed", run: testRoCEOFED, long: true},
	{name: "check", run: testCheck},
	{name: "inside", run: testInside},
	{name: "steady", run: testSteady},
	{name: "pages", run: testPages},
	{name: "link_down", run: testLinkDown},
	{name: "port_down", run: testPortDown},
	{name: "degraded_rate", run: testDegradedRate, long: true},
	{name: "address_changes", run: testAddressChanges},
	{name: "many_addresses", run: testManyAddresses, long: true},
	{name: "vlan_changes", run: testVLANChanges, long: true},
	{name: "new_device", run: testNewDevice},
	{name: "unplug", run: testUnplug, long: true},
	{name: "driver_load", run: testDriverLoad, long: true},
	{name: "cost", run: testCost, long: true},
	{name: "stuck_devices", run: testStuckDevices},
	{name: "stuck_rtnl", run: testStuckRTNL, long: true},
	{name: "capture", run: testCapture, long: true},
	{name: "namespaces", run: testNamespaces, long: true},
	{name: "without_netlink", run: testWithoutNetlink},
	{name: "moved", run: testMoved},
	{name: "jobs", run: testJobs},
	{name: "job_privileges", run: testJobPrivileges, long: true},
	{name: "unprivileged", run: testUnprivileged},
	{name: "kernel_messages", run: testKernelMessages},
	{name: "read_only", run: testReadOnly},
	{name: "clock", run: testClock},
	{name: "unload", run: testUnload},
	{name: "terminate", run: testTerminate},
}

func TestLab(t *testing.T) {
	x := start(t, 0)
	t.Cleanup(func() { write(t, "exporter.log", strings.Join(x.lines(), "\n")) })
	found := guestState(t)
	for _, test := range suite {
		t.Run(test.name, func(t *testing.T) {
			if test.long && !*full {
				t.Skip("only with FULL=1 (make lab-full): CI has no time for it")
			}
			t.Cleanup(func() { // after the test's own: it must leave the guest as it found it
				var now []string
				defer func() { found = now }() // what one test leaves does not fail the next
				eventually(t, "the guest is as before the test", func() error {
					now = guestState(t)
					return diff("guest", found, now)
				})
			})
			test.run(t, x)
		})
	}
}

// eventually calls f until it returns nil. The guest is emulated and the host may be busy: the deadline is long.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not so: %s\n%v", what, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// command runs a program in the guest.
func command(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// undone runs a command now and another one when the test ends.
func undone(t *testing.T, do, undo string) {
	t.Helper()
	t.Cleanup(func() { command(t, undo) })
	command(t, do)
}

// set writes a file now and its old content when the test ends.
func set(t *testing.T, path, value string) {
	t.Helper()
	old := read(path)
	t.Cleanup(func() { write(t, path, old) })
	write(t, path, value)
}

func write(t *testing.T, path, value string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		t.Fatal(err)
	}
}

// diff returns what is missing in got and what should not be there; nil if they hold the same in any order.
func diff(what string, want, got []string) error {
	var errs []error
	seen := make(map[string]int)
	for _, line := range got {
		seen[line]++
	}
	for _, line := range want {
		if seen[line]--; seen[line] < 0 {
			errs = append(errs, fmt.Errorf("%s: missing %s", what, line))
		}
	}
	slices.Sort(got)
	for _, line := range slices.Compact(got) {
		if n := seen[line]; n > 0 {
			errs = append(errs, fmt.Errorf("%s: unexpected %s (%d)", what, line, n))
		}
	}
	return errors.Join(errs...)
}
