// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"slices"
	"testing"
	"time"
)

// A probe that went over TCP says why, as far as NCCL logged it.
func TestCauseOfSocket(t *testing.T) {
	for _, tt := range []struct {
		name      string
		kind      Kind
		noDevices bool
		settings  []string
		want      Cause
	}{
		{"switched off", Transport, false, []string{"NCCL_IB_DISABLE=1"}, CauseDisabled},
		{"not switched off", Transport, true, []string{"NCCL_IB_DISABLE=0"}, CauseNoDevice},
		{"TCP selected", Transport, false, []string{"NCCL_NET=socket"}, CauseSocketSelected},
		{"no device", Transport, true, nil, CauseNoDevice},
		{"the log was cut", Transport, false, []string{"NCCL_IB_HCA=mlx5"}, CauseNotLogged},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := ProbeStatus{Last: &Result{Key: Key{Kind: tt.kind}, Path: Known(PathSocket, "", time.Now()), NoDevices: tt.noDevices, Settings: tt.settings}}
			if got := p.Causes(FaultSocket); !slices.Equal(got, []Cause{tt.want}) {
				t.Errorf("%q, expected %s", got, tt.want)
			}
		})
	}
}

// A slow probe says what differs from the last run at full bandwidth, or that nothing does.
func TestCauseOfSlowness(t *testing.T) {
	before := Result{NCCL: "2.27.7", Channels: Known(16, "", time.Now()), GPUDirect: Known(true, "", time.Now()), Settings: []string{"NCCL_DEBUG=INFO"}}
	same, other := before, before
	other.Channels, other.GPUDirect, other.Settings = Known(4, "", time.Now()), Known(false, "", time.Now()), []string{"NCCL_DEBUG=INFO", "NCCL_ALGO=Tree", "NCCL_PROTO=LL"}
	for _, tt := range []struct {
		name string
		p    ProbeStatus
		f    Fault
		want []Cause
	}{
		{"nothing differs", ProbeStatus{Before: &before, LastGood: &same}, FaultSlow, []Cause{CauseNoDifference}},
		{"several things differ", ProbeStatus{Before: &before, LastGood: &other}, FaultRegressed, []Cause{CauseGPUDirect, CauseChannels, CauseSettings}},
		{"nothing to compare with", ProbeStatus{LastGood: &same}, FaultSlow, nil},
		{"a fault without causes", ProbeStatus{Before: &before, LastGood: &other}, FaultStale, nil},
	} {
		if got := tt.p.Causes(tt.f); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, expected %q", tt.name, got, tt.want)
		}
	}
}
