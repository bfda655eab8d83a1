// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Pods take interfaces and devices: the exporter says that they are elsewhere and not that they are gone. A device that
// its driver releases while a pod has it is gone.
func testMoved(t *testing.T, x *exporter) {
	t.Cleanup(func() { command(t, "sh -e ./fakehca.sh") }) // addresses and VLANs do not come back with an interface
	t.Run("interface", func(t *testing.T) { movedInterface(t, x) })
	t.Run("device", func(t *testing.T) { movedDevice(t, x) })
}

// pod makes the network namespace "pod", until end or the end of the test.
func pod(t *testing.T) (end func()) {
	t.Helper()
	end = func() {
		if _, err := os.Stat("/run/netns/pod"); err == nil {
			command(t, "ip netns del pod")
		}
	}
	t.Cleanup(end)
	command(t, "ip netns add pod")
	return end
}

func moved(device, part string) func(scrape) error {
	return is(1, "hca_moved", "device", device, "part", part)
}

// In shared mode the device stays on the host, and its GIDs name the interface as the pod calls it: here as
// the host calls another one.
func movedInterface(t *testing.T, x *exporter) {
	end := pod(t)
	for _, line := range []string{
		"ip link set hca0 netns pod", "ip -n pod link set hca0 name hca1", "ip -n pod link set hca1 up", "ip -n pod addr add 192.168.0.77/24 dev hca1",
	} {
		command(t, line)
	}
	if text := read(class, "fakehca_0/ports/1/gid_attrs/ndevs/0"); text != "hca1" {
		t.Fatalf("the GID table names %q: the test is not what it was", text)
	}
	x.agrees(t, moved("fakehca_0", "netdev"), none("hca_moved", "device", "fakehca_1"), gids, counters,
		is(1, "hca_port_state", "device", "fakehca_0", "state", "active"),
		is(1, "hca_port_info", "device", "fakehca_0", "netdev", ""),
		none("exporter_source_unknown"), none("roce_trust", "device", "fakehca_0"), none("check_unknown", "device", "fakehca_0"))
	found, _, _ := judge(t, 0, "--collector.device-include=fakehca_0")
	for _, f := range found {
		if strings.HasSuffix(f, " unknown") && strings.Contains(f, "fakehca_0") {
			t.Errorf("check: %s", f)
		}
	}
	end() // it comes back, under a name that is free
	x.agrees(t, none("hca_moved"), func(s scrape) error {
		here, err := os.ReadDir(class + "/fakehca_0/device/net")
		if err != nil || len(here) != 1 || here[0].Name() == "hca1" {
			return fmt.Errorf("interfaces of fakehca_0: %v, %w", here, err)
		}
		return is(1, "hca_port_info", "device", "fakehca_0", "netdev", here[0].Name())(s)
	})
}

func movedDevice(t *testing.T, x *exporter) {
	exclusive(t)
	end := pod(t)
	before := x.agrees(t, none("hca_moved"), counters).find("hca_info", "device", "fakehca_2")
	command(t, "rdma dev set fakehca_2 netns pod")
	if out, err := exec.Command("ip", "netns", "exec", "pod", "rdma", "link").CombinedOutput(); err != nil || !strings.Contains(string(out), "fakehca_2/1") {
		t.Fatalf("the pod has it not: %v\n%s", err, out)
	}
	elsewhere := func(s scrape) error {
		return errors.Join(moved("fakehca_2", "device")(s), none("hca_port_state", "device", "fakehca_2")(s), none("check_unknown", "device", "fakehca_2")(s),
			none("exporter_source_unknown")(s), none("exporter_source_up", "device", "fakehca_2")(s), is(1, "scrape_collector_success", "collector", "hca")(s))
	}
	same := func(s scrape) error {
		return diff("hca_info", []string{fmt.Sprint(before)}, []string{fmt.Sprint(s.find("hca_info", "device", "fakehca_2"))})
	}
	x.agrees(t, elsewhere, same, is(1, "hca_port_info", "device", "fakehca_2"))
	t.Run("exporter that starts later", func(t *testing.T) {
		late := startWith(t, "--observer.fast-interval=100ms", "--observer.slow-interval=1s")
		address, driver := before[0].labels["pci_address"], before[0].labels["driver"]
		late.agrees(t, elsewhere, is(1, "hca_info", "device", "fakehca_2", "pci_address", address, "driver", driver), none("hca_port_info", "device", "fakehca_2"))
		late.stop(t)
	})
	end() // the device comes back
	x.agrees(t, none("hca_moved"), same, counters, is(1, "hca_port_state", "device", "fakehca_2", "state", "active"))

	end = pod(t)
	command(t, "rdma dev set fakehca_2 netns pod")
	x.agrees(t, elsewhere)
	command(t, "rmmod fakehca")
	x.agrees(t, none("hca_moved"), none("hca_info", "device", "fakehca_2"), is(1, "scrape_collector_success", "collector", "hca"))
	end()
}
