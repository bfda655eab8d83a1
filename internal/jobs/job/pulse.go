// SPDX-License-Identifier: Apache-2.0

package job

// Flow is whether the ranks of a job on this node moved data to other nodes between the last two readings.
type Flow int

// Flows.
const (
	FlowUnknown Flow = iota // not read, compared for the first time, or not visible, as within an NVLink domain
	Flowing
	FlowStopped // the GPUs of a rank were busy, and neither way carried data
	FlowResting // neither GPUs nor connections were at work
)

// Load is how busy the GPUs of a job on this node were at the last two readings.
type Load int

// Loads.
const (
	LoadUnknown  Load = iota
	LoadTogether      // those of all ranks
	LoadApart         // those of some ranks were busy at both readings, and those of others idle at both
	LoadIdle          // those of no rank
)

// Pulse is what a job did between the last two readings, whatever verdict is shown.
type Pulse struct {
	Flow Flow
	Load Load
}

// pulse adds up what the ranks of a job did.
type pulse struct{ flowing, stopped, resting, unseen, busy, idle, unclear int }

// add takes a rank, with the verdict on these two readings alone.
func (p *pulse) add(r *observed, v *Verdict) {
	if v.Reason == NoCommunicator {
		return
	}
	switch {
	case !r.compared || r.busy == unclear:
		p.unclear++
	case r.busy == yes:
		p.busy++
	default:
		p.idle++
	}
	switch {
	case v.Transport != Unknown && v.Transport != Local, v.Reason == LittleTraffic:
		p.flowing++
	case v.Reason == NoTraffic:
		p.stopped++
	case v.Reason == Idle:
		p.resting++
	default:
		p.unseen++
	}
}

func (p *pulse) of() Pulse {
	var now Pulse
	switch {
	case p.flowing > 0:
		now.Flow = Flowing
	case p.unseen > 0:
	case p.stopped > 0:
		now.Flow = FlowStopped
	case p.resting > 0:
		now.Flow = FlowResting
	}
	switch {
	case p.unclear > 0:
	case p.busy > 0 && p.idle > 0:
		now.Load = LoadApart
	case p.busy > 0:
		now.Load = LoadTogether
	case p.idle > 0:
		now.Load = LoadIdle
	}
	return now
}
