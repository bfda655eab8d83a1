// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"testing"
	"time"
)

// TestManyLeaves is targets of which each has a leaf of its own, as where the label that names the leaf is that of the
// node: they are chosen from soon.
func TestManyLeaves(t *testing.T) {
	var all []Target
	for i := range 50_000 {
		all = append(all, Target{Address: fmt.Sprintf("n%d:1", i), Rail: AllRails, Leaf: fmt.Sprintf("l%d", i)})
	}
	self, begun := all[77], time.Now()
	self.Rail = 0
	if got := Choose(self, all, DefaultPeers); len(got) != DefaultPeers {
		t.Errorf("%v", got)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}
