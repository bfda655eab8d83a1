// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const (
	pingWatch = 45 * time.Second
	pingSlow  = 17 * time.Minute // five minutes until rates have it, and ten that it lasts
	pingHour  = time.Hour
)

// asks are the arguments of the command ping that has a rail 0 ask another node.
func asks(from, to, count int) string {
	return fmt.Sprintf("--count=%d --config.file=/tmp/n%d.yml --device=n%[2]dr0 %s", count, from, pingNode(to))
}

func pingFaults() []pingFault {
	return slices.Concat(railFaults(), pathFaults(), nodeFaults(), slowFaults())
}

func railFaults() []pingFault {
	bad := func(device string) []string { return []string{device + " says rail", "GpuFabricPingRail " + device} }
	return []pingFault{
		{name: "nothing", planting: shells("true", "true"), watch: 2 * time.Minute, ask: asks(3, 0, 4), show: quickest("n7r1")},
		{name: "a rail gets nothing", planting: netem("loss 100%", "p0r0"), want: bad("n0r0"), within: pingDead, watch: pingWatch, ask: asks(3, 0, 3)},
		{name: "a rail sends nothing", afresh: true, planting: netem("loss 100%", "n3r1"), want: bad("n3r1"), within: pingDead, watch: pingWatch},
		{
			name: "a rail loses 10 % of what it gets", afresh: true, planting: netem("loss 10%", "p6r0"), want: bad("n6r0"), within: pingLossy,
			watch: pingWatch, ask: asks(3, 6, 20),
		},
		{
			name: "a rail loses 10 % of what it sends", afresh: true, planting: netem("loss 10%", "n5r0"), want: bad("n5r0"), within: pingLossy,
			watch: pingWatch,
		},
		{name: "a rail loses 5 % of what it gets", afresh: true, planting: netem("loss 5%", "p1r1"), want: bad("n1r1"), within: pingLossy, watch: pingWatch},
		{name: "a rail loses 5 % of what it sends", afresh: true, planting: netem("loss 5%", "n2r0"), want: bad("n2r0"), within: pingLossy, watch: pingWatch},
		{
			name: "a rail loses 1 % of what it gets", afresh: true, planting: netem("loss 1%", "p4r1"), want: []string{"n4r1 says elsewhere"},
			within: 3 * time.Minute, watch: pingWatch, may: "n4r1",
		},
		{
			name: "a rail loses 1 % of what it sends", afresh: true, planting: netem("loss 1%", "n0r1"), want: []string{"n0r1 says elsewhere"},
			within: 3 * time.Minute, watch: pingWatch, may: "n0r1",
		},
		{
			name: "large messages do not pass to a rail", afresh: true, planting: dropLarge("p2r0"),
			want: []string{"n2r0 loses large messages", "GpuFabricPingMtu"}, within: pingLossy, watch: pingWatch, ask: asks(3, 2, 3),
		},
		{
			name: "a neighbour does not answer", afresh: true, want: bad("n3r0"), within: pingDead, watch: pingWatch, ask: asks(5, 3, 3), planting: shells(
				"tc qdisc add dev p3r0 root netem loss 100%; ip neigh flush dev n5r0", "tc qdisc del dev p3r0 root"),
		},
	}
}

func pathFaults() []pingFault {
	leaf := func(leaf string) []string { return []string{"GpuFabricPingLeaf " + leaf} }
	return []pingFault{
		{
			name: "nothing passes from one rail to another", afresh: true, planting: drop("p3r1", "src 10.1.0.1/32"), want: []string{"n0r1 says elsewhere"},
			within: pingDead, watch: pingWatch,
		},
		{
			name: "one flow does not pass from a leaf to others", afresh: true, planting: dropFlow("n1r0", "10.0.0.2"), want: []string{"others name n1r0"},
			within: pingDead, watch: pingWatch, may: "n1r0",
		},
		{
			name: "nothing passes between two leaves", afresh: true, planting: drop("sb", "src 10.0.0.0/30", "src 10.1.0.0/30"),
			want: []string{"GpuFabricPingPath a b", "GpuFabricPingPath b a"}, within: pingDead, watch: pingWatch,
		},
		{name: "the uplink of a leaf is dead", afresh: true, planting: netem("loss 100%", "ua", "sa"), want: leaf("a"), within: pingDead, watch: pingWatch},
		{name: "nothing leaves a leaf", afresh: true, planting: netem("loss 100%", "uc"), want: leaf("c"), within: pingDead, watch: pingWatch},
		{name: "nothing reaches a leaf", afresh: true, planting: netem("loss 100%", "sb"), want: leaf("b"), within: pingDead, watch: pingWatch},
		{name: "the uplink of a leaf loses 10 % one way", afresh: true, planting: netem("loss 10%", "sa"), want: leaf("a"), within: pingLossy, watch: pingWatch},
		{name: "the uplink of a leaf loses 5 % each way", afresh: true, planting: netem("loss 5%", "ub", "sb"), want: leaf("b"), within: pingLossy, watch: pingWatch},
		{name: "the uplink of a leaf loses 5 % one way", afresh: true, planting: netem("loss 5%", "uc"), want: leaf("c"), within: pingLossy, watch: pingWatch},
		{
			name: "large messages do not pass the uplink of a leaf", afresh: true, within: pingLossy, watch: pingWatch, ask: asks(3, 2, 3),
			planting: dropLarge("ua"), want: []string{"n0r0 loses large messages", "n2r1 loses large messages", "GpuFabricPingMtu"},
		},
	}
}

func nodeFaults() []pingFault {
	return []pingFault{
		{
			name: "exporter and sender are killed", afresh: true, watch: pingWatch, ask: asks(3, 7, 3),
			planting: planting{func(t *testing.T, f *pingFabric) { f.kill(t, 7) }, func(t *testing.T, f *pingFabric) { f.start(t, 7) }},
		},
		{name: "started again, with other numbers", planting: shells("true", "true"), watch: pingWatch},
		{name: "the GID of a rail changes", planting: shells(readdress("10.0.0.6", "10.0.0.77"), readdress("10.0.0.77", "10.0.0.6")), watch: pingWatch},
		{
			name: "the link of a rail goes down", afresh: true, watch: pingWatch, want: []string{"GpuFabricPortDown n2r1"}, within: pingDead,
			may: "n2r1 says rail", settle: true, planting: shells("ip link set n2r1 down", `ip link set n2r1 up
ip route replace local 10.1.0.3 dev n2r1 table 112
ip route replace 10.1.0.0/24 dev n2r1 src 10.1.0.3 table 112`),
		},
	}
}

// slowFaults are those whose alerts take ten minutes and more: what is slow, and what loses little.
func slowFaults() []pingFault {
	slow := func(name, delay string, show []string, want []string, devices ...string) pingFault {
		return pingFault{name: name, afresh: true, planting: netem("delay "+delay, devices...), want: want, within: pingSlow, watch: pingSlow, show: show}
	}
	rail, leaf := quickest("n7r1", "n0r1"), quickest("n4r0", "n0r0")
	return []pingFault{
		slow("a rail is 200 us slower", "200us", rail, nil, "p7r1"),
		slow("a rail is 1 ms slower", "1ms", rail, []string{"GpuFabricPingRailSlow (info) n7r1"}, "p7r1"),
		slow("the uplink of a leaf is 200 us slower each way", "200us", leaf, nil, "ub", "sb"),
		slow("the uplink of a leaf is 1 ms slower each way", "1ms", leaf, []string{"GpuFabricPingLeafSlow (info) b"}, "ub", "sb"),
		{
			name: "the uplink of a leaf loses 0.5 % one way", afresh: true, planting: netem("loss 0.5%", "ub"), want: []string{"GpuFabricPingLeaf (info) b"},
			within: pingSlow, watch: pingSlow,
		},
		{
			name: "the uplink of a leaf loses 0.1 % one way", afresh: true, planting: netem("loss 0.1%", "ub"), want: []string{"GpuFabricPingLeaf (info) b"},
			within: pingHour, watch: pingHour,
		},
	}
}

// quickest are queries of the times that a tenth of the messages stays below.
func quickest(devices ...string) (queries []string) {
	for _, d := range devices {
		queries = append(queries, fmt.Sprintf(`port:gpufabric_ping_rtt_seconds:quiet5m{device=%q}`, d))
	}
	return queries
}
