// SPDX-License-Identifier: Apache-2.0

// Package peers says which rails a rail asks by RDMA ping: it reads targets in the format of Prometheus' file_sd or
// from DNS, and chooses a few of them by rendezvous hashing.
//
// What it reads may be written by anyone. It is bounded, and what is wrong in it is left out and counted. The
// functions are pure but for the reading of files and names, and may be called from any goroutine.
package peers

// Target is what may be asked: the exporter of a node, for one of its rails or all of them.
type Target struct {
	Address string // host:port of its exporter, which tells GID and queue pair
	Rail    int    // AllRails, or the number of the only one that this is about
	Leaf    string // the switch of the rail; empty: not known
	Rack    string
	Pod     string
}

// AllRails is the rail of a target that is about all rails of a node.
const AllRails = -1
