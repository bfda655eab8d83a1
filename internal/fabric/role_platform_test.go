// SPDX-License-Identifier: Apache-2.0

package fabric_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
	"gpufabric_exporter/internal/simulator"
)

// Every platform of the simulator through the real readers, without configuration: what is out of the way of all
// GPUs is storage, and as many ports are compute as there are rails.
func TestRolesOfPlatforms(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // thousands of small files
	}
	for name, want := range map[string]string{ // devices that are not compute
		"healthy":            "mlx5_8 storage, mlx5_9 storage, mlx5_bond_0 management",
		"healthy-ib":         "mlx5_4 storage, mlx5_5 storage",
		"healthy-bnxt-roce":  "",
		"healthy-irdma-roce": "",
		"healthy-ionic-roce": "", // GPUs of another vendor
		"healthy-efa":        "",
		"healthy-mana":       "", // flat
		"healthy-sriov-vf":   "mlx5_2 unused, mlx5_3 unused",
		"healthy-128-ports":  tenants(16, 128),                 // virtual functions of 16 physical ones
		"healthy-two-port":   "mlx4_0 storage, mlx4_0 storage", // NCCL_IB_HCA leaves it out
		"healthy-roce-bond":  "",
		"healthy-roce-vlan":  "",
		"device-gone":        "mlx5_8 storage, mlx5_9 storage, mlx5_bond_0 management",

		"healthy-mixed-nics-roce": "mlx5_2 storage",
		"healthy-mixed-nics-ib":   "mlx5_2 management, mlx5_3 storage",
		"healthy-oci-h100":        "mlx5_11 storage, mlx5_2 management",
		"healthy-mixed-vendors":   "bnxt_re0 storage, bnxt_re1 storage, rocep138s0f0 management",
		"healthy-half-cabled":     "",
		"healthy-single-card":     "mlx5_0 management",
		"healthy-nvlink-pairs":    "",
		"healthy-l40s":            "",
		"healthy-gb200":           "",
		"healthy-vm-flat":         "",
		"healthy-uncabled-ports":  "",
		"compute-ports-surplus":   "",
		"pcie-nic-shared":         "mlx5_8 storage, mlx5_9 storage, mlx5_bond_0 management",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := simulator.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			tree, err := s.Build().Materialise(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			ob, err := observer.New(observer.Options{
				Sysfs: tree.Sysfs(), Procfs: tree.Procfs(), Rootfs: tree.Rootfs(), Ethernet: tree.Ethernet(), Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer ob.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			n := ob.Observe(ctx, fabric.WantHCA|fabric.WantPCI)
			var got []string
			for _, h := range n.HCAs {
				for _, p := range h.Ports {
					if r := p.Role.Or("unknown"); r != fabric.RoleCompute {
						got = append(got, h.Name+" "+string(r))
					}
				}
			}
			slices.Sort(got)
			if all := strings.Join(got, ", "); all != want {
				t.Errorf("%s; want %s", all, want)
			}
		})
	}
}

// tenants are the devices from the first to the last, all of them unused by the host, sorted as text.
func tenants(first, end int) string {
	var all []string
	for i := first; i < end; i++ {
		all = append(all, fmt.Sprintf("mlx5_%d unused", i))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
