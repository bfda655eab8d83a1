// SPDX-License-Identifier: Apache-2.0

package ncclprobe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVet lays out hosts on each of which another user may decide on one file that a rank would load or read, and
// those of real sites, on which no other user may.
func TestVet(t *testing.T) {
	const (
		efa   = "opt/amazon/ofi-nccl/lib/libnccl-net.so"
		hpcx  = "opt/hpcx/nccl/libnccl-net-hpcx.so"
		users = "home/u/libnccl-net.so" // home/u is writable for all
		multi = "usr/lib/x86_64-linux-gnu/libnccl-tuner.so"
	)
	for _, c := range []struct {
		name  string
		env   []string
		nccl  string
		files []string
		open  string // becomes writable for all
		want  string // in the error; empty: none
	}{
		{name: "nothing"},
		{name: "what the probe sets itself", env: []string{"NCCL_DEBUG_FILE=/proc/self/fd/5", "NCCL_CONF_FILE=/dev/null", "NCCL_PROFILER_PLUGIN=none", "NCCL_GRAPH_DUMP_FILE=/dev/null"}},
		{name: "EFA: root's plugin by its path", env: []string{"NCCL_NET_PLUGIN=/" + efa}, files: []string{efa}},
		{name: "EFA: in LD_LIBRARY_PATH", env: []string{"LD_LIBRARY_PATH=/opt/amazon/ofi-nccl/lib:/none"}, files: []string{efa}},
		{name: "HPC-X: by its suffix", env: []string{"NCCL_NET_PLUGIN=hpcx", "LD_LIBRARY_PATH=/opt/hpcx/nccl"}, files: []string{hpcx}},
		{name: "no paths", env: []string{"NCCL_IB_ADDR_RANGE=10.0.0.0/8", "NCCL_IB_ADDR_RANGE=fe80::/10", "NCCL_IB_HCA==mlx5_0:1,mlx5_1", "UCX_TLS=rc,sm", "NCCL_SOCKET_IFNAME=^lo,docker0"}},
		{name: "root's topology file", env: []string{"NCCL_TOPO_FILE=/etc/topo.xml"}, files: []string{"etc/topo.xml"}},
		{name: "a file that is not there", env: []string{"NCCL_TOPO_FILE=/etc/none/topo.xml"}},
		{name: "a plugin that is not there", env: []string{"NCCL_TUNER_PLUGIN=none-such"}},

		{name: "another's plugin by its path", env: []string{"NCCL_NET_PLUGIN=/" + users}, files: []string{users}, want: "NCCL_NET_PLUGIN"},
		{name: "by its path from /", env: []string{"NCCL_TUNER_PLUGIN=home/u/x.so"}, want: "NCCL_TUNER_PLUGIN"},
		{name: "in a list", env: []string{"NCCL_NET_PLUGIN=none,/" + users}, files: []string{users}, want: "NCCL_NET_PLUGIN"},
		{name: "one that comes later", env: []string{"NCCL_ENV_PLUGIN=/home/u/none.so"}, want: "NCCL_ENV_PLUGIN"},
		{name: "a plugin that NCCL has learnt of since", env: []string{"NCCL_NEW_PLUGIN=/" + users}, files: []string{users}, want: "NCCL_NEW_PLUGIN"},
		{name: "LD_LIBRARY_PATH", env: []string{"LD_LIBRARY_PATH=/opt:/home/u"}, want: "LD_LIBRARY_PATH"},
		{name: "LD_LIBRARY_PATH from /", env: []string{"LD_LIBRARY_PATH=home/u"}, want: "LD_LIBRARY_PATH"},
		{name: "LD_LIBRARY_PATH with $ORIGIN", env: []string{"LD_LIBRARY_PATH=/opt/$ORIGIN/../../home/u"}, want: "without $"},
		{name: "a suffix in LD_LIBRARY_PATH", env: []string{"NCCL_NET_PLUGIN=hpcx", "LD_LIBRARY_PATH=/opt/hpcx/nccl"}, files: []string{hpcx}, open: hpcx, want: "NCCL_NET_PLUGIN"},
		{name: "by default", files: []string{multi}, open: multi, want: "NCCL_TUNER_PLUGIN"},
		{name: "by default, for a processor", env: []string{"LD_LIBRARY_PATH=/opt/x"}, files: []string{"opt/x/glibc-hwcaps/x86-64-v3/libnccl-net.so"}, open: "opt/x/glibc-hwcaps/x86-64-v3", want: "NCCL_NET_PLUGIN"},
		{name: "by default, but switched off", env: []string{"NCCL_TUNER_PLUGIN=none"}, files: []string{multi}, open: multi},
		{name: "libibverbs", env: []string{"NCCL_IBVERBS_LIB=/home/u/libibverbs.so"}, want: "NCCL_IBVERBS_LIB"},
		{name: "libibverbs by name", env: []string{"NCCL_IBVERBS_LIB=libibverbs.so.9", "LD_LIBRARY_PATH=/opt"}, files: []string{"opt/libibverbs.so.9"}, open: "opt/libibverbs.so.9", want: "NCCL_IBVERBS_LIB"},
		{name: "topology file", env: []string{"NCCL_TOPO_FILE=/home/u/topo.xml"}, want: "NCCL_TOPO_FILE"},
		{name: "modules of UCX", env: []string{"UCX_MODULE_DIR=/home/u"}, want: "UCX_MODULE_DIR"},
		{name: "providers of libfabric, in a list", env: []string{"FI_PROVIDER_PATH=/opt:@/home/u/libx.so"}, want: "FI_PROVIDER_PATH"},
		{name: "behind a word", env: []string{"UCX_CONFIG=file:/home/u/ucx.conf"}, want: "UCX_CONFIG"},
		{name: "another's library in root's folder", env: []string{"LD_LIBRARY_PATH=/opt/x"}, files: []string{"opt/x/libfabric.so.1"}, open: "opt/x/libfabric.so.1", want: "LD_LIBRARY_PATH"},
		{name: "another's text in root's folder", env: []string{"LD_LIBRARY_PATH=/opt/x"}, files: []string{"opt/x/notes.txt"}, open: "opt/x/notes.txt"},
		{name: "another's module in root's folder", env: []string{"UCX_MODULE_DIR=/opt/x"}, files: []string{"opt/x/libuct_ib.so"}, open: "opt/x/libuct_ib.so", want: "UCX_MODULE_DIR"},
		{name: "modules of UCX from /", env: []string{"UCX_MODULE_DIR=home"}, open: "home", want: "UCX_MODULE_DIR"},
		{name: "libibverbs by default", files: []string{"usr/lib/libibverbs.so.1"}, open: "usr/lib/libibverbs.so.1", want: "NCCL_IBVERBS_LIB"},
		{name: "more parts than allowed", env: []string{"UCX_X=/" + strings.Repeat(",a", 100)}, want: "UCX_X"},
		{name: "the library", nccl: "/home/u/libnccl.so.2", want: "library"},
		{name: "the library by name", nccl: "libnccl.so.2", files: []string{"usr/lib/libnccl.so.2"}, open: "usr/lib/libnccl.so.2", want: "library"},
		{name: "NCCL's own file", files: []string{systemConf[1:]}, open: systemConf[1:], want: systemConf},
		{name: "NCCL's own file, one that comes later", open: "etc", want: "in every process"},
		{name: "the user's own file", files: []string{"root/.nccl.conf"}, open: "root/.nccl.conf", want: "/root/.nccl.conf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := lay(t, append(c.files, "home/u/x", "opt/x/x", "etc/passwd")...)
			if err := os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("daemon:x:1:1::/:/bin/sh\nroot:x:0:0:root:/root:/bin/sh\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"home/u", c.open} {
				if name == "" {
					continue
				}
				if err := os.Chmod(filepath.Join(root, name), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Vet(root, Errand{NCCL: c.nccl, CUDA: "libcuda.so.1", Env: c.env, UIDs: []int{1, 0}})
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
}

// TestMissingDevice finds it where CUDA would have a device made first, and only there.
func TestMissingDevice(t *testing.T) {
	for _, c := range []struct {
		devices []string
		missing bool
	}{
		{[]string{"nvidiactl", "nvidia0", "nvidia-uvm"}, false},
		{[]string{"nvidiactl", "nvidia0"}, true},
		{[]string{"dxg"}, false}, // a guest of Hyper-V
		{nil, false},             // what there is instead, the gate says
	} {
		root := t.TempDir()
		if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range c.devices {
			if err := os.WriteFile(filepath.Join(root, "dev", name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := MissingDevice(root); (err != nil) != c.missing || err != nil && !strings.Contains(err.Error(), "nvidia-modprobe") {
			t.Errorf("%v: %v", c.devices, err)
		}
	}
}
