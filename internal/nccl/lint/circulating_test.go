// SPDX-License-Identifier: Apache-2.0

package lint

import "testing"

// Settings that guides and job scripts copy from each other get the verdict that NCCL's sources give them:
// variables that do not exist, values without effect, and values that are worse than the default.
func TestCirculatingSettings(t *testing.T) {
	for setting, want := range map[string]Verdict{
		"NCCL_NVLINK_DISABLE=1": Unknown, "NCCL_DEBUG_LOG_DIR=/logs": Unknown, "NCCL_TIMEOUT=600": Unknown,
		"NCCL_DEBUG=DEBUG": Misread, "NCCL_P2P_LEVEL=PCI": Misread, "NCCL_NTHREADS=16": Misread,
		"NCCL_NET_GDR_LEVEL=5": Deprecated, "NCCL_IB_GID_INDEX=3": NotRecommended, "NCCL_ALGO=Ring": NotRecommended,
	} {
		in, err := Environment("job", []string{setting})
		if err != nil {
			t.Fatal(err)
		}
		r := Judge([]Input{in}, Newest(), nil)
		if got := r.Lines[0].Worst().Verdict; got != want {
			t.Errorf("%s: lint says %s, expected %s: %s", setting, got, want, r.Lines[0].Worst().Reason)
		}
	}
}
