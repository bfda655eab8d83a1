// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"fmt"
	"testing"
)

// For each reason why a probe does not run or fails, there is advice.
func TestAdvice(t *testing.T) {
	for _, s := range Skips() {
		if s.Advice() == "" {
			t.Errorf("no advice on %s", s)
		}
	}
	for _, f := range Failures() {
		says := f.Advice() != ""
		if own := f == FailureProtocol || f == FailureSettings || f == FailureStopped; says == own {
			t.Errorf("advice on %s: %v", f, says)
		}
	}
}

func ExampleSkipf() {
	fmt.Println(Skipf(SkipProcess, "compute process 17 (\x1b[31m\n) on GPU %d", 0).Detail)
	// Output: compute process 17 ( [31m ) on GPU 0
}
