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
	"path/filepath"
	"strings"
	"testing"
)

// testGPUs: below each switch of machine.sh are a NIC and a GPU. The NICs below switches are for training, which
// makes storage of the others that are as far from all GPUs, as far as is known.
func testGPUs(t *testing.T, x *exporter) {
	t.Cleanup(func() {
		for _, address := range gpus(t) {
			write(t, "/sys/bus/pci/devices/"+address+"/remove", "1")
		}
	})
	write(t, "/sys/bus/pci/rescan", "1")
	eventually(t, "two GPUs", func() error {
		if n := len(gpus(t)); n != 2 {
			return fmt.Errorf("the kernel has %d", n)
		}
		return nil
	})
	out, err := exec.Command("./gpufabric_exporter", "topology", "--output=json").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := exec.Command("./gpufabric_exporter", "topology").CombinedOutput()
	t.Logf("\n%s", text)
	var report struct {
		GPUs []struct {
			Name, NIC, Class string
			PCI              string `json:"pci_address"`
		}
		Distances []struct {
			From, To, Class string
			Reason          string `json:"unknown_reason"`
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	gpuAt, nicAt := map[string]string{}, map[string]string{}
	for _, g := range report.GPUs {
		gpuAt[g.Name] = g.PCI
	}
	for _, name := range []string{"fakehca_0", "fakehca_1", "fakehca_2", "fakehca_3", "fakehca_4", "fakehca_5"} {
		nicAt[name] = link(class, name, "device")
	}
	var got, want []string
	for _, d := range report.Distances {
		if gpuAt[d.From] != "" && nicAt[d.To] != "" {
			got = append(got, gpuAt[d.From]+" "+d.To+" "+d.Class+d.Reason)
		}
	}
	near := map[string]string{}
	for _, address := range gpus(t) {
		for name, at := range nicAt {
			class := "SYS"
			switch {
			case strings.HasPrefix(at, "0000:00:"):
				class = "virtual" // on the root complex of a guest
			case switchAbove(t, at) == switchAbove(t, address):
				class, near[address] = "PIX", name
			case at[5] == address[5]: // the buses of a host bridge
				class = "PHB"
			}
			want = append(want, address+" "+name+" "+class)
		}
	}
	if err := diff("distances", want, got); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, g := range report.GPUs {
		if g.NIC != near[g.PCI] || g.Class != "PIX" {
			t.Errorf("GPU %s is dealt %s (%s), want %s", g.PCI, g.NIC, g.Class, near[g.PCI])
		}
	}
	x.agrees(t, func(s scrape) error {
		var errs []error
		for address, name := range near {
			errs = append(errs, is(1, "gpu_nic_distance", "pci_address", address, "device", name, "class", "PIX")(s),
				is(1, "hca_port_info", "device", name, "role", "compute")(s))
		}
		return errors.Join(errs...)
	})
}

// gpus returns the addresses of display controllers.
func gpus(t *testing.T) (addresses []string) {
	t.Helper()
	files, err := filepath.Glob("/sys/bus/pci/devices/*/class")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasPrefix(read(f), "0x03") {
			addresses = append(addresses, filepath.Base(filepath.Dir(f)))
		}
	}
	return addresses
}

// switchAbove is the path of what is two bridges above a function: below one switch it is the same.
func switchAbove(t *testing.T, address string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks("/sys/bus/pci/devices/" + address)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(filepath.Dir(path))
}

// testPeermem: a module with the name that NCCL looks for is there or not; this kernel's RDMA core does not say who its
// clients are.
func testPeermem(t *testing.T, x *exporter) {
	x.agrees(t, is(1, "gpudirect_peermem_loaded"), func(s scrape) error {
		if found := s.find("gpudirect_peermem_bound"); len(found) > 0 {
			return fmt.Errorf("expected unknown, found %v", found)
		}
		return nil
	})
	t.Cleanup(func() { command(t, "modprobe nvidia_peermem") })
	command(t, "modprobe -r nvidia_peermem")
	x.agrees(t, is(0, "gpudirect_peermem_loaded"))
}

// testAER: errors that the kernel is made to see count where they were seen, at a NIC and at the port above it.
func testAER(t *testing.T, x *exporter) {
	undone(t, "modprobe aer_inject", "modprobe -r aer_inject")
	nic := onPort(t)
	address := link(class, nic, "device")
	before := map[string]float64{}
	x.agrees(t, func(s scrape) error {
		var errs []error
		for _, severity := range []string{"correctable", "nonfatal"} {
			v, err := s.one("pcie_aer_errors_total", "device", nic, "severity", severity)
			before[severity], errs = v, append(errs, err)
		}
		return errors.Join(errs...)
	})
	const receiverError, completionTimeout = 1 << 0, 1 << 14
	// One at a time: the kernel answers EBUSY while the interrupt of the last one is still on its way.
	inject(t, address, receiverError, 0)
	correctable := is(before["correctable"]+1, "pcie_aer_errors_total", "device", nic, "severity", "correctable")
	x.agrees(t, correctable)
	inject(t, address, 0, completionTimeout)
	x.agrees(t, correctable, is(before["nonfatal"]+1, "pcie_aer_errors_total", "device", nic, "severity", "nonfatal"))
}

// onPort is a device below a PCIe port, which reports its errors.
func onPort(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"fakehca_0", "fakehca_1", "fakehca_2", "fakehca_3"} {
		if !strings.HasPrefix(link(class, name, "device"), "0000:00:") {
			return name
		}
	}
	t.Fatal("no device is below a PCIe port")
	return ""
}

// inject has the kernel see an error: struct aer_error_inj of drivers/pci/pcie/aer_inject.c.
func inject(t *testing.T, address string, correctable, uncorrectable uint32) {
	t.Helper()
	var bus, device, function uint8
	if _, err := fmt.Sscanf(address, "0000:%02x:%02x.%x", &bus, &device, &function); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 32)
	b[0], b[1], b[2] = bus, device, function
	binary.LittleEndian.PutUint32(b[4:], uncorrectable)
	binary.LittleEndian.PutUint32(b[8:], correctable)
	if err := os.WriteFile("/dev/aer_inject", b, 0o600); err != nil {
		t.Fatal(err)
	}
}
