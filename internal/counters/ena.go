// SPDX-License-Identifier: Apache-2.0

package counters

// ena drives the network interfaces beside EFA. Names are those of Linux 6.12.
var ena = driver{
	names: []string{"ena"},
	statistics: &StatTable{
		Name:   "ena",
		Source: "drivers/net/ethernet/amazon/ena/ena_ethtool.c",
		Note:   "Nothing is mapped: EFA is not Ethernet, and ena counts neither pauses nor RDMA.",
	},
}
