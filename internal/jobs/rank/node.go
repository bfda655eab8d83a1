// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// Read looks at the processes, given what the driver of the GPUs says. netns is the network namespace of the
// node, that of its first process. It is an error when no candidate was found and there may be one that is
// hidden. Beside a list it is a fabric.PartialError: the list is good for all but those that it names, and
// what a privilege hides is none.
func (r *Reader) Read(gpus *fabric.GPUDriver, now time.Time) (list []fabric.RankCandidate, netns fabric.Fact[uint64],
	err error,
) {
	const source = "1/ns/net"
	netns = fabric.UnknownFact[uint64](fabric.ReasonMalformed, source, now)
	if link, err := r.readlink(source); err != nil {
		netns.Reason = reasonOf(err)
	} else if n, ok := parseNamespace(link, "net"); ok && r.hidden == "" {
		netns = fabric.Known(n, source, now)
	}
	pids := listed(gpus, now)
	if !r.samePIDs { // those of NVML are of another PID namespace than those of procfs
		pids = fabric.UnknownFact[map[int][]string](fabric.ReasonPrivilege, pids.Source, now)
	}
	reading, err := r.Look(context.Background(), pids, now)
	if pids.State == fabric.OK {
		addInstances(reading.Candidates, gpus)
	}
	return reading.Candidates, netns, cmp.Or(err, incomplete(&reading))
}

// incomplete is why there may be more than a reading has.
func incomplete(reading *fabric.RankReading) error {
	by := reading.Exceeded
	if reading.Hidden == fabric.ReasonNotRead {
		by = append(by, fabric.Excess{What: "new processes", Reason: reading.Hidden})
	}
	switch {
	case len(reading.Candidates) == 0 && reading.Hidden != "":
		return fabric.Because(reading.Hidden,
			fmt.Sprintf("processes that hold GPUs may be hidden: %d processes can be seen", reading.Processes))
	case len(by) > 0:
		return &fabric.PartialError{By: by}
	}
	return nil
}

// listed returns the UUIDs of GPUs by the PIDs that NVML lists for them; known if it answered for each GPU.
func listed(gpus *fabric.GPUDriver, now time.Time) fabric.Fact[map[int][]string] {
	const source = "NVML"
	if gpus == nil || len(gpus.GPUs) == 0 {
		return fabric.UnknownFact[map[int][]string](fabric.ReasonNotRead, source, now)
	}
	of := map[int][]string{}
	for i := range gpus.GPUs {
		g := &gpus.GPUs[i]
		list, ok := g.Processes.Get()
		if !ok || g.UUID == "" {
			return fabric.UnknownFact[map[int][]string](g.Processes.Meta().Reason, source, now)
		}
		for _, p := range list {
			of[p.PID] = add(of[p.PID], g.UUID)
		}
	}
	return fabric.Known(of, source, now)
}

// addInstances notes the MIG devices that candidates run in.
func addInstances(candidates []fabric.RankCandidate, gpus *fabric.GPUDriver) {
	of := map[int][]string{}
	for i := range gpus.GPUs {
		for _, p := range gpus.GPUs[i].Processes.Value {
			if p.Instance != "" {
				of[p.PID] = add(of[p.PID], p.Instance)
			}
		}
	}
	for i := range candidates {
		candidates[i].Instances = of[candidates[i].PID]
	}
}
