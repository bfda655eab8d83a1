// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"encoding/binary"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/host/cgroup"
	"gpufabric_exporter/internal/host/podresources"
	"gpufabric_exporter/internal/host/proc"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/gate"
)

// host is a node without GPUs in files: procfs and control groups, and a kubelet that answers.
type host struct {
	t    *testing.T
	root string
}

func newHost(t *testing.T) host {
	h := host{t, t.TempDir()}
	self := strconv.Itoa(os.Getpid())
	h.write("proc/1/status", "Name:\tsystemd\nPid:\t1\nPPid:\t0\nUid:\t0\t0\t0\t0\nNSpid:\t1\n")
	h.write("proc/1/comm", "systemd\n")
	h.write("proc/"+self+"/ns/.", "")
	h.link(self, "proc/self")
	h.link("pid:[4026531836]", "proc/"+self+"/ns/pid")
	h.write("cgroup/cgroup.controllers", "cpu memory\n")
	h.write("cgroup/system.slice/slurmstepd.scope/cgroup.procs", "")
	h.write("kubelet/.", "")
	return h
}

func (h host) path(name string) string { return filepath.Join(h.root, name) }

func (h host) write(name, content string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.root+"/"+name), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if strings.HasSuffix(name, "/.") {
		if err := os.MkdirAll(h.path(name), 0o755); err != nil {
			h.t.Fatal(err)
		}
		return
	}
	if err := os.WriteFile(h.path(name), []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h host) link(to, name string) {
	h.t.Helper()
	if err := os.Symlink(to, h.path(name)); err != nil {
		h.t.Fatal(err)
	}
}

// kubelet answers with a list of PodResources.
func (h host) kubelet(list string) {
	h.t.Helper()
	l, err := net.Listen("unix", h.path("kubelet/kubelet.sock"))
	if err != nil {
		h.t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Protocols: &protocols, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(list))), list...))
		w.Header().Set("Grpc-Status", "0")
	})}
	go s.Serve(l)
	h.t.Cleanup(func() { s.Close() })
}

// The gate with the readers that it has in the product, and a library that says what a machine does.
func TestGateWithRealReaders(t *testing.T) {
	const uuid = "GPU-00000000-1111-2222-3333-444444444444"
	h := newHost(t)
	h.kubelet("")
	fs, err := proc.Open(h.path("proc"))
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	c, s := newSession(t, "gpus 2", "processes 0")
	maintenance, quiet := "", 300*time.Millisecond
	opened := func() *gate.Gate {
		return gate.New(gate.Options{
			GPUs: s, Processes: fs, Cgroups: cgroup.New(h.path("cgroup")), Pods: podresources.New(h.path("kubelet/kubelet.sock")),
			Maintenance: func() (string, error) { return maintenance, nil }, Lock: h.path("lock"),
			IdleMemory: 1 << 29, // which the library says is used
			Quiet:      quiet,
		})
	}
	// enter takes more time when this machine is too busy to start a process and to look often enough, unless
	// that looks as expected.
	enter := func(want probes.Skip) (pass *gate.Pass, skipped *probes.Skipped) {
		for ; ; quiet *= 2 {
			if pass, skipped = opened().Enter(t.Context(), []string{uuid}); pass != nil || skipped.Why == want || skipped.Why != probes.SkipCannotProveIdle || quiet > time.Minute {
				return pass, skipped
			}
			t.Log(skipped.Detail)
		}
	}
	pass, skipped := enter("")
	if pass == nil {
		t.Fatalf("%+v", skipped)
	}
	if who, err := pass.Intruder(t.Context(), nil); who != "" || err != nil {
		t.Errorf("%q, %v", who, err)
	}
	c.describe("gpus 2", "processes 1")
	began := time.Now()
	who, err := pass.Intruder(t.Context(), nil)
	if who != "compute process 1000 on "+uuid || err != nil {
		t.Errorf("%q, %v", who, err)
	}
	t.Logf("seen within %s", time.Since(began))
	pass.Leave()
	if c.cmd != nil {
		t.Error("the process with the library is still there")
	}
	for _, x := range []struct {
		machine string
		want    probes.Skip
	}{
		{"processes 1", probes.SkipProcess},
		{"graphics 1", probes.SkipProcess},
		{"mps 1", probes.SkipMPS},
		{"util 3", probes.SkipUtilization},
		{"mode 3", probes.SkipComputeMode},
		{"mig 1", probes.SkipMIG},
		{"persistence 0", probes.SkipPersistence},
		{"reasons 0x40", probes.SkipThrottled},
		{"driver 9", probes.SkipNoGPU},
		{"driver 18", probes.SkipCannotProveIdle},
		{"error nvmlDeviceGetComputeRunningProcesses_v3 4", probes.SkipCannotProveIdle},
		{"error nvmlDeviceGetUtilizationRates 3", probes.SkipCannotProveIdle},
		{"error nvmlDeviceGetMemoryInfo_v2 999", probes.SkipCannotProveIdle},
		{"error nvmlDeviceGetFieldValues 999", probes.SkipCannotProveIdle},
		{"error nvmlDeviceGetPcieReplayCounter 3", probes.SkipCannotProveIdle},
		{"error nvmlDeviceGetPersistenceMode 4", probes.SkipCannotProveIdle},
		{"replays 5", probes.SkipCannotProveIdle},
		{"link_errors 1", probes.SkipCannotProveIdle},
		{"lost 0", probes.SkipCannotProveIdle},
		{"lie processes", probes.SkipCannotProveIdle},
		{"lie values", probes.SkipCannotProveIdle},
		{"crash nvmlDeviceGetMemoryInfo_v2", probes.SkipCannotProveIdle},
	} {
		c.describe("gpus 2", "processes 0", x.machine)
		pass, skipped := enter(x.want)
		if pass != nil || skipped.Why != x.want {
			t.Errorf("%s: %+v, expected %s", x.machine, skipped, x.want)
			continue
		}
		t.Logf("%-48s %s: %s", x.machine, skipped.Why, skipped.Detail)
	}
	c.describe("gpus 2", "processes 0")
	maintenance = "SIGUSR1"
	if pass, skipped := enter(probes.SkipMaintenance); pass != nil || skipped.Why != probes.SkipMaintenance || c.cmd != nil {
		t.Errorf("maintenance: %+v, and a process: %v", skipped, c.cmd != nil)
	}
	maintenance = ""
	h.write("cgroup/system.slice/slurmstepd.scope/job_17/.", "")
	if pass, skipped := enter(probes.SkipSlurm); pass != nil || skipped.Why != probes.SkipSlurm {
		t.Errorf("a job of Slurm: %+v", skipped)
	}
}
