// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxb200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	mock "github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"gpufabric_exporter/internal/fabric"
)

// inProcess is a Caller without a process.
type inProcess struct{ s *Server }

func (p inProcess) Call(ctx context.Context, q []byte) ([]byte, error) { return p.s.Handle(ctx, q) }
func (p inProcess) Close() error                                       { return nil }

// mocked are the symbols that go-nvml's mocks have an answer for. Their LookupSymbol finds all, and the rest panics.
var mocked = []string{
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMemoryInfo",
	"nvmlDeviceGetMigMode",
}

func serverOf(m *mock.Server) *Server {
	s := NewServer("")
	s.lib = m
	s.reader = newReader(m, func(symbols ...string) bool {
		return slices.ContainsFunc(symbols, func(n string) bool { return slices.Contains(mocked, n) })
	})
	return s
}

func TestMocksOfGoNVML(t *testing.T) {
	for _, c := range []struct {
		name              string
		m                 *mock.Server
		version, cuda     string
		gpu               string
		capability, bytes int
	}{
		{"A100", dgxa100.New(), "550.54.15", "12.4", "Mock NVIDIA A100-SXM4-40GB", 80, 40 << 30},
		{"H100", dgxh100.New(), "550.54.15", "12.4", "NVIDIA H100 80GB HBM3", 90, 80 << 30},
		{"H200", dgxh200.New(), "550.54.15", "12.4", "NVIDIA H200 141GB HBM3e", 90, 141 << 30},
		{"B200", dgxb200.New(), "560.28.03", "12.6", "NVIDIA B200 180GB HBM3e", 100, 180 << 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			if ret, _ := c.m.Devices[2].SetMigMode(1); ret != 0 {
				t.Fatal(ret)
			}
			d := mustRead(t, NewClient(inProcess{serverOf(c.m)}), fabric.GPUDriver{}, true)
			if !d.Loaded.Value || d.Version.Value != c.version || d.CUDA.Value != c.cuda || len(d.GPUs) != 8 || len(d.P2P) != 28 {
				t.Fatalf("%+v", d)
			}
			for i := range d.GPUs {
				g := &d.GPUs[i]
				if uuid, _ := c.m.Devices[i].GetUUID(); g.UUID != uuid || g.Index != i || g.Name.Value != c.gpu || g.ComputeCap.Value != c.capability ||
					g.Memory.Value.Total != uint64(c.bytes) || g.MIG.State != fabric.OK || g.MIG.Value != (i == 2) || g.Lost != fabric.Known(false, g.Lost.Source, testTime) {
					t.Errorf("%+v", g)
				}
				if g.Processes.Reason != fabric.ReasonMissing || g.NVLinks.Reason != fabric.ReasonMissing || g.Fabric.Reason != fabric.ReasonMissing {
					t.Errorf("what the mock does not have is known: %+v", g)
				}
			}
			// All GPUs of the mocks have one address, which is a key: the first keeps it.
			if d.GPUs[0].Address != "0000:00:00.0" || d.GPUs[1].Address != "" {
				t.Errorf("addresses %q and %q", d.GPUs[0].Address, d.GPUs[1].Address)
			}
		})
	}
}
