// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// factsOf says for each function that is called which facts are its own.
var factsOf = map[string][]string{
	"nvmlSystemGetDriverVersion":               {"Version"},
	"nvmlSystemGetCudaDriverVersion":           {"CUDA"},
	"nvmlDeviceGetUUID":                        {"GPUs.UUID"},
	"nvmlDeviceGetPciInfo_v3":                  {"GPUs.Address"},
	"nvmlDeviceGetName":                        {"GPUs.Name"},
	"nvmlDeviceGetNumaNodeId":                  {"GPUs.NUMANode"},
	"nvmlDeviceGetCudaComputeCapability":       {"GPUs.ComputeCap"},
	"nvmlDeviceGetMaxPcieLinkGeneration":       {"GPUs.PCIeMaxGen"},
	"nvmlDeviceGetMaxPcieLinkWidth":            {"GPUs.PCIeMaxWidth"},
	"nvmlDeviceGetCurrPcieLinkGeneration":      {"GPUs.PCIeGeneration"},
	"nvmlDeviceGetCurrPcieLinkWidth":           {"GPUs.PCIeWidth"},
	"nvmlDeviceGetPcieReplayCounter":           {"GPUs.PCIeReplays"},
	"nvmlDeviceGetComputeMode":                 {"GPUs.ComputeMode"},
	"nvmlDeviceGetPersistenceMode":             {"GPUs.Persistence"},
	"nvmlDeviceGetMigMode":                     {"GPUs.MIG"},
	"nvmlDeviceGetUtilizationRates":            {"GPUs.Utilization"},
	"nvmlDeviceGetMemoryInfo_v2":               {"GPUs.Memory"},
	"nvmlDeviceGetBAR1MemoryInfo":              {"GPUs.BAR1"},
	"nvmlDeviceGetCurrentClocksEventReasons":   {"GPUs.ClockReasons"},
	"nvmlDeviceGetComputeRunningProcesses_v3":  {"GPUs.Processes"},
	"nvmlDeviceGetGraphicsRunningProcesses_v3": {"GPUs.Processes"},
	"nvmlDeviceGetMPSComputeRunningProcesses_v3": {
		"GPUs.Processes",
	},
	"nvmlDeviceGetGpuFabricInfoV":         {"GPUs.Fabric"},
	"nvmlDeviceGetFieldValues":            {"GPUs.NVLinks"},
	"nvmlDeviceGetNvLinkRemotePciInfo_v2": {"GPUs.NVLinks=.Remote"},
	"nvmlDeviceGetNvLinkRemoteDeviceType": {"GPUs.NVLinks=.RemoteKind"},
	"nvmlDeviceGetP2PStatus":              {"P2P.Write"},
	"nvmlDeviceGetTopologyCommonAncestor": {"P2P.Ancestor"},
	// Without these there is nothing.
	"nvmlInit_v2":                   nil,
	"nvmlDeviceGetCount_v2":         nil,
	"nvmlDeviceGetHandleByIndex_v2": nil,
}

var smallMachine = []string{"gpus 2", "links 3"}

// unknownFor is what differs when the facts of a function are unknown. Identities are no facts: they are empty.
func unknownFor(function string, why fabric.Reason) map[string]string {
	want := map[string]string{}
	for _, f := range factsOf[function] {
		want[f] = "unknown(" + string(why) + ")"
		if f == "GPUs.UUID" || f == "GPUs.Address" {
			want[f] = ""
		}
	}
	return want
}

func TestAnErrorOfOneCallCostsItsFactsOnly(t *testing.T) {
	c, client := newChild(t, smallMachine)
	c.counting()
	healthy := mustRead(t, client, fabric.GPUDriver{}, true)
	for f := range c.counted() {
		if _, ok := factsOf[f]; !ok {
			t.Errorf("%s is called and not tested", f)
		}
	}
	for f, facts := range factsOf {
		for code, why := range map[string]fabric.Reason{"999": fabric.ReasonIO, "4": fabric.ReasonPrivilege} {
			if facts == nil || facts[0] == "GPUs.UUID" || facts[0] == "GPUs.Address" { // what a process knows, it keeps
				c.end()
			}
			before := c.counted()[f]
			c.describe(append([]string{"error " + f + " " + code}, smallMachine...)...)
			d, err := client.Read(fabric.GPUDriver{}, true, testTime)
			switch {
			case c.counted()[f] == before:
				t.Errorf("%s is not called", f)
			case facts != nil && err != nil:
				t.Errorf("%s answers %s: %v", f, code, err)
			case facts != nil:
				if got, want := differences(healthy, d), unknownFor(f, why); !maps.Equal(got, want) {
					t.Errorf("%s answers %s: differs in %v, expected %v", f, code, got, want)
				}
			case f == "nvmlDeviceGetHandleByIndex_v2":
				if g := d.GPUs[1]; err != nil || g.UUID != "" || g.Lost.Reason != why || g.Name.Reason != why || g.Fabric.Reason != why || d.P2P[0].Write.Reason != why {
					t.Errorf("%s answers %s: %v, %+v", f, code, err, g)
				}
			case fabric.ReasonOf(err) != why || !strings.Contains(err.Error(), strings.TrimSuffix(f, "_v2")):
				t.Errorf("%s answers %s: %v, expected the reason %s", f, code, err, why)
			}
		}
	}
}

// A symbol that is missing must never be called: that ends the process.
func TestAMissingSymbolCostsItsFactsOnly(t *testing.T) {
	healthy := readMachine(t, smallMachine)
	// Where an older function says the same, or less.
	older := map[string]map[string]string{
		"nvmlDeviceGetCurrentClocksEventReasons":     {},
		"nvmlDeviceGetMemoryInfo_v2":                 {"GPUs.Memory=.Used": "1073741824"},
		"nvmlDeviceGetGpuFabricInfoV":                {},
		"nvmlDeviceGetGraphicsRunningProcesses_v3":   {},
		"nvmlDeviceGetMPSComputeRunningProcesses_v3": {},
		"nvmlDeviceGetFieldValues": {
			"GPUs.NVLinks=.Speed": "unknown(missing)", "GPUs.NVLinks=.Errors.Count": "unknown(missing)",
			"GPUs.NVLinks=.Errors.Kind": "", // kinds that the GPU does not have, see below
		},
	}
	for f, facts := range factsOf {
		c, client := newChild(t, smallMachine, f)
		d, err := client.Read(fabric.GPUDriver{}, true, testTime)
		if facts == nil {
			if fabric.ReasonOf(err) != fabric.ReasonMissing || c.cmd == nil {
				t.Errorf("without %s: %v", f, err)
			}
			continue
		}
		want, ok := older[f]
		if !ok {
			want = unknownFor(f, fabric.ReasonMissing)
		}
		got := differences(healthy, d)
		if f == "nvmlDeviceGetFieldValues" {
			got["GPUs.NVLinks=.Errors.Kind"] = "" // all of them, because the error does not name one
		}
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("without %s: %v, differs in %v, expected %v", f, err, got, want)
		}
		if c.starts != 1 || c.cmd == nil {
			t.Errorf("without %s the process ends", f)
		}
	}
}

// Nor may an older function be called for a newer one without a look whether it is there.
func TestSymbolsThatAreMissingInAllVersions(t *testing.T) {
	healthy := readMachine(t, smallMachine)
	for facts, without := range map[string][]string{
		"GPUs.Memory":       {"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"},
		"GPUs.ClockReasons": {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
		"GPUs.Fabric":       {"nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"},
		"GPUs.NVLinks":      {"nvmlDeviceGetFieldValues", "nvmlDeviceGetNvLinkState"},
	} {
		c, client := newChild(t, smallMachine, without...)
		d, err := client.Read(fabric.GPUDriver{}, true, testTime)
		if got, want := differences(healthy, d), map[string]string{facts: "unknown(missing)"}; err != nil || !maps.Equal(got, want) || c.starts != 1 || c.cmd == nil {
			t.Errorf("without %v: %v, differs in %v, expected %v", without, err, got, want)
		}
	}
}

func TestAHangCostsTheProcessOnly(t *testing.T) {
	c, client := newChild(t, smallMachine)
	healthy := mustRead(t, client, fabric.GPUDriver{}, true)
	c.describe(append([]string{"hang nvmlDeviceGetUtilizationRates"}, smallMachine...)...)
	c.timeout = 300 * time.Millisecond
	began := time.Now()
	if _, err := client.Read(healthy, false, testTime); err == nil || time.Since(began) > time.Minute { // the call would hang for ever
		t.Fatalf("%v after %v", err, time.Since(began))
	}
	c.timeout = 0
	c.describe(smallMachine...)
	if got := differences(healthy, mustRead(t, client, healthy, false)); len(got) != 0 || c.starts != 2 {
		t.Errorf("differs in %v after %d starts", got, c.starts)
	}
}

func TestACrashCostsTheProcessOnly(t *testing.T) {
	c, client := newChild(t, smallMachine)
	healthy := mustRead(t, client, fabric.GPUDriver{}, true)
	c.describe(append([]string{"crash nvmlDeviceGetMemoryInfo_v2"}, smallMachine...)...)
	_, err := client.Read(healthy, false, testTime)
	if err == nil || !strings.Contains(err.Error(), "SIGSEGV") {
		t.Fatalf("%v", err)
	}
	c.describe(smallMachine...)
	if got := differences(healthy, mustRead(t, client, healthy, false)); len(got) != 0 || c.starts != 2 {
		t.Errorf("differs in %v after %d starts", got, c.starts)
	}
}

func TestALostGPU(t *testing.T) {
	c, client := newChild(t, smallMachine)
	healthy := mustRead(t, client, fabric.GPUDriver{}, true)
	c.describe(append([]string{"lost 1"}, smallMachine...)...)
	lost := mustRead(t, client, healthy, false)
	if got := differences(fabric.GPUDriver{GPUs: healthy.GPUs[:1]}, fabric.GPUDriver{GPUs: lost.GPUs[:1]}); len(got) != 0 {
		t.Errorf("the other GPU differs in %v", got)
	}
	g := lost.GPUs[1]
	if g.UUID != healthy.GPUs[1].UUID || !g.Lost.Or(false) {
		t.Errorf("%+v", g)
	}
	for path, v := range flatten(fabric.GPUDriver{GPUs: []fabric.GPU{g}}) {
		if strings.HasPrefix(v, "ok") && !strings.HasSuffix(path, ".Lost") {
			t.Errorf("%s of a lost GPU is known", path)
		}
	}
	if p := lost.P2P[0]; p.Write.Reason != fabric.ReasonGone {
		t.Errorf("%+v", p)
	}
	again := mustRead(t, client, lost, false) // is asked once, and nothing else
	if got := differences(lost, again); len(got) != 0 {
		t.Errorf("differs in %v", got)
	}
	c.describe(smallMachine...)
	if got := differences(healthy, mustRead(t, client, again, false)); len(got) != 0 {
		t.Errorf("found again, it differs in %v", got)
	}

	g = readMachine(t, append([]string{"lost 1"}, smallMachine...)).GPUs[1]
	if g.Index != 1 || g.UUID != "" || g.Address != "" || !g.Lost.Or(false) || g.Name.Reason != fabric.ReasonGone {
		t.Errorf("lost before it was opened: %+v", g)
	}
}

func TestALinkThatComesUp(t *testing.T) {
	c, client := newChild(t, append([]string{"down 1 2"}, smallMachine...))
	d := mustRead(t, client, fabric.GPUDriver{}, true)
	c.describe(smallMachine...)
	d = mustRead(t, client, d, false)
	d = mustRead(t, client, d, true)
	if l := d.GPUs[1].NVLinks.Value[2]; !l.Active.Value || l.Remote.Value != "0000:c2:00.0" {
		t.Errorf("%+v", l)
	}
}

func TestALibraryWithWrongAnswers(t *testing.T) {
	healthy := readMachine(t, smallMachine)
	malformed := "unknown(malformed)"
	for lie, want := range map[string]map[string]string{
		"processes":    {"GPUs.Processes": malformed},
		"insufficient": {"GPUs.Processes": malformed},
		"growing":      {"GPUs.Processes": "unknown(io_error)"},
		"strings":      {"Version": strings.Repeat("A", 80), "GPUs.UUID": ""},
		"links":        {"GPUs.NVLinks": malformed},
		"type":         {"GPUs.NVLinks": malformed},
		"values": {
			"CUDA": malformed, "GPUs.Utilization": malformed, "GPUs.Memory": malformed, "GPUs.BAR1": malformed, "GPUs.ComputeMode": malformed,
			"GPUs.MIG": malformed, "GPUs.Persistence": malformed, "GPUs.PCIeGeneration": malformed, "GPUs.PCIeMaxGen": malformed,
			"GPUs.PCIeWidth": malformed, "GPUs.PCIeMaxWidth": malformed, "GPUs.Fabric": malformed, "P2P.Write": malformed,
			"P2P.Ancestor": malformed, "GPUs.NVLinks=.Active": malformed, "GPUs.NVLinks=.RemoteKind": malformed,
		},
	} {
		c, client := newChild(t, append([]string{"lie " + lie}, smallMachine...))
		c.counting()
		got := differences(healthy, mustRead(t, client, fabric.GPUDriver{}, true))
		if lie == "strings" { // all of a buffer, which is the length that go-nvml gives it
			want = map[string]string{"Version=": strings.Repeat("A", 80), "GPUs.UUID": "", "GPUs.Name=": strings.Repeat("A", 96)}
		}
		if !maps.Equal(got, want) {
			t.Errorf("lie %s: differs in %v, expected %v", lie, got, want)
		}
		if n := c.counted()["nvmlDeviceGetComputeRunningProcesses_v3"]; n > 6 {
			t.Errorf("lie %s: processes of 2 GPUs were asked %d times", lie, n)
		}
	}
	_, client := newChild(t, []string{"lie gpus"})
	if _, err := client.Read(fabric.GPUDriver{}, true, testTime); fabric.ReasonOf(err) != fabric.ReasonMalformed {
		t.Errorf("a million GPUs: %v", err)
	}
}

func TestManyProcesses(t *testing.T) {
	c, client := newChild(t, []string{"gpus 1", "processes 1500"})
	c.counting()
	d := mustRead(t, client, fabric.GPUDriver{}, true)
	if n := len(d.GPUs[0].Processes.Value); n != 1500 {
		t.Errorf("%d processes", n)
	}
	if n := c.counted()["nvmlDeviceGetComputeRunningProcesses_v3"]; n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// A driver that comes is used without a new process, one that goes is released.
func TestADriverComesAndGoes(t *testing.T) {
	c, client := newChild(t, []string{"driver 9"})
	d := mustRead(t, client, fabric.GPUDriver{}, true)
	if loaded, ok := d.Loaded.Get(); !ok || loaded || d.GPUs != nil {
		t.Errorf("%+v", d)
	}
	c.describe(smallMachine...)
	if d = mustRead(t, client, d, false); !d.Loaded.Value || len(d.GPUs) != 2 || d.GPUs[0].Name.State != fabric.OK {
		t.Errorf("%+v", d)
	}
	c.describe("driver 9")
	if d = mustRead(t, client, d, false); d.Loaded.State != fabric.OK || d.Loaded.Value || d.GPUs != nil {
		t.Errorf("%+v", d)
	}
	c.describe(append([]string{"version 590.1"}, smallMachine...)...)
	if d = mustRead(t, client, d, false); d.Version.Value != "590.1" || len(d.GPUs) != 2 || c.starts != 1 {
		t.Errorf("%+v after %d starts", d, c.starts)
	}
	c.describe("gpus 3")
	if d = mustRead(t, client, d, true); len(d.GPUs) != 3 || d.GPUs[2].Name.State != fabric.OK || len(d.P2P) != 3 {
		t.Errorf("%+v", d)
	}
}

func TestALibraryOfAnotherVersion(t *testing.T) {
	c, client := newChild(t, []string{"driver 18"})
	d, err := client.Read(fabric.GPUDriver{}, true, testTime)
	if fabric.ReasonOf(err) != fabric.ReasonUnsupported || !strings.Contains(err.Error(), "NVIDIA's library and kernel module are of different versions") || !d.Loaded.Value {
		t.Errorf("%v, %+v", err, d)
	}
	if _, err = client.Read(d, true, testTime); err == nil { // it gives up, so that a new process loads what is installed now
		t.Error("no error")
	}
	kill := time.AfterFunc(time.Minute, func() { c.cmd.Process.Kill() })
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("it does not give up: %v", err)
	}
	kill.Stop()
	c.cmd = nil
	c.describe(smallMachine...)
	if d = mustRead(t, client, d, true); len(d.GPUs) != 2 || c.starts != 2 {
		t.Errorf("%+v after %d starts", d, c.starts)
	}
}

func TestLibrariesThatCannotBeLoaded(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.so")
	if err := os.WriteFile(broken, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, client := newChild(t, nil)
	c.nvml = broken
	if _, err := client.Read(fabric.GPUDriver{}, true, testTime); err == nil || !strings.Contains(err.Error(), "file too short") {
		t.Errorf("a broken library: %v", err)
	}
	c.end()
	c.nvml = filepath.Join(dir, "none.so")
	d := mustRead(t, client, fabric.GPUDriver{}, true)
	if d.Loaded.State != fabric.Unknown || d.Loaded.Reason != fabric.ReasonMissing || d.Loaded.Source != "libnvidia-ml.so.1" {
		t.Errorf("no library: %+v", d.Loaded)
	}
	c.end()
	_, client = newChild(t, []string{"error nvmlInit_v2 4"})
	if _, err := client.Read(fabric.GPUDriver{}, true, testTime); fabric.ReasonOf(err) != fabric.ReasonPrivilege {
		t.Errorf("no permission: %v", err)
	}
	if err := errors.Join(client.Close()); err != nil {
		t.Error(err)
	}
}
