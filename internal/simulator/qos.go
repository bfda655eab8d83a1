// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"regexp"
	"slices"
	"strconv"

	"gpufabric_exporter/internal/fabric"
)

// QoS is how an interface treats the classes of its traffic. The zero value is that of an interface whose driver
// answers no question about it: a bond, a VLAN, a cloud's.
type QoS struct {
	DCB     bool // the driver has DCB operations; what belongs to them counts for nothing without
	PFC     fabric.PriorityMask
	Delay   int // of PFC
	ETS     fabric.ETS
	Apps    []fabric.App
	Buffers fabric.Buffers // Total 0: the driver does not report them
	DCBX    fabric.DCBX

	Pause Pause
	FEC   FEC
	OFED  OFED
}

// Pause is IEEE 802.3x flow control.
type Pause struct {
	Answers           bool // the driver can be asked
	Autonegotiated    bool
	Receive, Transmit bool
}

// FEC is forward error correction.
type FEC struct {
	Active                   string // empty: the driver cannot be asked
	Counted                  bool
	Corrected, Uncorrectable Counter // blocks; corrected bits are among the statistics
}

// OFED is what MLNX_OFED adds to an interface of mlx5.
type OFED struct {
	Files       OFEDFiles
	NP, RP      fabric.PriorityMask // congestion control of receivers and senders
	CNPDSCP     int
	CNPPriority int
}

// OFEDFiles says which files a driver has beside those of the kernel.
type OFEDFiles uint8

const (
	// NoOFED is the driver of the kernel.
	NoOFED OFEDFiles = iota
	// WithOFED is MLNX_OFED as of 4.6 to 25.10, of which the source is known: it reports the trust by the DCB
	// application table, as the kernel does.
	WithOFED
	// WithTrustFiles also has qos/trust and qos/dscp2prio, which mlnx_qos looks for first.
	WithTrustFiles
)

// Trust is the field that the priority comes from. By the rule of mlx5 it is the DSCP if and only if there is an
// entry for one.
func (q *QoS) Trust() fabric.Trust {
	if slices.ContainsFunc(q.Apps, func(a fabric.App) bool { return a.Selector == fabric.AppDSCP }) {
		return fabric.TrustDSCP
	}
	return fabric.TrustPCP
}

// DSCPPriority returns the priority of each DSCP. Without an entry that is the one of the firmware, the class
// selector.
func (q *QoS) DSCPPriority() [fabric.NumDSCP]int {
	var table [fabric.NumDSCP]int
	for i := range table {
		table[i] = i >> 3
	}
	for _, a := range q.Apps {
		if a.Selector == fabric.AppDSCP {
			table[a.Protocol] = a.Priority
		}
	}
	return table
}

// MapDSCP leads a DSCP to a priority.
func (q *QoS) MapDSCP(dscp, priority int) {
	for i := range q.Apps {
		if a := &q.Apps[i]; a.Selector == fabric.AppDSCP && a.Protocol == dscp {
			a.Priority = priority
		}
	}
}

// TrustPCP takes the priority from the VLAN tag. mlx5 then has no entries for DSCPs.
func (q *QoS) TrustPCP() {
	q.Apps = slices.DeleteFunc(q.Apps, func(a fabric.App) bool { return a.Selector == fabric.AppDSCP })
}

// qos returns how the interface of a device with one port is set up.
func (n *Node) qos(device string) *QoS { return &n.NetDev(n.HCA(device).Port(1).NetDev).QoS }

// Statistic returns the statistic of that name, or nil. It is there whether or not the driver shows it now.
func (d *NetDev) Statistic(name string) *Statistic {
	return lookup(d.Stats, func(s Statistic) bool { return s.Name == name })
}

var pauseOfMlx5 = regexp.MustCompile(`^[rt]x_(?:global|prio([0-7]))_pause`)

// shown returns the statistics that the driver shows: mlx5 hides those of flow control that is off, though the
// hardware counts on.
func (d *NetDev) shown() []Statistic {
	all := slices.Clone(d.Stats)
	return slices.DeleteFunc(all, func(s Statistic) bool {
		switch m := pauseOfMlx5.FindStringSubmatch(s.Name); {
		case m == nil:
			return false
		case m[1] == "":
			return !d.QoS.Pause.Receive && !d.QoS.Pause.Transmit
		default:
			p, _ := strconv.Atoi(m[1]) // one digit
			return !d.QoS.PFC.Has(p)
		}
	})
}

// checkQoS returns what contradicts itself.
func (d *NetDev) checkQoS(need func(ok bool, format string, args ...any)) {
	q := &d.QoS
	need(q.DCB || (q.PFC == 0 && len(q.Apps) == 0), "interface %s: no DCB, but PFC or applications", d.Name)
	need(q.PFC == 0 || (!q.Pause.Receive && !q.Pause.Transmit), "interface %s: both PFC and global pause", d.Name)
	for _, a := range q.Apps {
		need(a.Priority >= 0 && a.Priority < fabric.NumPriorities, "interface %s: priority %d of an application", d.Name,
			a.Priority)
		need(a.Selector != fabric.AppDSCP || (a.Protocol >= 0 && a.Protocol < fabric.NumDSCP), "interface %s: DSCP %d",
			d.Name, a.Protocol)
	}
}

// losslessPriority and the DSCP that leads there are what NVIDIA's guides and most sites use for RoCE; cnpDSCP
// and its priority are what the firmware of ConnectX sends notifications of congestion with.
const (
	losslessPriority = 3
	losslessDSCP     = 26
	cnpDSCP          = 48
	cnpPriority      = 6
)

// mlx5Port is a port as mlx5 and its firmware leave it: no PFC, but 802.3x pause, and the PCP trusted.
func mlx5Port(files OFEDFiles) QoS {
	q := QoS{
		DCB:     true,
		Delay:   7, // mlx5 keeps the length of the cable here, in metres
		ETS:     fabric.ETS{Classes: fabric.NumPriorities, PriorityClass: [fabric.NumPriorities]int{1, 0, 2, 3, 4, 5, 6, 7}},
		DCBX:    fabric.DCBX{Host: true, CEE: true, IEEE: true},
		Buffers: fabric.Buffers{Bytes: [fabric.NumPriorities]int{262_944}, Total: 262_944},
		Pause:   Pause{Answers: true, Receive: true, Transmit: true},
		FEC:     reedSolomon,
	}
	for i := range q.ETS.Algorithm {
		q.ETS.Algorithm[i], q.ETS.Bandwidth[i] = fabric.TSAVendor, 100
	}
	if files != NoOFED {
		q.OFED = OFED{Files: files, NP: 0xff, RP: 0xff, CNPDSCP: cnpDSCP, CNPPriority: cnpPriority}
	}
	return q
}

// mlx5Lossless is such a port after mlnx_qos --trust dscp --pfc 0,0,0,1,0,0,0,0: trusting the DSCP makes mlx5 enter
// all 64 of them, and PFC gives the priority a buffer of its own.
func mlx5Lossless(files OFEDFiles) QoS {
	q := mlx5Port(files)
	for dscp := range fabric.NumDSCP {
		q.Apps = append(q.Apps, fabric.App{Selector: fabric.AppDSCP, Protocol: dscp, Priority: dscp >> 3})
	}
	q.SetPFC(1 << losslessPriority)
	return q
}

// SetPFC turns PFC on for a set of priorities, and global pause off, as mlx5 does.
func (q *QoS) SetPFC(mask fabric.PriorityMask) {
	q.PFC, q.Pause.Receive, q.Pause.Transmit = mask, false, false
	if q.Buffers.Total == 0 {
		return
	}
	q.Buffers = fabric.Buffers{Bytes: [fabric.NumPriorities]int{q.Buffers.Total}, Total: q.Buffers.Total}
	for _, p := range mask.Priorities() {
		q.Buffers.OfPriority[p] = 1
		q.Buffers.Bytes = [fabric.NumPriorities]int{19_872, q.Buffers.Total - 19_872}
	}
}

// lossless is a port of another vendor with the same purpose: an entry for the one DSCP, and half the bandwidth for
// a class of its own.
func lossless() QoS {
	return QoS{
		DCB: true,
		PFC: 1 << losslessPriority,
		ETS: fabric.ETS{
			Classes: fabric.NumPriorities, PriorityClass: [fabric.NumPriorities]int{losslessPriority: 1},
			Algorithm: [fabric.NumPriorities]fabric.TSA{fabric.TSAETS, fabric.TSAETS},
			Bandwidth: [fabric.NumPriorities]int{50, 50},
		},
		Apps:  []fabric.App{{Selector: fabric.AppDSCP, Protocol: losslessDSCP, Priority: losslessPriority}},
		DCBX:  fabric.DCBX{Host: true, IEEE: true},
		Pause: Pause{Answers: true},
		FEC:   reedSolomon,
	}
}

// reedSolomon is what links of 100 Gb/s and more per port run with. At 50 Gb/s and more per lane there is always
// something to correct.
var reedSolomon = FEC{Active: "rs", Counted: true, Corrected: Counter{Start: 7_998_120_002, PerStep: 40_900}}
