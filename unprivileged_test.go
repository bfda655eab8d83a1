// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/probes"
)

// TestAnother lays out the devices of hosts, whose modes say whether NVML and ranks can be another user's.
func TestAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no other users")
	}
	if _, err := another("/nosuch", nobody, true); err != nil {
		t.Skipf("not on this host: %v", err)
	}
	for _, c := range []struct {
		name    string
		devices map[string]uint32 // modes
		uid     int
		hidden  bool   // what is loaded is not for all to read
		why     string // it stays root; empty and no user: it is to
		is      bool
	}{
		{"NVIDIA's and rdma-core's modes", map[string]uint32{"nvidia0": 0o666, "nvidiactl": 0o666, "nvidia-uvm": 0o666, "infiniband/uverbs0": 0o666, "nvidia-caps/nvidia-cap1": 0o400}, nobody, false, "", true},
		{"NVreg_DeviceFileMode=0660", map[string]uint32{"nvidia0": 0o660, "nvidiactl": 0o660}, nobody, false, "nvidia0 has mode 0660", false},
		{"one GPU that is restricted", map[string]uint32{"nvidia0": 0o666, "nvidia11": 0o660}, nobody, false, "nvidia11 has mode 0660", false},
		{"RDMA for a group", map[string]uint32{"nvidia0": 0o666, "infiniband/uverbs3": 0o660}, nobody, false, "uverbs3 has mode 0660", false},
		{"IMEX channels of root", map[string]uint32{"nvidia0": 0o666, "nvidia-caps-imex-channels/channel0": 0o600}, nobody, false, "channel0", false},
		{"a library in root's home", map[string]uint32{"nvidia0": 0o666}, nobody, true, "not readable", false},
		{"root is wanted", map[string]uint32{"nvidia0": 0o660}, 0, false, "", false},
	} {
		root := t.TempDir()
		for name, mode := range c.devices {
			device := filepath.Join(root, "dev", name)
			mkdir(t, filepath.Dir(device))
			touch(t, device)
			if err := unix.Chmod(device, mode); err != nil {
				t.Fatal(err)
			}
		}
		user, err := another(root, c.uid, !c.hidden)
		if (user != nil) != c.is || (err != nil) != (c.why != "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %+v, %v", c.name, user, err)
		}
	}
}

// TestNoUVM skips probes where CUDA would have a device made first, and only there.
func TestNoUVM(t *testing.T) {
	for _, c := range []struct {
		devices []string
		skipped bool
	}{
		{[]string{"nvidiactl", "nvidia0", "nvidia-uvm"}, false},
		{[]string{"nvidiactl", "nvidia0"}, true},
		{[]string{"dxg"}, false}, // a guest of Hyper-V
		{nil, false},             // what there is instead, the gate says
	} {
		root := t.TempDir()
		mkdir(t, root+"/dev")
		for _, name := range c.devices {
			touch(t, filepath.Join(root, "dev", name))
		}
		if s := noUVM(root); (s != nil) != c.skipped || s != nil && (s.Why != probes.SkipNoGPU || !strings.Contains(s.Detail, "nvidia-modprobe")) {
			t.Errorf("%v: %+v", c.devices, s)
		}
	}
}
