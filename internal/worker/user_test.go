// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInPlaceOfRoot lays out the devices of hosts, whose modes say whether NVML and ranks can be another user's.
func TestInPlaceOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no other users")
	}
	if _, err := InPlaceOfRoot("/nosuch", 65534, true); err != nil {
		t.Skipf("not on this host: %v", err)
	}
	const nobody = 65534
	for _, c := range []struct {
		name    string
		devices map[string]os.FileMode
		uid     int
		hidden  bool   // what is loaded is not for all to read
		why     string // it stays root; empty and no user: it is to
		is      bool
	}{
		{"NVIDIA's and rdma-core's modes", map[string]os.FileMode{"nvidia0": 0o666, "nvidiactl": 0o666, "nvidia-uvm": 0o666, "infiniband/uverbs0": 0o666, "nvidia-caps/nvidia-cap1": 0o400}, nobody, false, "", true},
		{"NVreg_DeviceFileMode=0660", map[string]os.FileMode{"nvidia0": 0o660, "nvidiactl": 0o660}, nobody, false, "nvidia0 has mode 0660", false},
		{"one GPU that is restricted", map[string]os.FileMode{"nvidia0": 0o666, "nvidia11": 0o660}, nobody, false, "nvidia11 has mode 0660", false},
		{"RDMA for a group", map[string]os.FileMode{"nvidia0": 0o666, "infiniband/uverbs3": 0o660}, nobody, false, "uverbs3 has mode 0660", false},
		{"IMEX channels of root", map[string]os.FileMode{"nvidia0": 0o666, "nvidia-caps-imex-channels/channel0": 0o600}, nobody, false, "channel0", false},
		{"a library in root's home", map[string]os.FileMode{"nvidia0": 0o666}, nobody, true, "not readable", false},
		{"root is wanted", map[string]os.FileMode{"nvidia0": 0o660}, 0, false, "", false},
	} {
		root := t.TempDir()
		for name, mode := range c.devices {
			device := filepath.Join(root, "dev", name)
			if err := os.MkdirAll(filepath.Dir(device), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(device, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(device, mode); err != nil {
				t.Fatal(err)
			}
		}
		user, err := InPlaceOfRoot(root, c.uid, !c.hidden)
		if (user != nil) != c.is || (err != nil) != (c.why != "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %+v, %v", c.name, user, err)
		}
	}
}
