// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

func TestReadsAnHGX(t *testing.T) {
	d := readMachine(t, []string{"util 37", "processes 2", "graphics 1", "mps 1", "link_errors 5", "replays 9", "reasons 0x44", "mode 3", "ancestor 20"})
	if !d.Loaded.Or(false) || d.Version.Value != "580.65.06" || d.CUDA.Value != "13.0" || len(d.GPUs) != 8 || len(d.P2P) != 28 {
		t.Fatalf("%+v", d)
	}
	for path, v := range flatten(d) {
		if strings.HasPrefix(v, "unknown") && !strings.HasSuffix(path, ".Memory") || v == "absent" && !strings.HasSuffix(path, ".NUMANode") {
			t.Errorf("%s is %s", path, v)
		}
	}
	g := d.GPUs[3]
	if g.Index != 3 || g.UUID != "GPU-00000003-1111-2222-3333-444444444444" || g.Address != "0000:1e:00.0" || g.Lost.Value || g.Name.Value != "NVIDIA H100 80GB HBM3" ||
		g.ComputeCap.Value != 90 || g.Utilization.Value != 0.37 || g.Memory.Value != (fabric.GPUMemory{Total: 80 << 30, Used: 1 << 29}) ||
		g.BAR1.Value != (fabric.GPUMemory{Total: 128 << 30, Used: 1 << 20}) || g.ComputeMode.Value != fabric.ComputeExclusiveProcess || g.MIG.Value ||
		!g.Persistence.Value || g.ClockReasons.Value != 0x44 || g.PCIeGeneration.Value != 5 || g.PCIeMaxGen.Value != 5 || g.PCIeWidth.Value != 16 ||
		g.PCIeMaxWidth.Value != 16 || g.PCIeReplays.Value != 9 || g.NUMANode.State != fabric.Absent {
		t.Errorf("%+v", g)
	}
	want := []fabric.GPUProcess{
		{PID: 1300, Kind: fabric.GPUCompute, Memory: fabric.Known[uint64](1<<20, "nvmlDeviceGet*RunningProcesses", testTime)},
		{PID: 1301, Kind: fabric.GPUCompute, Memory: fabric.UnknownFact[uint64](fabric.ReasonUnsupported, "nvmlDeviceGet*RunningProcesses", testTime)},
		{PID: 2300, Kind: fabric.GPUGraphics, Memory: fabric.Known[uint64](1<<20, "nvmlDeviceGet*RunningProcesses", testTime)},
		{PID: 3300, Kind: fabric.GPUMPS, Memory: fabric.Known[uint64](1<<20, "nvmlDeviceGet*RunningProcesses", testTime)},
	}
	if !slices.Equal(g.Processes.Value, want) {
		t.Errorf("processes %+v", g.Processes.Value)
	}
	f := g.Fabric.Value
	if f.State != fabric.GPUFabricCompleted || f.Status != "success" || f.Clique != 7 || f.Cluster != "abababab-abab-abab-abab-abababababab" || f.Unhealthy != nil {
		t.Errorf("fabric %+v", f)
	}
	if n := g.Active(); n.Value != 18 || n.State != fabric.OK || len(g.NVLinks.Value) != 18 {
		t.Errorf("%+v links are active", n)
	}
	l := g.NVLinks.Value[17]
	if l.Number != 17 || l.Remote.Value != "0000:c1:00.0" || l.RemoteKind.Value != fabric.NVLinkToSwitch || l.Speed.Value != 26562e6 || len(l.Errors) != 3 ||
		l.Errors[0].Kind != fabric.NVLinkReplay || l.Errors[0].Count.Value != 5 {
		t.Errorf("link %+v", l)
	}
	if p := d.P2P[27]; p.A != 6 || p.B != 7 || p.Write.Value != fabric.P2POK || p.Ancestor.Value != fabric.DistancePXB {
		t.Errorf("pair %+v", p)
	}
}

// Generations of NVLink count different errors. The numbers of the fields are those of nvml.h.
func TestErrorsOfNVLinks(t *testing.T) {
	for _, c := range []struct {
		generation int
		fields     map[int]fabric.NVLinkError // what there is to count, each as often as its number
	}{
		{4, map[int]fabric.NVLinkError{161: fabric.NVLinkReplay, 162: fabric.NVLinkRecovery, 163: fabric.NVLinkCRC}},
		{5, map[int]fabric.NVLinkError{
			208: fabric.NVLinkReceive, 211: fabric.NVLinkLocalIntegrity, 212: fabric.NVLinkTransmitDiscards, 214: fabric.NVLinkRecoveryFailed,
			215: fabric.NVLinkRecovery, 219: fabric.NVLinkEffectiveErrors,
		}},
	} {
		machine, want := []string{"gpus 1", fmt.Sprint("nvlink ", c.generation)}, map[fabric.NVLinkError]uint64{}
		for field, kind := range c.fields {
			machine, want[kind] = append(machine, fmt.Sprintf("count %d %d", field, field)), uint64(field)
		}
		got := map[fabric.NVLinkError]uint64{}
		for _, e := range readMachine(t, machine).GPUs[0].NVLinks.Value[0].Errors {
			got[e.Kind] = e.Count.Value
		}
		if !maps.Equal(got, want) {
			t.Errorf("NVLink %d: %v, expected %v", c.generation, got, want)
		}
	}
}

// The status of a way that works is 0, and the capability READ is neither WRITE nor NVLink.
func TestPeerToPeerIsTheStatusOfWrites(t *testing.T) {
	for _, c := range []struct {
		write, read int
		want        string
	}{
		{0, 0, string(fabric.P2POK)},
		{0, 5, string(fabric.P2POK)},
		{4, 0, string(fabric.P2PDisabledByRegkey)},
		{5, 0, string(fabric.P2PNotSupported)},
		{6, 0, "unknown(malformed)"}, // NVML_P2P_STATUS_UNKNOWN
	} {
		d := readMachine(t, []string{"gpus 2", fmt.Sprintf("write %d", c.write), fmt.Sprintf("read %d", c.read)})
		got := string(d.P2P[0].Write.Value)
		if f := d.P2P[0].Write; f.State != fabric.OK {
			got = fmt.Sprintf("%s(%s)", f.State, f.Reason)
		}
		if got != c.want {
			t.Errorf("write %d and read %d: %s, expected %s", c.write, c.read, got, c.want)
		}
	}
}

func TestVariantsOfMachines(t *testing.T) {
	healthy := readMachine(t, nil)
	for _, c := range []struct {
		name, machine string
		want          map[string]string
	}{
		{"MIG", "mig 1", map[string]string{"GPUs.MIG=": "true", "GPUs.Utilization": "unknown(unsupported)"}},
		{"no MIG", "mig -1", map[string]string{"GPUs.MIG": "absent"}},
		{"no NVLink", "links 0", map[string]string{"GPUs.NVLinks": "absent"}},
		{"no fabric", "fabric 0", map[string]string{"GPUs.Fabric": "absent"}},
		{"fabric manager not started", "fabric 1", map[string]string{"GPUs.Fabric=.State": "not_started", "GPUs.Fabric=.Status": ""}},
		{"registration failed", "status 999", map[string]string{"GPUs.Fabric=.Status": "unknown"}},
		{"route unhealthy", "health 0x19a", map[string]string{"GPUs.Fabric=.Unhealthy": "[route_unhealthy]"}},
		{"incorrect configuration", "health 0x5aa", map[string]string{"GPUs.Fabric=.Unhealthy": "[insufficient_nvlinks]"}},
		{"newer complaint", "health 0xfaa", map[string]string{"GPUs.Fabric=.Unhealthy": "[incorrect_configuration]"}},
		{"unhealthy without saying why", "summary 2", map[string]string{"GPUs.Fabric=.Unhealthy": "[unhealthy]"}},
		{"coherent", "numa 4", map[string]string{"GPUs.NUMANode": "ok", "GPUs.NUMANode=": "4"}},
		{"idle link", "generation 1", map[string]string{"GPUs.PCIeGeneration=": "1"}},
		{"link down", "down 2 5", map[string]string{
			"GPUs.NVLinks=.Active=": "false", "GPUs.NVLinks=.Remote": "unknown(unsupported)", "GPUs.NVLinks=.RemoteKind": "unknown(unsupported)",
		}},
		{"link without traffic", "down 2 5 3", map[string]string{"GPUs.NVLinks=.Active=": "false"}},
		{"link asleep", "down 2 5 2", map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := differences(healthy, readMachine(t, []string{c.machine})); !maps.Equal(got, c.want) {
				t.Errorf("differs in %v, expected %v", got, c.want)
			}
		})
	}
}

// What was read once is kept; times show how old it is. A fast read asks for nothing else.
func TestFastReadsAskForWhatChangesOnly(t *testing.T) {
	c, client := newChild(t, []string{"processes 2"})
	c.counting()
	d := mustRead(t, client, fabric.GPUDriver{}, true)
	before := c.counted()
	c.describe("processes 2", "util 50", "replays 3", "down 1 0")
	later := testTime.Add(5e9)
	fastRead, err := client.Read(d, false, later)
	if err != nil {
		t.Fatal(err)
	}
	calls, sum := map[string]int{}, 0
	for f, n := range c.counted() {
		if n -= before[f]; n > 0 {
			calls[f], sum = n, sum+n
		}
	}
	t.Logf("a fast read of 8 GPUs with 18 NVLinks makes %d calls: %v", sum, calls)
	if sum > 80 || len(calls) != 10 {
		t.Errorf("%d calls of %d functions, expected 80 of 10 at most", sum, len(calls))
	}
	want := map[string]string{"GPUs.Utilization=": "0.5", "GPUs.NVLinks=.Active=": "false"}
	if got := differences(d, fastRead); !maps.Equal(got, want) {
		t.Errorf("differs in %v, expected %v", got, want)
	}
	if g := fastRead.GPUs[0]; g.Name.At != testTime || g.Memory.At != later || g.NVLinks.Value[0].Speed.At != testTime || g.NVLinks.Value[0].Active.At != later {
		t.Errorf("times are wrong: %+v", g)
	}
	before = c.counted()
	slowRead := mustRead(t, client, fastRead, true)
	if got, want := differences(fastRead, slowRead), map[string]string{"GPUs.PCIeReplays=": "3"}; !maps.Equal(got, want) {
		t.Errorf("differs in %v, expected %v", got, want)
	}
	for _, f := range []string{"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetP2PStatus", "nvmlDeviceGetNvLinkRemotePciInfo_v2"} {
		if n := c.counted()[f] - before[f]; n != 0 {
			t.Errorf("a slow read calls %s %d times", f, n)
		}
	}
	sum = 0
	for f, n := range c.counted() {
		sum += n - before[f]
	}
	t.Logf("a slow read makes %d calls", sum)
	if c.starts != 1 {
		t.Errorf("the process was started %d times", c.starts)
	}
}

// Processes of a GPU in MIG mode are in a MIG device; one that is in two is not said to be in either.
func TestProcessesOfMIGDevices(t *testing.T) {
	c, client := newChild(t, []string{"gpus 2", "mig 1", "instances 2", "processes 3"})
	c.counting()
	of := func(d fabric.GPUDriver) (list []string) {
		for _, g := range d.GPUs {
			for _, p := range g.Processes.Value {
				list = append(list, strings.TrimSuffix(p.Instance, "-1111-2222-3333-444444444444"))
			}
		}
		return list
	}
	d := mustRead(t, client, fabric.GPUDriver{}, true)
	want := []string{"MIG-00000000", "MIG-00000001", "MIG-00000000", "MIG-00000010", "MIG-00000011", "MIG-00000010"}
	if got := of(d); !slices.Equal(got, want) {
		t.Errorf("MIG devices %q, want %q", got, want)
	}
	if n := c.counted()["nvmlDeviceGetMigDeviceHandleByIndex"]; n != 2*7 {
		t.Errorf("%d handles of MIG devices are asked for, want 7 for each GPU", n)
	}
	fastRead, err := client.Read(d, false, testTime)
	if err != nil || !slices.Equal(of(fastRead), want) || c.counted()["nvmlDeviceGetMigDeviceHandleByIndex"] != 2*7 {
		t.Errorf("a fast read: %v, %q, calls %v", err, of(fastRead), c.counted())
	}
	for _, m := range []struct {
		name, machine string
		want          []string
	}{
		{"a process in two", "mig 1\ninstances 2\nprocesses 2\npid 77", []string{""}},
		{"a device that is not known yet", "mig 1\ninstances 2\nerror nvmlDeviceGetMigDeviceHandleByIndex 6", []string{""}},
		{"no permission", "mig 1\ninstances 2\nerror nvmlDeviceGetMaxMigDeviceCount 4", []string{""}},
		{"strings without an end", "mig 1\ninstances 2\nlie strings", []string{""}},
		{"MIG is off", "mig 0\ninstances 2", []string{""}},
	} {
		d := readMachine(t, append([]string{"gpus 1"}, strings.Split(m.machine, "\n")...))
		if got := of(d); !slices.Equal(got, m.want) || d.GPUs[0].Lost.Or(true) {
			t.Errorf("%s: %q, want %q; %+v", m.name, got, m.want, d.GPUs[0])
		}
	}
}
