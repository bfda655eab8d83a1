// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/probes"
)

// loaded has the kernel say on a node that NVIDIA's driver is there.
const loaded = `mount -t tmpfs tmpfs /proc/driver && mkdir /proc/driver/nvidia &&
echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025" >/proc/driver/nvidia/version`

// driverLibraries is the folder with NVIDIA's real libraries of a suite.
func driverLibraries(t *testing.T, suite string) string {
	t.Helper()
	said, err := script("./fetch.sh", suite, "driver")
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 77 {
		t.Skip(said)
	} else if err != nil {
		t.Fatal(err)
	}
	folder, version, _ := strings.Cut(said, " ")
	found, err := filepath.Glob(filepath.Join(folder, "usr/lib/*/nvidia/current"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s has %v: %v", folder, found, err)
	}
	t.Logf("libraries of NVIDIA's driver %s", version)
	return found[0]
}

// TestDriverLibraries shows what the exporter makes of NVIDIA's real libraries where no driver answers them: the worker
// ends in order, no GPU is claimed, and a rank says what is missing.
func TestDriverLibraries(t *testing.T) {
	whole(t)
	exporter := filepath.Join(t.TempDir(), "gpufabric_exporter")
	if out, err := exec.Command("go", "build", "-o", exporter, "../..").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	before, _ := filepath.Glob("/dev/nvidia*")
	t.Cleanup(func() { // as root with its capabilities, NVML would make them
		if after, _ := filepath.Glob("/dev/nvidia*"); len(after) != len(before) {
			t.Errorf("device nodes were made: %v", after)
		}
	})
	for _, suite := range []string{"bookworm", "trixie"} {
		t.Run(suite, func(t *testing.T) {
			folder := driverLibraries(t, suite)
			with, without := newNode(t, loaded), newNode(t, "")
			nvml := "--gpu.nvml-library=" + filepath.Join(folder, "libnvidia-ml.so.1")
			for _, c := range []struct {
				name string
				n    *node
				args []string
				code int
				says []string
			}{
				{"driver loaded, no device nodes", with, []string{"check", "--log.level=debug"}, 2, []string{
					`msg="worker ended" worker=gpu reason="released: NVML reaches no driver"`, "The node has neither an RDMA device nor a GPU", " 1 unknown",
				}},
				{"report", with, []string{"report"}, 0, []string{"The GPU driver is loaded, but NVML does not reach it", "no visible GPU"}},
				{"probe", with, []string{"probe", "--even-if-busy"}, 2, []string{"not probed (cannot_prove_idle): the GPU driver: missing"}},
				{"no driver", without, []string{"check", "--log.level=debug"}, 2, []string{"The node has neither an RDMA device nor a GPU"}},
				{"probe without a driver", without, []string{"probe"}, 2, []string{"not probed (no_gpu): no GPU driver is loaded"}},
			} {
				cmd := c.n.inside(append(append([]string{exporter}, c.args...), nvml)...)
				out, _ := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); code != c.code {
					t.Errorf("%s: status %d, expected %d", c.name, code, c.code)
				}
				for _, want := range c.says {
					if !strings.Contains(string(out), want) {
						t.Errorf("%s: expected %q in:\n%s", c.name, want, out)
					}
				}
				if strings.Contains(string(out), "signal:") || strings.Contains(string(out), "level=error") {
					t.Errorf("%s:\n%s", c.name, out)
				}
			}
			if rigs[0].missing != "" {
				t.Skip("no NCCL for a rank: ", rigs[0].missing)
			}
			r := probeOf(t, without, errand{Name: rankName("driver"), Plan: transport(rigs[0], filepath.Join(folder, "libcuda.so.1"))})
			if r.Failure != probes.FailureCUDA || !strings.Contains(r.Error, "cuInit: CUDA_ERROR_NO_DEVICE") {
				t.Errorf("a rank without a driver: %s %s", r.Failure, r.Error)
			}
		})
	}
}
