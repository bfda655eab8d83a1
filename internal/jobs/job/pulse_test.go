// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"testing"
	"time"

	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/simulator/stage"
)

// What a job does at the end of 90 s, whatever verdict is shown.
func TestPulse(t *testing.T) {
	on := stage.New(t)
	for name, want := range map[string]job.Pulse{
		"job-slurm":      {Flow: job.Flowing, Load: job.LoadTogether},
		"job-tcp":        {Flow: job.Flowing, Load: job.LoadTogether},
		"job-hang":       {Flow: job.FlowStopped, Load: job.LoadTogether},
		"job-rank-dead":  {Flow: job.FlowStopped, Load: job.LoadTogether},
		"job-straggler":  {Flow: job.Flowing, Load: job.LoadApart},
		"job-starting":   {Flow: job.FlowResting, Load: job.LoadIdle},
		"job-one-node":   {Flow: job.FlowUnknown, Load: job.LoadTogether},
		"job-kubernetes": {Flow: job.Flowing, Load: job.LoadTogether},
	} {
		s, err := simulator.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		all := follow(t, on, s, 15*time.Second, 7)
		if got := all[0].List[0].Pulse; got.Flow != job.FlowUnknown {
			t.Errorf("%s: %+v after one reading", name, got)
		}
		last := all[len(all)-1].List[0]
		if last.Pulse != want {
			t.Errorf("%s: %+v, expected %+v", name, last.Pulse, want)
		}
	}
}
