// SPDX-License-Identifier: Apache-2.0

package counters

import "testing"

// What GPUDirect and RoCE are judged by hangs on these names.
func TestTraits(t *testing.T) {
	for name, want := range map[string]Traits{
		"mlx5_core": {DMABuf: Linux{5, 12}, PCPUntilDSCP: true}, "efa": {DMABuf: Linux{5, 16}, ConstantPorts: true, NoVerbs: true},
		"ice": {DMABuf: Linux{6, 4}}, "bnxt_en": {DMABuf: Linux{6, 8}}, "mana": {DMABuf: Linux{6, 15}, OrdinaryNIC: true}, "ionic": {DMABuf: Linux{6, 18}},
		"": {}, "mlx4_core": {}, "nosuch": {},
	} {
		if got := TraitsOf(name); got != want {
			t.Errorf("%q: %+v, want %+v", name, got, want)
		}
	}
	for _, d := range drivers() {
		for _, name := range d.names {
			if d.traits != (Traits{}) && TraitsOf(name) != d.traits {
				t.Errorf("%s: another driver of that name has other traits", name)
			}
		}
	}
}
