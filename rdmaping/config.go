// SPDX-License-Identifier: Apache-2.0

package rdmaping

import "time"

// Config is how a node pings others by itself.
type Config struct {
	Files     []string // of targets, as of Prometheus' file_sd; without targets a node only answers
	Names     []string // host:port, each with an address for each node
	LeafLabel string   // of a target: the switch of the rail
	Self      string   // the target that is this node; empty: by its addresses and its name
	Peers     int      // of each rail
	Interval  time.Duration
	Size      int // bytes of a message
	// Scheme is http or https, and ClientFile says how to ask peers, as http_config of Prometheus; empty: neither TLS
	// settings nor credentials.
	Scheme, ClientFile string
	// Plain allows to tell peers where rails answer although the exporter has neither TLS nor authentication.
	Plain   bool
	Library string // empty: libibverbs.so.1
}

// Bounds of a Config.
const (
	MaxPeers      = 8 // more would have more than 60 series
	LeastInterval = 500 * time.Millisecond
	MostInterval  = time.Minute
	MaxSources    = 16 // of targets, files and names each
)

// DefaultConfig is all that a site need not say.
func DefaultConfig() Config {
	return Config{LeafLabel: "leaf", Peers: 8, Interval: time.Second, Size: Least, Scheme: "http"}
}
