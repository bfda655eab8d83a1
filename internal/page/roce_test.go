// SPDX-License-Identifier: Apache-2.0

package page

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

// Every step and every mode has words of its own.
func TestRoCEStepNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range []fabric.RoCEStep{
		fabric.RoCETrafficClass, fabric.RoCEDSCP, fabric.RoCEPriority, fabric.RoCEPFC, fabric.RoCEGlobalPause, fabric.RoCEBuffer, fabric.RoCEETS,
		fabric.RoCENotification, fabric.RoCEReaction, fabric.RoCECNP, fabric.RoCEObservedPriority, fabric.RoCEObservedLoss,
		fabric.RoCEObservedPauseSent, fabric.RoCEObservedPauseReceived, fabric.RoCEObservedCNP,
	} {
		if name := roceStepName(s); seen[name] || strings.Contains(name, "observed") {
			t.Errorf("%s: %q", s, name)
		}
		seen[roceStepName(s)] = true
	}
	for _, m := range fabric.RoCEModes() {
		if text := roceModeText(m); seen[text] {
			t.Errorf("%s: %q", m, text)
		}
		seen[roceModeText(m)] = true
	}
	for policy, want := range map[*fabric.RoCEPolicy]string{
		{}: "", {DSCP: new(26), Priority: new(3), Lossless: new(true), ECN: new(true)}: "DSCP 26, priority 3, lossless (PFC), with ECN",
		{Lossless: new(false), ECN: new(false)}: "lossy by design, without ECN",
	} {
		if got := roceWishText(*policy); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
