// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"
)

// What a plugin or the cabling asks for stays, and other values are named with what is asked for.
func TestWants(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0 NCCL_ALGO=Ring NCCL_PROTO=Simple NCCL_MIN_NCHANNELS=8 NCCL_BUFFSIZE=4194304", ""},
		{"NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0 NCCL_PROTO=LL", "NCCL_PROTO=LL: not_recommended (info): The guide of GPUDirect-TCPX has NCCL_PROTO=Simple -> NCCL_PROTO=Simple\n"},
		{"NCCL_NET=gIB NCCL_IB_TC=52 NCCL_IB_GID_INDEX=3", ""},
		{"NCCL_NET=gIB NCCL_IB_FIFO_TC=48", "NCCL_IB_FIFO_TC=48: not_recommended (info): The guide of gIB has NCCL_IB_FIFO_TC=84"},
		{"FI_PROVIDER=efa NCCL_PROTO=simple", ""},
		{"NCCL_PROTO=simple", "remove the line"},
		{"NCCL_IB_SUBNET_AWARE_ROUTING=1 NCCL_CROSS_NIC=1", ""},
		{"NCCL_CROSS_NIC=1", "remove the line, unless the cabling wants it"},
	} {
		got := lintText(t, "export "+c.text+"\n", FormatShell, "2.30.7")
		if c.want == "" && strings.Contains(got, "not_recommended") || c.want != "" && !strings.Contains(got, c.want) || strings.Contains(got, "warning") {
			t.Errorf("%s: want %q\n%s", c.text, c.want, got)
		}
	}
}

// GPUDirect-TCPXO ends jobs whose settings are not those of its release.
func TestTCPXO(t *testing.T) {
	const differ = "GPUDirect-TCPXO compares settings, and ends the job where they differ: "
	for _, c := range []struct{ image, text, want string }{
		{"", "NCCL_PROTO=Simple NCCL_ALGO=Ring,Tree NCCL_NVLS_ENABLE=0", ""},
		{"", "NCCL_PROTO=Simple,LL128 NCCL_NVLSTREE_MAX_CHUNKSIZE=131072", ""},
		{"", "NCCL_PROTO=Simple,LL128", "undecided (info): " + differ + "up to v1.0.8 with NCCL_PROTO=Simple, NCCL_ALGO=Ring,Tree, NCCL_NVLS_ENABLE=0; v1.0.9 to"},
		{"v1.0.7", "NCCL_PROTO=Simple,LL128 NCCL_ALGO=Ring,Tree NCCL_NVLS_ENABLE=0", "wrong_here (warning): " + differ + "up to v1.0.8 with NCCL_PROTO=Simple, NCCL_ALGO=Ring,Tree, NCCL_NVLS_ENABLE=0 ->"},
		{"v1.0.8", "NCCL_PROTO=Simple,LL128 NCCL_ALGO=Ring,Tree NCCL_NVLS_ENABLE=0 NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE=/x/a3plus_guest_config_ll128.textproto", ""},
		{"v1.0.14", "NCCL_PROTO=Simple,LL128 NCCL_ALGO=Ring,Tree", "wrong_here (warning): " + differ + "from v1.0.12 on with"},
		{"v1.0.11", "NCCL_PROTO=Simple,LL128 NCCL_ALGO=ring,tree NCCL_NVLS_ENABLE=0", ""},
		{"v1.0.11\nsource /x/nccl-env-profile.sh", "NCCL_PROTO=Simple", ""},
	} {
		got := lintText(t, "export NCCL_FASTRAK_CTRL_DEV=eth0 "+c.text+"\n# gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev:"+c.image+"\n", FormatShell, "2.30.7")
		if c.want == "" && strings.Contains(got, differ) || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: want %q\n%s", c.image, c.text, c.want, got)
		}
	}
}

// RCCL has other defaults and ranges; how a value is written and names that do not exist are judged.
func TestRCCL(t *testing.T) {
	const not = "works (info): For RCCL, not judged: its defaults and ranges are its own\n"
	got := lintText(t, "# ROCm 7\nexport NCCL_MIN_NCHANNELS=112 NCCL_DMABUF_ENABLE=1 NCCL_GDR_FLUSH_DISABLE=1 NCCL_BUFFSIZE=4M NCCL_MIN_CHANNEL=3 NCCL_DEBUG=DEBUG NCCL_TREE_THRESHOLD=0 NCCL_SHM_MEMCPY_MODE=2 NCCL_IB_HCA=mlx5_6 NCCL_FLUSH_MINE=1 NCCL_IB_RETRY_CNT=21\n", FormatShell, "2.30.7")
	for _, want := range []string{
		"NCCL_MIN_NCHANNELS=112: " + not, "NCCL_DMABUF_ENABLE=1: " + not, "NCCL_GDR_FLUSH_DISABLE=1: " + not, "NCCL_BUFFSIZE=4M: refused",
		"NCCL_MIN_CHANNEL=***: unknown_variable (warning)", "NCCL_DEBUG=DEBUG: misread (warning)", "NCCL_TREE_THRESHOLD=0: ignored (warning)", "NCCL_SHM_MEMCPY_MODE=2: " + not,
		"NCCL_IB_HCA=mlx5_6: works\n", "NCCL_IB_RETRY_CNT=21: misread (warning)", "NCCL_FLUSH_MINE=***: not_nccl (info): No release of NCCL up to 2.30.7 reads it; whether RCCL does is not known\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// What a release does that is newer than the tables is not known.
func TestNewerRelease(t *testing.T) {
	for text, want := range map[string]string{
		"NCCL_MINE_NEW=1":     "undecided (info): No release of NCCL up to 2.30.7 reads it; whether 2.31.2 does is not known",
		"NCCL_IB_HCAS=x":      "undecided (info)",
		"NCCL_ALGO=Star":      "undecided (info): With NCCL 2.30.7: ",
		"NCCL_CROSS_NIC=4":    "undecided (info): With NCCL 2.30.7: ",
		"NCCL_CROSS_NIC=2":    "default (info): It is what NCCL 2.30.7 does by default",
		"NCCL_DEBUG=\"WARN\"": "misread (warning)",
		"NCCL_TIMEOUT=3":      "unknown_variable (warning)",
	} {
		if got := lintText(t, text+"\n", FormatConf, "2.31.2"); !strings.Contains(got, want) {
			t.Errorf("%s: want %q\n%s", text, want, got)
		}
	}
}

// Names of interfaces are none of devices, and ^ is for a whole list.
func TestNamesInLists(t *testing.T) {
	for text, want := range map[string]string{
		"NCCL_IB_HCA=ib0":                          "misread (warning): ib0 is the name of a network interface",
		"NCCL_IB_HCA==mlx5_0,ens9np0:1":            "misread (warning): ens9np0 is",
		"NCCL_IB_HCA=ibp12s0,rocep1s0f0,mlx5_bond": "works\n",
		"NCCL_SOCKET_IFNAME=ib0,bond0":             "works\n",
		"NCCL_SOCKET_IFNAME=^lo,^virbr":            "misread (warning): ^ counts at the beginning alone, for the whole list: ^virbr is a name that nothing has -> NCCL_SOCKET_IFNAME=^lo,virbr\n",
		"NCCL_SOCKET_IFNAME=^lo,virbr":             "works\n",
	} {
		if got := lintText(t, text+"\n", FormatEnv, "2.30.7"); !strings.Contains(got, want) {
			t.Errorf("%s: want %q\n%s", text, want, got)
		}
	}
}
