// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
)

var _ observer.GPUs = (*GPUs)(nil)

const (
	uuidA, uuidB = "GPU-5fb1d3a1-29a6-4c6f-90bc-1f54dd1a7b01", "GPU-5fb1d3a1-29a6-4c6f-90bc-1f54dd1a7b02"
	cluster      = "0dd1a7b0-1111-4222-8333-444455556666"
)

// twoGPUs is what a driver answered that knows all that identifies.
func twoGPUs(at time.Time) fabric.GPUDriver {
	d := fabric.GPUDriver{Loaded: fabric.Known(true, "nvmlInit", at), Version: fabric.Known("535.104.05.01", "", at), CUDA: fabric.Known("13.0", "", at)}
	for i, uuid := range []string{uuidA, uuidB} {
		d.GPUs = append(d.GPUs, fabric.GPU{
			Index: i, UUID: uuid, Address: []string{"0000:1b:00.0", "0000:43:00.0"}[i], Lost: fabric.Known(false, "", at), Name: fabric.Known("NVIDIA H100 80GB HBM3", "nvmlDeviceGetName", at),
			MIG:       fabric.AbsentFact[bool]("", at),
			Processes: fabric.Known([]fabric.GPUProcess{{PID: 4711, Kind: fabric.GPUCompute, Memory: fabric.Known(uint64(1<<30), "", at)}}, "", at),
			NVLinks: fabric.Known([]fabric.NVLink{{
				Number: 3, Active: fabric.Known(true, "", at), Remote: fabric.Known("0000:05:00.0", "", at), RemoteKind: fabric.Known(fabric.NVLinkToSwitch, "", at),
				Errors: []fabric.NVLinkErrors{{Kind: fabric.NVLinkCRC, Count: fabric.Known(uint64(18446744073709551615), "", at)}},
			}}, "", at),
			Fabric: fabric.Known(fabric.GPUFabric{State: fabric.GPUFabricCompleted, Status: "success", Cluster: cluster}, "", at),
		})
	}
	d.P2P = []fabric.GPUPair{{A: 0, B: 1, Write: fabric.Known(fabric.P2POK, "", at), Ancestor: fabric.Known(fabric.DistanceSYS, "", at)}}
	return d
}

// unpacked captures a node with such a driver, unpacks the archive and returns its folder and all that is in it.
func unpacked(t *testing.T, o Options) (dir, text string, m Manifest) {
	t.Helper()
	c := take(t, o)
	dir = t.TempDir()
	if _, err := Unpack(bytes.NewReader(archive(t, c)), dir); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for name, e := range c.entries {
		all.WriteString(name + "\n" + e.text + "\n")
	}
	return dir, all.String(), c.Manifest
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGPUsAreCaptured(t *testing.T) {
	tree := materialise(t, find(t, "healthy"), nil)
	write(t, tree.Sysfs(), map[string]string{
		"module/nvidia/version": "535.104.05.01\n", "module/nvidia_peermem/version": "535.104.05.01\n", "module/nvidia_peermem/parameters/peerdirect_support": "0\n",
		"kernel/mm/memory_peers/nv_mem/version": "1.0\n", "kernel/mm/memory_peers/nv_mem/num_alloc_mrs": "123456789012\n",
	})
	write(t, tree.Procfs(), map[string]string{
		"driver/nvidia/version":                       "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05.01  Release Build  (root@trainer17)  Sun Jul 27 06:55:30 UTC 2025\nGCC version:  gcc of trainer17\n",
		"driver/nvidia/params":                        "GrdmaPciTopoCheckOverride: 2\nCoherentGPUMemoryMode: \"numa\"\nRegistryDwords: \"PeerMappingOverride=1;\"\nExcludedGpus: \"" + uuidA + "\"\nTemporaryFilePath: \"/home/alice\"\nalice\n",
		"driver/nvidia/gpus/0000:1b:00.0/information": "Model: H100\nGPU UUID: " + uuidA + "\n",
	})
	config := filepath.Join(tree.Sysfs(), "bus/pci/devices/0000:1b:00.0/config")
	space, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	copy(space[0xe00:], "SERIAL-1234")
	if err := os.WriteFile(config, space, 0o644); err != nil {
		t.Fatal(err)
	}
	asked := time.Time{}
	o := options(tree)
	o.GPUs = func(now time.Time) (fabric.GPUDriver, error) {
		asked = now
		return twoGPUs(now), nil
	}
	dir, text, _ := unpacked(t, o)
	for _, secret := range []string{uuidA, uuidB, uuidA[4:], cluster, "trainer17", "alice", "SERIAL", "information", "06:55"} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
			t.Errorf("has %q in it", secret)
		}
	}
	for _, kept := range []string{
		"535.104.05.01\n", "123456789012\n", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05.01  removed\nremoved\n",
		"GrdmaPciTopoCheckOverride: 2\nCoherentGPUMemoryMode: \"numa\"\nRegistryDwords: \"PeerMappingOverride=1;\"\nExcludedGpus: \"removed\"\nTemporaryFilePath: \"removed\"\nremoved\n",
	} {
		if !strings.Contains(text, kept) {
			t.Errorf("lacks %q", kept)
		}
	}
	g, err := ReplayGPUs(filepath.Join(dir, NetlinkFolder))
	if err != nil {
		t.Fatal(err)
	}
	now := asked.Add(time.Hour)
	is, err := g.Read(fabric.GPUDriver{}, true, now)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := is.GPUs[0].UUID, is.GPUs[1].UUID; a == b || !strings.HasPrefix(a, "GPU-") || len(a) != len(uuidA) || !uuidLike().MatchString(b) {
		t.Errorf("UUIDs %q and %q", a, b)
	}
	if a, b := is.GPUs[0].Fabric.Value.Cluster, is.GPUs[1].Fabric.Value.Cluster; a != b || a == cluster {
		t.Errorf("clusters %q and %q", a, b)
	}
	was := twoGPUs(now)
	for i := range was.GPUs {
		was.GPUs[i].UUID, was.GPUs[i].Fabric.Value.Cluster = is.GPUs[i].UUID, is.GPUs[i].Fabric.Value.Cluster
	}
	if a, b := document(t, is), document(t, was); !is.GPUs[1].NVLinks.Value[0].Active.At.Equal(now) || withoutTime(t, is) != withoutTime(t, was) {
		t.Errorf("reads as %s\nwas %s", a, b)
	}
}

func withoutTime(t *testing.T, d fabric.GPUDriver) string {
	t.Helper()
	text, err := marshalGPUs(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Equal things stay equal: the UUID in one place is that in another.
func TestUUIDs(t *testing.T) {
	a := &anonymiser{key: [32]byte{1}}
	if x, y := a.uuid(uuidA), a.uuid(strings.ToUpper(uuidA)); !strings.EqualFold(x, y) || x == uuidA || a.uuid(uuidB) == x {
		t.Errorf("%s, %s", x, y)
	}
	const zero = "00000000-0000-0000-0000-000000000000"
	if got := a.uuid(zero); got != zero {
		t.Error(got)
	}
	for s, kept := range map[string]bool{"": true, zero: true, "serial 1234": false, "MIG-" + uuidA[4:] + "/1/2": false} {
		if got := a.identity(s); (got == s) != kept {
			t.Errorf("%q becomes %q", s, got)
		}
	}
}

func TestGPUDriverFails(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: too slow under the race detector; make test runs it without")
	}
	tree := materialise(t, find(t, "healthy-two-port"), nil)
	for name, o := range map[string]func(time.Time) (fabric.GPUDriver, error){
		"cannot be read": func(time.Time) (fabric.GPUDriver, error) {
			return fabric.GPUDriver{}, errors.New("the driver of trainer17 fails")
		},
		"no answer": func(time.Time) (fabric.GPUDriver, error) { select {} },
	} {
		opts := options(tree)
		opts.GPUs, opts.limit = o, 2*time.Second
		dir, _, m := unpacked(t, opts)
		if len(m.LeftOut) != 1 || m.LeftOut[0].Path != "GPU driver" || !strings.Contains(m.LeftOut[0].Reason, name) {
			t.Errorf("%s: left out %v", name, m.LeftOut)
		}
		if _, err := ReplayGPUs(filepath.Join(dir, NetlinkFolder)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	opts := options(tree)
	opts.GPUs = func(time.Time) (fabric.GPUDriver, error) {
		return fabric.GPUDriver{Released: "maintenance file /run/trainer17"}, nil
	}
	if _, text, _ := unpacked(t, opts); strings.Contains(text, "trainer17") || !strings.Contains(text, `"Released":"when it was captured`) {
		t.Error("says why the exporter released the GPUs, or not that it did")
	}
}

// bad are edits of a recording that Take would not have written.
func bad() map[string]func(d *fabric.GPUDriver) {
	return map[string]func(d *fabric.GPUDriver){
		"behind":              func(d *fabric.GPUDriver) { d.GPUs[1].Index = 0 },
		"two GPUs are":        func(d *fabric.GPUDriver) { d.GPUs[1].Address = strings.ToUpper(d.GPUs[0].Address) },
		"pair 1 and 1":        func(d *fabric.GPUDriver) { d.P2P[0].A = 1 },
		"pair 0 and 1":        func(d *fabric.GPUDriver) { d.P2P = append(d.P2P, d.P2P[0]) },
		"state 7":             func(d *fabric.GPUDriver) { d.GPUs[1].NVLinks.Value[0].Active.State = 7 },
		"reason \"boredom\"":  func(d *fabric.GPUDriver) { d.GPUs[1].MIG = fabric.UnknownFact[bool]("boredom", "", time.Time{}) },
		"cannot be printed":   func(d *fabric.GPUDriver) { d.GPUs[0].Name.Value = "H100\nH200" },
		"longer than":         func(d *fabric.GPUDriver) { d.GPUs[0].Name.Source = strings.Repeat("x", maxGPUString+1) },
		"errors \"crc\"":      func(d *fabric.GPUDriver) { l := &d.GPUs[0].NVLinks.Value[0]; l.Errors = append(l.Errors, l.Errors[0]) },
		"NVLink 3 behind":     func(d *fabric.GPUDriver) { l := &d.GPUs[0].NVLinks; l.Value = append(l.Value, l.Value[0]) },
		"expected at most 64": func(d *fabric.GPUDriver) { d.GPUs[0].NVLinks.Value = make([]fabric.NVLink, maxGPULinks+1) },
		"4097 processes":      func(d *fabric.GPUDriver) { d.GPUs[0].Processes.Value = make([]fabric.GPUProcess, maxGPUProcesses+1) },
		"257 GPUs":            func(d *fabric.GPUDriver) { d.GPUs = make([]fabric.GPU, maxGPUs+1) },
	}
}

func TestReplayRefuses(t *testing.T) {
	dir := t.TempDir()
	refuses := func(says, text string) {
		t.Helper()
		write(t, dir, map[string]string{GPUsFile: text})
		if _, err := ReplayGPUs(dir); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for says, edit := range bad() {
		d := twoGPUs(time.Time{})
		edit(&d)
		text := document(t, d)
		refuses(says, text)
	}
	whole := document(t, twoGPUs(time.Time{}))
	refuses("format 9, expected 1", strings.Replace(whole, `"format":1`, `"format":9`, 1))
	refuses("unknown field", strings.Replace(whole, `"UUID"`, `"UID"`, 1))
	refuses("found more", whole+"{}")
	refuses("unexpected EOF", whole[:len(whole)/2])
	refuses("more than", strings.Repeat(" ", maxGPUText+1))
}

func document(t *testing.T, d fabric.GPUDriver) string {
	t.Helper()
	b, err := jsonOf(gpuDocument{gpuFormat, d})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What is accepted can be shown, and is written again as it was.
func FuzzGPUs(f *testing.F) {
	whole, _ := jsonOf(gpuDocument{gpuFormat, twoGPUs(time.Time{})})
	f.Add([]byte(whole))
	f.Add([]byte(`{"format":1,"driver":{}}`))
	f.Add([]byte(`{"format":1,"driver":{"GPUs":[{"Index":3,"NVLinks":{"Value":[{"Active":{"State":1,"Value":true}}],"State":1}}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parseGPUs(b)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%v", err)
			}
			return
		}
		text, err := marshalGPUs(d)
		if err != nil {
			t.Fatal(err)
		}
		if (&anonymiser{}).gpuText(text) == "" {
			t.Error("cannot be rewritten")
		}
		if _, err := (&GPUs{[]byte(text)}).Read(d, false, time.Unix(1, 0)); err != nil {
			t.Error(err)
		}
	})
}

func jsonOf(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}
