// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// An exporter in a network namespace of its own says what it sees and what not, in both modes of the RDMA core.
func testNamespaces(t *testing.T, x *exporter) {
	all, err := devices()
	if err != nil {
		t.Fatal(err)
	}
	visible := func(want float64) func(scrape) error {
		return func(s scrape) error {
			var errs []error
			for _, d := range all {
				errs = append(errs, is(want, "hca_netlink_visible", "device", d)(s))
			}
			return errors.Join(errs...)
		}
	}
	supported := func(want float64, collector string) func(scrape) error {
		return is(want, "scrape_collector_supported", "collector", collector)
	}
	nowhere := func(s scrape) error {
		return errors.Join(none("hca_info")(s), none("hca_port_state")(s), none("hca_stuck")(s), supported(0, "hca")(s))
	}
	for _, mode := range []struct {
		name     string
		ownSysfs []func(scrape) error
		host     []func(scrape) error // with the host's sysfs
	}{
		// The kernel shows the devices in every namespace, there without the counters.
		{"shared", []func(scrape) error{visible(1), supported(1, "hca"), supported(0, "counters")}, []func(scrape) error{visible(1), identity, counters}},
		{"exclusive", []func(scrape) error{nowhere}, []func(scrape) error{visible(0), identity, counters}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			if mode.name == "exclusive" { // before there is a namespace
				exclusive(t)
			}
			says := is(1, "node_rdma_netns_mode", "state", mode.name)
			x.agrees(t, append(everything, says, visible(1), counters)...)
			namespace(t)
			own, host := inNamespace(t, "ip", "netns", "exec", "other"), inNamespace(t, "nsenter", "--net=/run/netns/other")
			there := own.agrees(t, append(mode.ownSysfs, says)...)
			seen := len(there.find("hca_info"))
			seenHost := len(host.agrees(t, append(mode.host, says)...).find("hca_info"))
			t.Logf("%s: of %d devices, with its own sysfs an exporter in another namespace shows %d, with the host's %d", mode.name, len(all), seen, seenHost)
			t.Log(there.find("hca_port_info", "device", "fakehca_0"), there.find("hca_port_info", "device", "siw0"), there.find("exporter_facts_unknown", "device", "fakehca_0"))
			if text := strings.Join(own.lines(), "\n"); seen == 0 && !strings.Contains(text, "no RDMA device found") {
				t.Errorf("the log does not say that nothing is seen:\n%s", text)
			}
		})
	}
	x.agrees(t, append(everything, is(1, "node_rdma_netns_mode", "state", "shared"))...)
}

// exclusive gives each namespace its own devices until the test ends.
func exclusive(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		eventually(t, "devices are shared", func() error { // the kernel refuses until the last namespace is gone
			out, err := exec.Command("rdma", "system", "set", "netns", "shared").CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
	})
	command(t, "rdma system set netns exclusive")
}

// namespace makes the network namespace "other" until the test ends, with a way to it.
func namespace(t *testing.T) {
	t.Helper()
	undone(t, "ip netns add other", "ip netns del other")
	undone(t, "ip link add there type veth peer name here netns other", "ip link del there")
	for _, line := range []string{
		"ip addr add 10.250.0.1/24 dev there", "ip link set there up", "ip -n other addr add 10.250.0.2/24 dev here", "ip -n other link set here up",
	} {
		command(t, line)
	}
}

// inNamespace runs an exporter in the namespace: "ip netns exec" mounts a sysfs of its own, nsenter leaves it that of
// the host, as in a container to which /sys was mounted.
func inNamespace(t *testing.T, enter ...string) *exporter {
	t.Helper()
	args := append(enter, "./gpufabric_exporter", "--observer.fast-interval=100ms", "--observer.slow-interval=1s", "--web.listen-address=10.250.0.2:0")
	x := startCommand(t, exec.Command(args[0], args[1:]...))
	t.Cleanup(func() { x.stop(t) }) // it keeps the namespace
	return x
}
