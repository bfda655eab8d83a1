// SPDX-License-Identifier: Apache-2.0

package locatetest

import (
	"hash/fnv"
	"math/rand/v2"
	"time"

	"gpufabric_exporter/rdmaping/locate"
)

// Late is a link on which answers take a fifth of a millisecond longer.
type Late struct {
	Name string
	Link *Link  // nil: none
	Host string // that is late itself, with its loopback too
	Want []string
}

// LateFaults are what makes answers late.
func (c Clos) LateFaults() []Late {
	of := c.Rail(5, 0)
	rail, uplinks := ofRail("n5", 0), ofUplinks(of.Leaf)
	return []Late{
		{Name: "nothing, beside busy jobs"},
		{Name: "a rail is slow", Link: &rail, Want: []string{"RailSlow n5 0"}},
		{Name: "the uplinks of a leaf are slow", Link: &uplinks, Want: []string{"LeafSlow " + of.Leaf}},
		{Name: "a host is slow", Host: "n5"},
	}
}

const (
	usual  = 15 * time.Microsecond
	late   = 200 * time.Microsecond
	queued = time.Millisecond
)

// RTT is how long an answer takes. On a third of the nodes a job fills the queues of NICs four fifths of the time.
func (l Late) RTT(p locate.Pair, random *rand.Rand) time.Duration {
	took := usual + time.Duration(random.ExpFloat64()*float64(usual)/4)
	if p.From == p.To {
		if l.Host == p.From.Node {
			took += late
		}
		return took
	}
	for _, r := range []locate.Rail{p.From, p.To} {
		if busy(r.Node) && random.IntN(5) > 0 {
			took += time.Duration(random.ExpFloat64() * float64(queued))
		}
		if l.Host == r.Node {
			took += late
		}
	}
	spine := 0
	if p.From.Leaf == p.To.Leaf {
		spine = -1
	}
	if l.Link != nil && l.Link.carries(p, spine) {
		took += late
	}
	return took
}

func busy(node string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(node))
	return h.Sum32()%3 == 0
}
