// SPDX-License-Identifier: Apache-2.0

package settings

import "testing"

// Names in NCCL_IB_HCA are shown where they are such as drivers give, because no other text looks so.
func TestExposedDevices(t *testing.T) {
	for value, shown := range map[string]bool{
		"mlx5": true, "=mlx5_0:1,mlx5_1:1": true, "^mlx5_bond_0": true, "^=rocep12s0f1,ibs3": true, "roceP2p1s0f0": true, "bnxt_re0": true, "rdmap79s0": true,
		"eth0": true, "ens3f0np0,enp65s0f1": true, "ib0": true, "bond0": true, "eno1": true, "ens3f0np0-acme": false, "ethernet": false, "en": false,
		"absent": false, "hunter2": false, "mlx5_0;rm": false, "mlx5_0,secret": false, "mlx5_0 ": false, "mlx5_00000": false, "ib0-of-acme": false, "mlx5_0:secret": false,
	} {
		if v, ok := Exposed("NCCL_IB_HCA", value); !ok || v.Masked == shown || shown && v.Value != value {
			t.Errorf("%q: %+v, %t, expected it shown: %t", value, v, ok, shown)
		}
	}
}
