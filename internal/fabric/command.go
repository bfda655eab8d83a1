// SPDX-License-Identifier: Apache-2.0

package fabric

// Command is a kind of question that the kernel passes on to a driver, and most drivers to their firmware.
type Command string

// The kinds, by the operation of the driver that answers.
const (
	CommandQueryPort  Command = "query_port"   // ib_device_ops.query_port: states, rate, LIDs
	CommandProcessMAD Command = "process_mad"  // ib_device_ops.process_mad: one PMA counter file
	CommandHWStats    Command = "get_hw_stats" // ib_device_ops.get_hw_stats: all hardware counters of a port
)

// Commands counts what drivers were asked since the exporter started.
type Commands map[Command]uint64

// Add adds the counts of o.
func (c Commands) Add(o Commands) {
	for k, n := range o {
		c[k] += n
	}
}
