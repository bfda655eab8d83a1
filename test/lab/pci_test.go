// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/pci"
)

// testTopology: machine.sh says where everything is. Two NICs without any port above them say nothing of the machine
// that emulates this one.
func testTopology(t *testing.T, _ *exporter) {
	out, err := exec.Command("./gpufabric_exporter", "topology", "--output=json").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("./gpufabric_exporter", "topology").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text)
	var report struct {
		Virtual   *bool `json:"virtual_machine"`
		Distances []struct {
			From, To, Class string
			Reason          string `json:"unknown_reason"`
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if report.Virtual == nil || !*report.Virtual {
		t.Errorf("virtual_machine is %v", report.Virtual)
	}
	var got []string
	for _, d := range report.Distances {
		if d.From == "fakehca_0" || d.From == "fakehca_4" {
			got = append(got, d.From+" "+d.To+" "+d.Class+d.Reason)
		}
	}
	places := map[string]string{} // by address, so that the order in which devices were found does not matter
	for _, name := range []string{"fakehca_0", "fakehca_1", "fakehca_2", "fakehca_3", "fakehca_4", "fakehca_5"} {
		places[link(class, name, "device")] = name
	}
	var want []string
	for address, name := range places {
		classOf := "SYS"
		switch {
		case name == "fakehca_0":
			classOf = "LOC"
		case strings.HasPrefix(address, "0000:00:"):
			classOf = "virtual"
		case strings.HasPrefix(address, "0000:2"):
			classOf = "PHB"
		}
		want = append(want, "fakehca_0 "+name+" "+classOf)
		if classOf = "virtual"; name == "fakehca_4" {
			classOf = "LOC"
		}
		want = append(want, "fakehca_4 "+name+" "+classOf)
	}
	if err := diff("distances", want, got); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// testPCI: what is read of the bus is what sysfs and configuration space say, and the user nobody reads no
// more than the header.
func testPCI(t *testing.T, x *exporter) {
	x.agrees(t, func(s scrape) error {
		up, err := s.one("exporter_source_up", "source", "pci")
		if err == nil && up != 1 {
			err = errors.New("source pci is not up")
		}
		var errs []error
		for _, m := range s.find("pcie_max_read_request_bytes") {
			if want := readRequest(t, m.labels["device"]); m.value != want {
				errs = append(errs, fmt.Errorf("%v is %v, configuration space says %v", m, m.value, want))
			}
		}
		if n := len(s.find("pcie_max_read_request_bytes")); n == 0 {
			errs = append(errs, errors.New("no pcie_max_read_request_bytes"))
		}
		return errors.Join(append(errs, err)...)
	})
	nobody := start(t, 65534)
	nobody.agrees(t, func(s scrape) error {
		if found := s.find("pcie_max_read_request_bytes"); len(found) > 0 {
			return fmt.Errorf("the user nobody reads %v", found)
		}
		_, err := s.one("exporter_facts_unknown", "device", "fakehca_0", "reason", "privilege")
		return err
	})
}

// readRequest decodes MaxReadReq of a device's function for itself.
func readRequest(t *testing.T, device string) float64 {
	b := configOf(t, link(class, device, "device"))
	for at := int(b[0x34]); at != 0; at = int(b[at+1]) {
		if b[at] == 0x10 {
			return float64(int(128) << (binary.LittleEndian.Uint16(b[at+8:]) >> 12 & 7))
		}
	}
	t.Errorf("%s has no PCI Express capability", device)
	return 0
}

func configOf(t *testing.T, address string) []byte {
	t.Helper()
	b, err := os.ReadFile("/sys/bus/pci/devices/" + address + "/config")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// testACS: Linux switches redirection on in root ports, because there is an IOMMU; setpci would switch it off. Ports of
// the switch have no such capability.
func testACS(t *testing.T, _ *exporter) {
	bus, err := pci.Open("/sys")
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	look := func() fabric.PCI {
		nics := []pci.NIC{{Device: "fakehca_0", Link: "class/infiniband/fakehca_0"}, {Device: "fakehca_1", Link: "class/infiniband/fakehca_1"}}
		p, err := bus.Read(fabric.PCI{}, fabric.PCIEverything, nics, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before := look()
	behindSwitch, alone := before.NIC("fakehca_0"), before.NIC("fakehca_1")
	if len(behindSwitch.Bridges) != 3 {
		behindSwitch, alone = alone, behindSwitch
	}
	if len(behindSwitch.Bridges) != 3 || len(alone.Bridges) != 1 {
		t.Fatalf("not behind a switch and on a root port: %v, %v", behindSwitch.Bridges, alone.Bridges)
	}
	for i, want := range []fabric.State{fabric.OK, fabric.Absent, fabric.Absent} {
		if acs := before.Function(behindSwitch.Bridges[i]).Config.ACS; acs.State != want {
			t.Errorf("ACS of %s is %+v, want %s", behindSwitch.Bridges[i], acs, want)
		}
	}
	if list := before.ACSRedirects(behindSwitch, alone, time.Now()).Or(nil); len(list) != 2 {
		t.Errorf("with the IOMMU on both root ports redirect, got %v", list)
	}
	for _, port := range []string{behindSwitch.Bridges[0], alone.Bridges[0]} {
		switchOff(t, port)
	}
	after := look()
	list := after.ACSRedirects(behindSwitch, alone, time.Now())
	if v, ok := list.Get(); !ok || len(v) > 0 {
		t.Errorf("switched off, got %+v", list)
	}
	if list := after.Shortfalls(after.NIC("fakehca_0"), time.Now()); list.State == fabric.OK && len(list.Value) > 0 {
		t.Errorf("links of an emulator are no shortfall: %+v", list.Value)
	}
	for i := range after.Functions {
		f := &after.Functions[i]
		raw := read("/sys/bus/pci/devices", f.Address, "numa_node")
		if n, ok := f.NUMANode.Get(); ok && strconv.Itoa(n) != raw || !ok && raw != "-1" {
			t.Errorf("%s: NUMA node %+v, sysfs says %s", f.Address, f.NUMANode, raw)
		}
	}
}

// switchOff clears ACS control of a port until the test ends.
func switchOff(t *testing.T, address string) {
	t.Helper()
	b := configOf(t, address)
	at := 0x100
	for at != 0 && binary.LittleEndian.Uint16(b[at:]) != 0x0d {
		at = int(binary.LittleEndian.Uint16(b[at+2:]) >> 4)
	}
	if at == 0 {
		t.Fatalf("%s has no ACS", address)
	}
	set := func(value []byte) {
		f, err := os.OpenFile("/sys/bus/pci/devices/"+address+"/config", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := syscall.Pwrite(int(f.Fd()), value, int64(at+6)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { set(b[at+6 : at+8]) })
	set([]byte{0, 0})
}
