// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/probestest"
)

// value is that of a variable in an environment, and fails the test if it is there twice.
func value(t *testing.T, env []string, name string) (string, bool) {
	t.Helper()
	v, found := "", false
	for _, s := range env {
		if rest, is := strings.CutPrefix(s, name+"="); is {
			if found {
				t.Errorf("%s is set twice", name)
			}
			v, found = rest, true
		}
	}
	return v, found
}

// expectEnv checks variables; a value of "unset" is none at all.
func expectEnv(t *testing.T, env []string, want map[string]string) {
	t.Helper()
	for name, v := range want {
		got, found := value(t, env, name)
		if v == "unset" && found || v != "unset" && (!found || got != v) {
			t.Errorf("%s is %q (set: %v), expected %q", name, got, found, v)
		}
	}
}

// Messages too small for the number of ranks are left out of every plan.
func TestPlanLeavesOutWhatIsTooSmall(t *testing.T) {
	wants := func(op probes.Op, sizes ...uint64) []Want {
		var all []Want
		for _, size := range sizes {
			all = append(all, Want{Op: op, Type: probes.Float32, Bytes: size})
		}
		return all
	}
	for _, tt := range []struct {
		op    probes.Op
		sizes []uint64
		want  int
	}{
		{probes.AllReduce, []uint64{1, 3, 4, 8}, 2}, {probes.AllGather, []uint64{8, 31, 32, 64}, 2}, {probes.ReduceScatter, []uint64{8, 16, 32}, 1}, {probes.SendRecv, []uint64{4}, 1}, {probes.AllGather, []uint64{8}, 0},
	} {
		given := wants(tt.op, tt.sizes...)
		p := planned(t, probes.Key{Kind: probes.Node}, Settings{Wants: given})
		if len(p.Settings.Wants) != tt.want || !slices.Equal(p.Settings.Wants, wants(tt.op, tt.sizes...)[len(tt.sizes)-tt.want:]) {
			t.Errorf("%s of %v over 8 ranks: %v, expected the last %d", tt.op, tt.sizes, p.Settings.Wants, tt.want)
		}
		if !slices.Equal(given, wants(tt.op, tt.sizes...)) {
			t.Errorf("the settings have changed: %v", given)
		}
	}
}

func TestPlanGPUs(t *testing.T) {
	rail := func(device string) probes.Key { return probes.Key{Kind: probes.Rail, Device: device, Port: 1} }
	for _, tt := range []struct {
		name     string
		key      probes.Key
		gpus     int
		settings Settings
		change   func(*fabric.Node)
		want     string // GPUs, or why not
	}{
		{"transport", probes.Key{Kind: probes.Transport}, 8, Settings{}, nil, "GPU-0"},
		{"node", probes.Key{Kind: probes.Node}, 8, Settings{}, nil, "GPU-0 GPU-1 GPU-2 GPU-3 GPU-4 GPU-5 GPU-6 GPU-7"},
		{"node, some", probes.Key{Kind: probes.Node}, 8, Settings{Ranks: 4}, nil, "GPU-0 GPU-1 GPU-2 GPU-3"},
		{"node, more than there are", probes.Key{Kind: probes.Node}, 8, Settings{Ranks: 9}, nil, "no_gpu: 8 GPUs, expected at least 9"},
		{"node with one GPU", probes.Key{Kind: probes.Node}, 1, Settings{}, nil, "no_gpu: 1 GPU, expected at least 2"},
		{"calibrate", probes.Key{Kind: probes.Calibrate}, 2, Settings{}, nil, "GPU-0 GPU-1"},
		{"socket", probes.Key{Kind: probes.Socket}, 8, Settings{}, nil, "GPU-0 GPU-1"},
		{"socket with one GPU", probes.Key{Kind: probes.Socket}, 1, Settings{}, nil, "GPU-0 GPU-0"},
		{"rail", rail("mlx5_2"), 8, Settings{}, nil, "GPU-4 GPU-5"},
		{"rail with one GPU", rail("mlx5_0"), 1, Settings{}, nil, "GPU-0 GPU-0"},
		{"rail with one near GPU", rail("mlx5_2"), 5, Settings{}, nil, "GPU-4 GPU-0"},
		{"no GPU", probes.Key{Kind: probes.Transport}, 0, Settings{}, nil, "no_gpu: no GPU that could be used"},
		{"no driver", probes.Key{Kind: probes.Transport}, 8, Settings{}, func(n *fabric.Node) { n.GPUDriver.Loaded = fabric.Known(false, "", n.At) }, "no_gpu: no GPU driver is loaded"},
		{
			"driver not known",
			probes.Key{Kind: probes.Transport},
			8,
			Settings{},
			func(n *fabric.Node) { n.GPUDriver.Loaded = fabric.UnknownFact[bool](fabric.ReasonTimeout, "", n.At) }, "cannot_prove_idle: the GPU driver: timeout",
		},
		{"a GPU that is lost", probes.Key{Kind: probes.Node}, 8, Settings{}, func(n *fabric.Node) { n.GPUDriver.GPUs[3].Lost = fabric.Known(true, "", n.At) }, "no_gpu: GPU 3 cannot be used"},
		{"a GPU that cannot be opened", probes.Key{Kind: probes.Rail, Device: "mlx5_0", Port: 1}, 8, Settings{}, func(n *fabric.Node) { n.GPUDriver.GPUs[3] = fabric.GPU{Index: 3} }, "no_gpu: GPU 3 cannot be used"},
		{"no such HCA", rail("mlx5_9"), 8, Settings{}, nil, `no_device: no RDMA device "mlx5_9"`},
		{"no such port", probes.Key{Kind: probes.Rail, Device: "mlx5_0", Port: 2}, 8, Settings{}, nil, "no_device: mlx5_0 has no port 2"},
		{"port down", rail("mlx5_0"), 8, Settings{}, func(n *fabric.Node) { n.HCAs[0].Ports[0].State = fabric.Known(fabric.PortDown, "", n.At) }, "no_device: mlx5_0 port 1 is down, expected active"},
		{
			"port not known", rail("mlx5_0"), 8,
			Settings{},
			func(n *fabric.Node) {
				n.HCAs[0].Ports[0].State = fabric.UnknownFact[fabric.PortState](fabric.ReasonStuck, "", n.At)
			}, "no_device: mlx5_0 port 1 is unknown, expected active",
		},
		{"restricted", rail("mlx5_0"), 8, Settings{}, func(n *fabric.Node) { n.HCAs[0].Restricted = fabric.Known(true, "", n.At) }, "no_device: mlx5_0 must not be touched"},
		{"perhaps restricted", rail("mlx5_0"), 8, Settings{}, func(n *fabric.Node) { n.HCAs[0].Restricted = fabric.Fact[bool]{} }, "no_device: mlx5_0 must not be touched"},
		{
			"EFA", rail("mlx5_0"), 8, Settings{}, func(n *fabric.Node) {
				n.HCAs[0].Ports[0].LinkLayer = fabric.Known(fabric.LinkUnspecified, "", n.At)
			}, "no_device: link layer of mlx5_0 port 1: unspecified, expected infiniband or ethernet",
		},
		{"no such kind", probes.Key{Kind: "loopback"}, 8, Settings{}, nil, `no_device: kind "loopback", expected one of [transport node rail socket calibrate]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := probestest.Node(tt.gpus)
			if tt.change != nil {
				tt.change(n)
			}
			p, skip := New(tt.key, n, tt.settings)
			got := ""
			if skip != nil {
				got = fmt.Sprintf("%s: %s", skip.Why, skip.Detail)
			} else {
				var ids []string
				for _, r := range p.Ranks {
					ids = append(ids, r.UUID)
					if g := n.GPUDriver.At(r.Address); g == nil || g.UUID != r.UUID {
						t.Errorf("%s is not at %s", r.UUID, r.Address)
					}
				}
				got = strings.Join(ids, " ")
			}
			if got != tt.want {
				t.Errorf("%s, expected %s", got, tt.want)
			}
		})
	}
}

func TestPlanEnvironment(t *testing.T) {
	const every = "1"
	n := probestest.Node(8)
	n.NCCL.Variables = []fabric.NCCLVariable{
		{Name: "NCCL_BUFFSIZE", Value: "8388608"},
		{Name: "NCCL_COMM_ID", Value: "10.0.0.1:9999"},
		{Name: "NCCL_DEBUG", Value: "WARN"},
		{Name: "NCCL_DEBUG_FILE", Value: "/var/log/nccl.%h.%p"},
		{Name: "NCCL_IB_HCA", Value: "mlx5"},
		{Name: "NCCL_IB_TC", Value: "106"},
		{Name: "NCCL_INSPECTOR_DUMP_DIR", Value: "/var/log/nccl"},
		{Name: "NCCL_MIN_NCHANNELS", Value: "32"},
		{Name: "NCCL_NET", Value: "AWS Libfabric"},
		{Name: "NCCL_NVLS_ENABLE", Value: "1"},
		{Name: "NCCL_TOPO_DUMP_FILE", Value: "/var/tmp/topo.xml"},
	}
	settings := Settings{MaxCTAs: 4, Environment: []string{"LD_LIBRARY_PATH=/opt/nccl", "NCCL_IB_TC=96", "NCCL_NET_PLUGIN=ofi", "NCCL_HOSTID=x", "PATH=/bin", "NCCL_CROSS_NIC=1"}}
	common := map[string]string{
		"NCCL_RAS_ENABLE": "0", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": DefaultLogPath, "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH,BOOTSTRAP",
		"NCCL_COMM_BLOCKING": "0", "NCCL_COMM_ID": "unset", "NCCL_MIN_NCHANNELS": "", "NCCL_MAX_NCHANNELS": "", "NCCL_TOPO_DUMP_FILE": "/dev/null",
		"NCCL_INSPECTOR_DUMP_DIR": "unset", "NCCL_INSPECTOR_ENABLE": "0", "NCCL_PROFILER_PLUGIN": "none", "NCCL_CONF_FILE": "/dev/null", "HOME": "unset",
		"PATH": "unset", "LD_LIBRARY_PATH": "/opt/nccl", "NCCL_IB_TC": "96", "NCCL_GIN_ENABLE": "0", "CUDA_CACHE_DISABLE": every,
		"LD_PRELOAD": "unset", "CUDA_VISIBLE_DEVICES": "unset",
	}
	light := map[string]string{"NCCL_MIN_CTAS": "1", "NCCL_MAX_CTAS": "4", "NCCL_NVLS_ENABLE": "0"}
	apart := map[string]string{"NCCL_MNNVL_ENABLE": "0", "NCCL_COLLNET_ENABLE": "0", "NCCL_NET_PLUGIN": "none"}
	for _, tt := range []struct {
		key  probes.Key
		want []map[string]string
	}{
		{probes.Key{Kind: probes.Transport}, []map[string]string{light, {"NCCL_BUFFSIZE": "1048576", "NCCL_NET": "AWS Libfabric", "NCCL_NET_PLUGIN": "ofi", "NCCL_IB_HCA": "mlx5", "NCCL_HOSTID": "unset"}}},
		{probes.Key{Kind: probes.Node}, []map[string]string{light, {"NCCL_BUFFSIZE": "1048576", "NCCL_NET": "AWS Libfabric", "NCCL_CROSS_NIC": "1", "NCCL_HOSTID": "unset", "NCCL_MNNVL_ENABLE": "unset"}}},
		{probes.Key{Kind: probes.Rail, Device: "mlx5_1", Port: 1}, []map[string]string{light, apart, {
			"NCCL_BUFFSIZE": "8388608", "NCCL_NET": "IB", "NCCL_IB_HCA": "=mlx5_1:1", "NCCL_IB_DISABLE": "0", "NCCL_CROSS_NIC": "0",
			"NCCL_PXN_DISABLE": every, "NCCL_NETDEVS_POLICY": "ALL", "NCCL_IB_MERGE_NICS": "0", "NCCL_NET_MERGE_LEVEL": "LOC",
		}}},
		{probes.Key{Kind: probes.Socket}, []map[string]string{light, apart, {"NCCL_NET": "Socket", "NCCL_IB_HCA": "mlx5", "NCCL_CROSS_NIC": "1"}}},
		{probes.Key{Kind: probes.Calibrate}, []map[string]string{{"NCCL_BUFFSIZE": "8388608", "NCCL_MIN_CTAS": "", "NCCL_MAX_CTAS": "", "NCCL_NVLS_ENABLE": "1", "NCCL_NET": "AWS Libfabric"}}},
	} {
		t.Run(string(tt.key.Kind), func(t *testing.T) {
			p, skip := New(tt.key, n, settings)
			if skip != nil {
				t.Fatal(skip)
			}
			ids := map[string]bool{}
			for _, r := range p.Ranks {
				for _, want := range append(tt.want, common) {
					expectEnv(t, r.Env, want)
				}
				id, _ := value(t, r.Env, "NCCL_HOSTID")
				ids[id] = true
			}
			if tt.key.Kind == probes.Rail || tt.key.Kind == probes.Socket {
				if len(ids) != 2 || ids[""] || ids["x"] {
					t.Errorf("host ids %v, expected two that differ", ids)
				}
			}
		})
	}
}

func TestPlanExpects(t *testing.T) {
	rail := probes.Key{Kind: probes.Rail, Device: "mlx5_0", Port: 1}
	links := func(kind fabric.NVLinkEnd, speed float64) func(*fabric.Node) {
		return func(n *fabric.Node) {
			for i := range n.GPUDriver.GPUs {
				l := fabric.NVLink{Speed: fabric.Known(speed, "", n.At), RemoteKind: fabric.Known(kind, "", n.At)}
				n.GPUDriver.GPUs[i].NVLinks = fabric.Known(slices.Repeat([]fabric.NVLink{l}, 18), "", n.At)
			}
		}
	}
	for _, tt := range []struct {
		name   string
		key    probes.Key
		gpus   int
		change func(*fabric.Node)
		want   float64
	}{
		{"node", probes.Key{Kind: probes.Node}, 8, links(fabric.NVLinkToSwitch, 25e9), 0},
		{"rail", rail, 8, nil, 45e9},
		{"rail with one GPU", rail, 1, nil, 0},
		{"rail with one near GPU", probes.Key{Kind: probes.Rail, Device: "mlx5_2", Port: 1}, 5, nil, 0},
		{"rail of unknown rate", rail, 8, func(n *fabric.Node) { n.HCAs[0].Ports[0].Rate = fabric.Fact[fabric.Rate]{} }, 0},
		{"calibrate with NVSwitches", probes.Key{Kind: probes.Calibrate}, 8, links(fabric.NVLinkToSwitch, 25e9), 351e9},
		{"calibrate with the rate that NVML reports", probes.Key{Kind: probes.Calibrate}, 8, links(fabric.NVLinkToSwitch, 26.562e9), 351e9},
		{"calibrate with bridges", probes.Key{Kind: probes.Calibrate}, 8, links(fabric.NVLinkToGPU, 25e9), 0},
		{"calibrate over PCIe", probes.Key{Kind: probes.Calibrate}, 8, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := probestest.Node(tt.gpus)
			if tt.change != nil {
				tt.change(n)
			}
			p, skip := New(tt.key, n, Settings{})
			if skip != nil {
				t.Fatal(skip)
			}
			if d := p.Expected - tt.want; d > 1 || d < -1 {
				t.Errorf("expects %g, expected %g", p.Expected, tt.want)
			}
		})
	}
}

func TestPlanOfCalibrate(t *testing.T) {
	given := Settings{MaxCTAs: 4, Bytes: 1 << 20, Collective: DefaultCollective, Deadline: DefaultDeadline}
	for _, s := range []Settings{{}, given} {
		p := planned(t, probes.Key{Kind: probes.Calibrate}, s)
		if s := p.Settings; s.MaxCTAs != 0 || s.Collective != 10*DefaultCollective || s.Deadline != 10*DefaultDeadline || s.Budget != DefaultBudget || s.Wants[0].Bytes != 1<<30 {
			t.Errorf("%+v", s)
		}
	}
	if p := planned(t, probes.Key{Kind: probes.Node}, given); p.Settings.MaxCTAs != 4 || p.Settings.Collective != DefaultCollective || p.Settings.Deadline != DefaultDeadline || p.Settings.Wants[1].Bytes != 1<<20 {
		t.Errorf("%+v", p.Settings)
	}
}

func TestRailKeys(t *testing.T) {
	n := probestest.Node(8)
	if got := fmt.Sprint(RailKeys(n)); got != "[{rail mlx5_0 1} {rail mlx5_1 1} {rail mlx5_2 1} {rail mlx5_3 1}]" {
		t.Error(got)
	}
	n.HCAs[0].Ports[0].Role = fabric.Known(fabric.RoleStorage, "", n.At)
	n.HCAs[2].Ports[0].State = fabric.Known(fabric.PortDown, "", n.At)
	n.HCAs[3].Ports[0].Role = fabric.Fact[fabric.Role]{}
	if got := fmt.Sprint(RailKeys(n)); got != "[{rail mlx5_1 1}]" {
		t.Error(got)
	}
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		settings Settings
		want     []string // in the error; none: valid
	}{
		{Settings{}, nil},
		{Settings{Wants: []Want{{Op: probes.SendRecv, Type: probes.BFloat16, Bytes: 8}, {Op: probes.AllReduce, Type: probes.Int32, Bytes: 16 << 30, Iterations: 1000, Warmups: 2}}, MaxCTAs: 32, Ranks: 8}, nil},
		{
			Settings{Wants: []Want{{Op: "all_to_all", Type: "float8", Iterations: -1, Warmups: -1}}, Op: "x", Type: "y", Bytes: 1 << 63, MaxCTAs: 65, Ranks: -1, Budget: -1, Deadline: 1 << 62},
			[]string{`operation "all_to_all"`, `type "float8"`, "a message of 0 bytes", "-1 iterations", "-1 iterations before", `operation "x"`, `type "y"`, "a message of 9223372036854775808 bytes", "65 channels", "-1 ranks", "a time of -1ns", "a time of 1281023h53m38"},
		},
		{Settings{Wants: slices.Repeat([]Want{{Op: probes.AllReduce, Type: probes.Float32, Bytes: 8}}, 65)}, []string{"65 measurements"}},
	} {
		err := tt.settings.Validate()
		if (err == nil) != (len(tt.want) == 0) {
			t.Errorf("%+v: %v", tt.settings, err)
		}
		for _, s := range tt.want {
			if err != nil && !strings.Contains(err.Error(), s) {
				t.Errorf("%v, expected %s", err, s)
			}
		}
	}
}

func TestParseEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
		err        string // empty: none
	}{
		{"none", "", nil, ""},
		{"some", "# for probes\nNCCL_IB_TC=106\r\n\nLD_LIBRARY_PATH=/opt/a:/opt/b\nNCCL_IB_HCA==mlx5_0:1\nFI_PROVIDER=efa\nNCCL_X= y z \n", []string{"NCCL_IB_TC=106", "LD_LIBRARY_PATH=/opt/a:/opt/b", "NCCL_IB_HCA==mlx5_0:1", "FI_PROVIDER=efa", "NCCL_X= y z "}, ""},
		{"no newline at the end", "NCCL_IB_TC=106", []string{"NCCL_IB_TC=106"}, ""},
		{"code", "LD_PRELOAD=/tmp/x.so", nil, `line 1: "LD_PRELOAD" is not for probes`},
		{"path", "\nPATH=/tmp", nil, `line 2: "PATH" is not for probes`},
		{"family alone", "NCCL_=1", nil, `"NCCL_" is not for probes`},
		{"of the probe", "NCCL_DEBUG=WARN", nil, `"NCCL_DEBUG" is set by the probe itself`},
		{"log of UCX", "UCX_LOG_FILE=/etc/cron.d/x", nil, `"UCX_LOG_FILE" would have the probe write files`},
		{"statistics of UCX", "UCX_STATS_DEST=file:/etc/cron.d/x", nil, `"UCX_STATS_DEST" would have the probe write files`},
		{"log of mlx5", "MLX5_DEBUG_FILE=/etc/cron.d/x", nil, `"MLX5_DEBUG_FILE" would have the probe write files`},
		{"writes", "NCCL_GRAPH_DUMP_FILE=/etc/passwd", nil, `"NCCL_GRAPH_DUMP_FILE" would have the probe write files`},
		{"no setting", "hello", nil, `line 1: "hello" is no NAME=value`},
		{"export", "export NCCL_IB_TC=1", nil, `line 1: "export NCCL_IB_TC" is no name of a variable`},
		{"NUL", "NCCL_IB_TC=1\x00LD_PRELOAD=x", nil, "contains a NUL"},
		{"binary", "\xff\x00=\x01", nil, "is no name of a variable"},
		{"long value", "NCCL_X=" + strings.Repeat("x", 1024), nil, "too long, expected at most 128 bytes in a name and 1023 in a value"},
		{"long file", strings.Repeat("#\n", 40000), nil, "80000 bytes, expected at most 65536"},
		{"many", strings.Repeat("NCCL_A=1\n", 257), nil, "line 257: more than 256 variables"},
		{"several mistakes", "a\nNCCL_IB_TC=1\nb\n", nil, "line 1: \"a\" is no NAME=value\nline 3: \"b\" is no NAME=value"},
		{"many mistakes", strings.Repeat("a\n", 100), nil, "line 10: \"a\" is no NAME=value\nand more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseEnvironment([]byte(tt.text))
			if !slices.Equal(got, tt.want) || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q, %v; expected %q, %s", got, err, tt.want, tt.err)
			}
		})
	}
}

func FuzzParseEnvironment(f *testing.F) {
	f.Add([]byte("# x\nNCCL_IB_TC=106\nLD_PRELOAD=x\n"))
	f.Add([]byte("NCCL_A=\x00\nFI_X=1\r\n=\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		vars, err := parseEnvironment(data)
		if err != nil && (vars != nil || len(err.Error()) > 16<<10) {
			t.Errorf("%d variables with an error of %d bytes", len(vars), len(err.Error()))
		}
		if len(vars) > maxVariables {
			t.Errorf("%d variables", len(vars))
		}
		for _, v := range vars {
			name, value, _ := strings.Cut(v, "=")
			if !isVariableName(name) || len(value) > maxVariable || strings.ContainsAny(value, "\x00\n") || slices.Contains(probeVariables, name) ||
				name != "LD_LIBRARY_PATH" && !slices.ContainsFunc(siteFamilies, func(f string) bool { return strings.HasPrefix(name, f) }) {
				t.Errorf("%q was let through", v)
			}
		}
	})
}

// What a file says that others could have written reaches no rank: there is no plan, since one without those
// settings would take another way than the site's jobs. A file that sets nothing does not prevent probes.
func TestPlanObeysTrustedFilesOnly(t *testing.T) {
	const users = "/home/u/.nccl.conf"
	for _, c := range []struct {
		name      string
		variables []fabric.NCCLVariable
		skip      bool
	}{
		{"a plugin", []fabric.NCCLVariable{{Name: "NCCL_NET_PLUGIN", Value: "/home/u/x.so", Source: users + ":1"}}, true},
		{"anything else", []fabric.NCCLVariable{{Name: "NCCL_IB_TC", Value: "106", Source: users + ":7"}}, true},
		{"root's file only", []fabric.NCCLVariable{{Name: "NCCL_NET_PLUGIN", Value: "/opt/x.so", Source: "/etc/nccl.conf:1"}}, false},
		{"nothing", nil, false},
	} {
		n := probestest.Node(2)
		n.NCCL = fabric.NCCLConfig{Variables: c.variables, Files: []fabric.NCCLFile{
			{Path: users, Exists: fabric.Known(true, users, n.At), Untrusted: users + ": owner 1000:1000"},
			{Path: "/etc/nccl.conf", Exists: fabric.Known(true, "etc/nccl.conf", n.At)},
		}}
		p, skip := New(probes.Key{Kind: probes.Node}, n, Settings{})
		if (skip != nil) != c.skip || skip != nil && (skip.Why != probes.SkipUntrusted || !strings.Contains(skip.Detail, "owner 1000")) {
			t.Errorf("%s: %+v", c.name, skip)
		}
		if p != nil && c.variables != nil && !slices.Contains(p.Ranks[0].Env, "NCCL_NET_PLUGIN=/opt/x.so") {
			t.Errorf("%s: %q", c.name, p.Ranks[0].Env)
		}
	}
}

// planned is a plan on a node with 8 GPUs.
func planned(t *testing.T, key probes.Key, s Settings) *Plan {
	t.Helper()
	p, skip := New(key, probestest.Node(8), s)
	if skip != nil {
		t.Fatalf("%v: %+v, expected a plan", key, skip)
	}
	return p
}
