// SPDX-License-Identifier: Apache-2.0

package kmsg

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// booted is when the node of the tests started; now is an hour later.
var booted = time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)

var now = booted.Add(time.Hour)

// pipe returns a Reader of a pipe, which stands for the device, and what writes to it.
func pipe(t *testing.T) (*Reader, func(text string)) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "kmsg")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(name, os.O_RDWR, 0) // with a reader, so that it does not wait
	if err != nil {
		t.Fatal(err)
	}
	r := New(name)
	r.uptime = func() (time.Duration, error) { return time.Hour, nil }
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		_ = w.Close()
	})
	return r, func(text string) {
		t.Helper()
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, r *Reader) fabric.KernelReading {
	t.Helper()
	v, err := r.Read(now)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// record is what the device gives for a message that was logged so long after boot.
func record(after time.Duration, message string) string {
	return fmt.Sprintf("4,339,%d,-;%s\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n", after.Microseconds(), message)
}

// What drivers print is found.
func TestFinds(t *testing.T) {
	for message, want := range map[string]string{
		"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.":                              "xid_fallen_off",
		"NVRM: Xid (PCI:0000:3b:00): 74, pid=1234, name=python3, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0)":    "xid_nvlink",
		"NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python3, Ch 0000001b, intr 00000000. MMU Fault":                               "xid_application",
		"NVRM: Xid (PCI:0000:3b:00): 999, something new":                                                                            "xid",
		"nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 32 LTSSM Fault Up":                                           "sxid",
		"mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count":                         "mlx5_health",
		"mlx5_core 0000:5e:00.0: wait_func:1195:(pid 967): MANAGE_PAGES(0x108) timeout. Will cause a leak of a command resource":    "mlx5_command_timeout",
		"mlx5_core 0000:5e:00.0 eth2: wait_func:1195:(pid 967): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource": "mlx5_command_timeout",
		"pcieport 0000:00:01.1: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)":              "aer_fatal",
		"nvme 10000:01:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)":                              "aer_corrected",
		"IPv6: ADDRCONF(NETDEV_CHANGE): eth2: link becomes ready":                                                                   "",
		"NVRM: GPU at PCI:0000:3b:00: GPU-5a3d2c10-0000-4000-8000-00000000000a":                                                     "",
		"NVRM: Xid (PCI:[77]: segfault at 0 ip 55d0 sp 7ffd error 4 in x): 79, [5600+1000]":                                         "", // the name of a process, and of a file
		"x SXid (PCI:0000[77]: segfault at 0 ip 55d0 sp 7ffd error 4 in a): 20034, b[5600+1000]":                                    "",
		"trap[77]: segfault at 0 ip 55d0 sp 7ffd error 4 in PCIe Bus Error: severity=Uncorrectable[5600+1000]":                      "",
		"a 0000:00:00.0 (77): PCIe Bus Error: severity=Uncorrectable":                                                               "",
		"audit: type=1400 comm=\"NVRM: Xid (PCI:0000:3b:00): 79, x\"":                                                               "",
		"usb 1-1: Product: NVRM: Xid (PCI:0000:3b:00): 79, x":                                                                       "",
		"systemd[1]: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.":                                                   "",
	} {
		got := ""
		if s := find(message); s != nil {
			got = s.ID
		}
		if got != want {
			t.Errorf("%s: %q, expected %q", message, got, want)
		}
	}
}

const fallen = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."

// What was there at first has its time and does not count; what comes later does. What processes write does not.
func TestReads(t *testing.T) {
	r, write := pipe(t)
	write(record(time.Minute, fallen))
	if v := read(t, r); v.Failures.Of("xid_fallen_off") != (fabric.FailureLines{ID: "xid_fallen_off", Last: booted.Add(time.Minute)}) {
		t.Errorf("the past: %+v", v)
	}
	write(record(50*time.Minute, fallen)[:20])
	if v := read(t, r); v.Failures.Of("xid_fallen_off").Count != 0 {
		t.Errorf("a piece: %+v", v)
	}
	write(record(50*time.Minute, fallen)[20:] + strings.Replace(record(51*time.Minute, fallen), "4,", "12,", 1) + record(2*time.Hour, fallen))
	v := read(t, r)
	if got := v.Failures.Of("xid_fallen_off"); got.Count != 2 || !got.Last.Equal(now) {
		t.Errorf("two of the kernel, one of a process: %+v", v)
	}
	if len(v.Failures) != 1 {
		t.Errorf("%+v", v)
	}
}

// A file that is missing, or one that may not be read, is an error, and read once it is there.
func TestErrors(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kmsg")
	r := New(name)
	defer r.Close()
	if _, err := r.Read(now); !os.IsNotExist(err) {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(name, []byte(record(time.Minute, fallen)), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := read(t, r); len(v.Failures) != 1 {
		t.Errorf("%+v", v)
	}
	if _, err := New(t.TempDir()).Read(now); err == nil {
		t.Error("reads a folder")
	}
}

// More than one call reads is left for the next ones, and a record without an end is dropped.
func TestBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kmsg")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, (maxReads+1)*maxRecord); err != nil { // sparse
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("\n" + record(time.Minute, fallen)); err != nil {
		t.Fatal(err)
	}
	r := New(name)
	defer r.Close()
	if v := read(t, r); len(v.Failures) != 0 || len(r.rest) > 2*maxRecord {
		t.Errorf("read all at once: %+v, %d bytes kept", v, len(r.rest))
	}
	if v := read(t, r); len(v.Failures) != 1 {
		t.Errorf("%+v", v)
	}
}

// Whatever comes, only known signatures are kept, with times that are not ahead.
func FuzzTake(f *testing.F) {
	f.Add([]byte(record(time.Minute, fallen)), []byte("6,1,9223372036854775807,-;"+fallen+"\n"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		r := New("")
		r.take(one, booted, now)
		r.take(two, booted, now)
		for _, v := range r.failures {
			if v.Last.After(now) || v.Last.Before(booted) || len(v.ID) > 64 {
				t.Errorf("%+v", v)
			}
		}
		if len(r.rest) > maxRecord {
			t.Errorf("keeps %d bytes", len(r.rest))
		}
	})
}
