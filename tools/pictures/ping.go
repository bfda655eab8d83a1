// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// pingJob is the scrape job of what simulated exporters do not have: RDMA ping.
const pingJob = "ping"

// pings serves what RDMA ping says on the nodes: four on each leaf, with eight rails, and each rail asks three on its own leaf and two on
// each other one. After two minutes the uplinks of a leaf lose messages.
type pings struct {
	begin time.Time
	nodes []string
}

const (
	nodesOfLeaf = 4
	lossyLeaf   = 2
	uplinkLoss  = 0.03
	pingsBreak  = 2 * time.Minute
)

// servePings returns its address; it ends with the process.
func servePings(host string) (string, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	p := &pings{begin: time.Now()}
	for _, n := range nodes() {
		p.nodes = append(p.nodes, n.instance)
	}
	server := http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until the process ends
	return listener.Addr().String(), nil
}

func leafName(leaf int) string { return fmt.Sprintf("leaf-%d", leaf+1) }

// ServeHTTP answers for the node that is named by the path.
func (p *pings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	node := slices.Index(p.nodes, strings.TrimPrefix(r.URL.Path, "/"))
	if node < 0 {
		http.NotFound(w, r)
		return
	}
	p.write(w, node, time.Since(p.begin))
}

func (p *pings) write(w http.ResponseWriter, node int, since time.Duration) {
	own, leaves := node/nodesOfLeaf, (len(p.nodes)+nodesOfLeaf-1)/nodesOfLeaf
	fmt.Fprintf(w, "gpufabric_ping_targets %d\n", len(p.nodes))
	for rail := range 8 {
		port := fmt.Sprintf(`device="mlx5_%d",port="1"`, rail)
		fmt.Fprintf(w, "gpufabric_ping_info{%s,rail=\"%d\",leaf=%q,address=\"%s:10791\"} 1\n", port, rail, leafName(own), p.nodes[node])
		elsewhere := 0
		for leaf := range leaves {
			peers, group, loss := 2.0, "fabric", 0.0
			if leaf == own {
				peers, group = 3, "leaf"
			} else if (leaf == lossyLeaf || own == lossyLeaf) && since > pingsBreak {
				loss, elsewhere = uplinkLoss*(0.8+0.05*float64((node+3*rail+5*leaf)%9)), 1
			}
			labels := fmt.Sprintf(`%s,peers=%q,leaf=%q,peer_leaf=%q`, port, group, leafName(own), leafName(leaf))
			fmt.Fprintf(w, "gpufabric_ping_messages_total{%s} %.0f\ngpufabric_ping_lost_total{%s} %.0f\n", labels, peers*since.Seconds(),
				labels, peers*loss*(since-pingsBreak).Seconds())
		}
		for _, fault := range []string{"rail", "host", "elsewhere"} {
			value := 0
			if fault == "elsewhere" {
				value = elsewhere
			}
			fmt.Fprintf(w, "gpufabric_ping_fault{%s,fault=%q} %d\n", port, fault, value)
		}
		writeTimes(w, port, "loopback", since.Seconds(), [...]float64{0.97, 1, 1, 1, 1, 1, 1})
		writeTimes(w, port, "leaf", 3*since.Seconds(), [...]float64{0.9, 0.995, 1, 1, 1, 1, 1})
		writeTimes(w, port, "fabric", 6*since.Seconds(), [...]float64{0.3, 0.93, 0.985, 0.998, 1, 1, 1})
	}
}

// writeTimes writes round-trip times of which so many are below the bounds of the buckets.
func writeTimes(w http.ResponseWriter, port, peers string, count float64, below [7]float64) {
	const name = "gpufabric_ping_rtt_seconds"
	for i, le := range []string{"1e-05", "3e-05", "0.0001", "0.0003", "0.001", "0.01", "0.1"} {
		fmt.Fprintf(w, "%s_bucket{%s,peers=%q,le=%q} %.0f\n", name, port, peers, le, count*below[i])
	}
	fmt.Fprintf(w, "%s_bucket{%s,peers=%q,le=\"+Inf\"} %.0f\n", name, port, peers, count)
}
