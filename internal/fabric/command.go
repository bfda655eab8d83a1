// SPDX-License-Identifier: Apache-2.0

package fabric

// Command is a kind of question that the kernel passes on to a driver, and most drivers to their firmware.
type Command string

// The kinds, by the operation of the driver that answers.
const (
	CommandQueryPort  Command = "query_port"    // ib_device_ops.query_port: states, rate, LIDs
	CommandProcessMAD Command = "process_mad"   // ib_device_ops.process_mad: one PMA counter file
	CommandHWStats    Command = "get_hw_stats"  // ib_device_ops.get_hw_stats: all hardware counters of a port
	CommandDCB        Command = "dcb_get"       // dcbnl_rtnl_ops: what is set for one network interface
	CommandNetStats   Command = "ethtool_stats" // ethtool_ops.get_ethtool_stats: all statistics of an interface
	CommandNetNames   Command = "ethtool_names" // ethtool_ops.get_sset_count and get_strings: which statistics it has
	CommandPause      Command = "pause_get"     // ethtool_ops.get_pauseparam and get_pause_stats
	CommandLink       Command = "link_get"      // ethtool_ops.get_link_ksettings: the speed of an interface
	CommandFEC        Command = "fec_get"       // ethtool_ops.get_fecparam and get_fec_stats
	// QUERY_CONG_STATUS and QUERY_CONG_PARAMS of mlx5: one file of ecn or cc_params
	CommandCongestion Command = "cong_query"
)

// CommandKinds returns all kinds, in the order of documentation.
func CommandKinds() []Command {
	return []Command{
		CommandQueryPort, CommandProcessMAD, CommandHWStats, CommandDCB, CommandNetStats, CommandNetNames, CommandPause,
		CommandFEC,
		CommandLink, CommandCongestion,
	}
}

// Commands counts what drivers were asked since the exporter started.
type Commands map[Command]uint64

// Add adds the counts of o.
func (c Commands) Add(o Commands) {
	for k, n := range o {
		c[k] += n
	}
}
