// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Whoever has a namespace can make any number of pods in it. They displace no second job of somebody else,
// shown or remembered.
func TestPodsOfOneNamespace(t *testing.T) {
	pod := func(pid int, namespace string) fabric.RankCandidate {
		c, uid := rankOf(pid, 0, 0), fmt.Sprint("uid-", pid)
		c.Workload.Value = fabric.Workload{Scheduler: "kubernetes", Job: fmt.Sprint(namespace, "/train-", pid), Pod: uid, Rank: -1}
		c.Owner = fabric.Owner{Kind: fabric.OwnerPod, ID: uid}
		return c
	}
	slurm := func(pid int) fabric.RankCandidate {
		c := ofUser(rankOf(pid, 0, 0), 1000)
		c.Workload.Value = fabric.Workload{Scheduler: "slurm", Job: strconv.Itoa(pid), Rank: -1}
		return c
	}
	for name, many := range map[string]int{"jobs": 3 * maxJobs, "processes": maxCandidates + 100} {
		t.Run(name, func(t *testing.T) {
			var tr Tracker
			var list []fabric.RankCandidate
			for i := range many { // the older ones
				list = append(list, pod(i+1, "crowd"))
			}
			list = append(list, pod(9001, "team"), pod(9002, "team"), slurm(9003), slurm(9004))
			n := nodeOf(epoch, list...)
			jobs := tr.Update(n)
			if len(jobs.List) != maxJobs || jobs.Dropped != len(list)-maxJobs {
				t.Errorf("%d jobs, %d processes left out", len(jobs.List), jobs.Dropped)
			}
			n = nodeOf(epoch.Add(10*time.Second), list...)
			n.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](fabric.ReasonTimeout, "/proc", n.At)
			for _, now := range []Jobs{jobs, tr.Update(n)} {
				for _, want := range []string{"kubernetes/team/train-9001", "kubernetes/team/train-9002", "slurm/9003", "slurm/9004"} {
					if !slices.ContainsFunc(now.List, func(j Job) bool { return j.Name == want }) {
						t.Errorf("%s is left out, known %v", want, now.Known)
					}
				}
			}
		})
	}
}
