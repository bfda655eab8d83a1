// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// place makes files below a new root, which is that of all file systems.
func place(t *testing.T, environment map[string]string, files map[string]string) *Reader {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if text == "FIFO" {
			if err := syscall.Mkfifo(file, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &Reader{
		Dev: root + "/dev", Sysfs: root + "/sys", Procfs: root + "/proc", Root: root, LibraryPath: environment["LD_LIBRARY_PATH"],
		Environment: func(name string) (string, bool) { v, set := environment[name]; return v, set },
	}
}

const system = "usr/lib/x86_64-linux-gnu/"

func TestRead(t *testing.T) {
	r := place(t, map[string]string{"CUDA_VISIBLE_DEVICES": "0", "SECRET": "hunter2", "NCCL_NET_PLUGIN": "/opt/x/libnet.so,/opt/none.so"}, map[string]string{
		"dev/nvidia0": "", "dev/nvidia3": "", "dev/nvidiactl": "", "dev/nvidia-uvm": "",
		"proc/driver/nvidia/gpus/0000:1a:00.0/information": "Model: \t\t NVIDIA H100\nGPU UUID: \t GPU-11111111-2222\nDevice Minor: \t 3\n",
		"proc/driver/nvidia/gpus/../information":           "Device Minor: 0\n",
		"proc/self/status":                                 "Name:\tx\nCapEff:\t0000000000004000\n", "proc/self/uid_map": "         0          0 4294967295\n",
		"dev/infiniband/uverbs0": "no device", "dev/infiniband/rdma_cm": "", "sys/class/infiniband_verbs/uverbs0/ibdev": "mlx5_0\n", "sys/class/infiniband_verbs/uverbs0/dev": "231:192\n",
		system + "libc.so.6": "x", system + "libibverbs.so.1": "x", system + "libibverbs/libmlx5-rdmav34.so": "x", system + "libibverbs/libefa-rdmav34.so": "x",
		system + "libibverbs/libmlx5-rdmav34.so.bak": "x", "opt/x/libnet.so": "x", system + "libnccl-net.so": "x",
	})
	in := r.Read(time.Now())
	if got, want := in.GPUs.Value, []fabric.GPUNode{{Minor: 0}, {Minor: 3, Address: "0000:1a:00.0", UUID: "GPU-11111111-2222"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("GPUs %+v", got)
	}
	if v := in.Verbs.Value; len(v) != 1 || v[0].Device != "mlx5_0" || v[0].Usable.State != fabric.Unknown {
		t.Errorf("a file in the place of a device node: %+v", v)
	}
	if !in.LocksAll.Or(false) || in.Memlock.State != fabric.OK {
		t.Errorf("limits: %+v %+v", in.LocksAll, in.Memlock)
	}
	if !reflect.DeepEqual(in.Providers.Value, []string{"efa", "mlx5"}) || in.Libverbs.Value.Path != "/"+system+"libibverbs.so.1" {
		t.Errorf("libraries: %+v %+v", in.Providers, in.Libverbs)
	}
	if want := []string{"/opt/x/libnet.so", "/" + system + "libnccl-net.so"}; !reflect.DeepEqual(in.Plugins.Value, want) {
		t.Errorf("plugins: %v", in.Plugins.Value)
	}
	if want := map[string]string{"CUDA_VISIBLE_DEVICES": "0"}; !reflect.DeepEqual(in.Environment, want) {
		t.Errorf("environment: %v", in.Environment)
	}
}

// Root of another user namespace has no capability that counts.
func TestLocksAll(t *testing.T) {
	for _, c := range []struct {
		users, caps string
		want        bool
	}{{"0 0 4294967295\n", "000001ffffffffff", true}, {"0 1000 1\n", "000001ffffffffff", false}, {"0 0 4294967295\n", "0000000000000000", false}} {
		r := place(t, nil, map[string]string{"proc/self/status": "Name:\tx\nCapEff:\t" + c.caps + "\nCapBnd:\t0\n", "proc/self/uid_map": c.users})
		if got := r.locksAll(time.Now()); got.State != fabric.OK || got.Value != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	if got := place(t, nil, map[string]string{"proc/self/status": "x", "proc/self/uid_map": "x"}).locksAll(time.Now()); got.State != fabric.Unknown {
		t.Errorf("%+v", got)
	}
}

// What is hostile neither blocks nor is taken for anything.
func TestHostile(t *testing.T) {
	files := map[string]string{
		"dev/infiniband/uverbs0": "FIFO", "dev/infiniband/uverbs99999999": "", "proc/self/status": "FIFO", "proc/self/uid_map": "",
		"sys/class/infiniband_verbs/uverbs0/dev": "231:192\n", "proc/driver/nvidia/gpus/0000:1a:00.0/information": "FIFO",
		"lib1/libibverbs.so.1": "FIFO", "lib1/libnccl-net.so": "FIFO", "etc/ld.so.cache": "FIFO", "lib2": "file", "dev/nvidia0": "",
	}
	environment := map[string]string{"LD_LIBRARY_PATH": "/lib1:/lib2:/none:relative:" + strings.Repeat("/x:", 10000), "NCCL_NET_PLUGIN": strings.Repeat("/lib1/libnccl-net.so,", 1e5)}
	in := place(t, environment, files).Read(time.Now())
	if in.Libverbs.State != fabric.Unknown || in.Plugins.State != fabric.Unknown || in.Providers.State != fabric.Unknown {
		t.Errorf("libraries: %+v %+v %+v", in.Libverbs, in.Plugins, in.Providers)
	}
	if v := in.Verbs.Value; len(v) != 1 || v[0].Usable.State != fabric.Unknown {
		t.Errorf("nodes: %+v", v)
	}
	if len(in.GPUs.Value) != 1 || in.GPUs.Value[0].Address != "" {
		t.Errorf("GPUs: %+v", in.GPUs)
	}
	if in := place(t, nil, nil).Read(time.Now()); in.Verbs.State != fabric.OK || len(in.Verbs.Value) > 0 || in.GPUs.State != fabric.Unknown {
		t.Errorf("an empty root: %+v", in)
	}
}
