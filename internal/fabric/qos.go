// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strconv"
	"strings"
)

// NumPriorities is how many priorities, and how many traffic classes, IEEE 802.1Q has.
const NumPriorities = 8

// PriorityMask is a set of priorities: bit i is priority i.
type PriorityMask uint8

// Has reports whether priority p is in the set.
func (m PriorityMask) Has(p int) bool { return p >= 0 && p < NumPriorities && m&(1<<p) != 0 }

// Priorities returns the priorities of the set, in order.
func (m PriorityMask) Priorities() []int {
	var list []int
	for p := range NumPriorities {
		if m.Has(p) {
			list = append(list, p)
		}
	}
	return list
}

// Text names the set in a sentence: "priority 3", "priorities 0, 3 and 5", "no priority".
func (m PriorityMask) Text() string {
	names := strings.Split(m.String(), ",")
	last := len(names) - 1
	switch {
	case m == 0:
		return "no priority"
	case last == 0:
		return "priority " + names[0]
	}
	return "priorities " + strings.Join(names[:last], ", ") + " and " + names[last]
}

// String lists the priorities in a value: "3", "3,4", "none".
func (m PriorityMask) String() string {
	text := ""
	for _, p := range m.Priorities() {
		if text != "" {
			text += ","
		}
		text += strconv.Itoa(p)
	}
	if text == "" {
		return "none"
	}
	return text
}

// QoS is how a network interface treats the classes of its traffic: what its driver and, with MLNX_OFED, its
// sysfs files say. The interface is a physical one; a bond or VLAN has none of its own, its members do.
type QoS struct {
	// Over RTM_GETDCB, DCB_ATTR_IEEE; PFC, ETS and Apps of old drivers over DCB_ATTR_CEE.
	PFC     Fact[PFC]     `fact:"answer"`
	ETS     Fact[ETS]     `fact:"answer"`
	Apps    Fact[[]App]   `fact:"answer"`
	Buffers Fact[Buffers] `fact:"answer"`
	DCBX    Fact[DCBX]    `fact:"answer"`

	// Over ethtool netlink.
	Pause Fact[Pause] `fact:"answer"` // ETHTOOL_MSG_PAUSE_GET
	FEC   Fact[FEC]   `fact:"answer"` // ETHTOOL_MSG_FEC_GET

	// MLNX_OFED only, below class/net/<if>. Elsewhere they are unknown(missing), which says nothing about how the
	// NIC is set.
	Trust        Fact[Trust]                 // qos/trust
	DSCPPriority Fact[[NumDSCP]int]          // qos/dscp2prio
	NP           Fact[PriorityMask]          // ecn/roce_np/enable/<priority>: receivers notify of congestion
	RP           Fact[PriorityMask]          // ecn/roce_rp/enable/<priority>: senders slow down
	CNPDSCP      Fact[int]                   // ecn/roce_np/cnp_dscp
	CNPPriority  Fact[int]                   // ecn/roce_np/cnp_802p_prio
	Parameters   Fact[[]CongestionParameter] // ecn/roce_{np,rp}/*, or debugfs cc_params; opt-in

	// Counters are the statistics that were asked for, under the driver's names, in its order (ETHTOOL_GSTATS).
	Counters Fact[[]Counter]
	// Before is the reading of Counters before this one; not read where there was none. The two show what is
	// going on now.
	Before Fact[[]Counter] `fact:"earlier"`
}

// NumDSCP is how many values a DSCP has.
const NumDSCP = 64

// PFC is priority flow control (struct ieee_pfc).
type PFC struct {
	Enabled PriorityMask
	Classes int // traffic classes that may have PFC at the same time (pfc_cap)
	Delay   int // bit times the link partner may take to react
	// Frames sent and received by priority (requests, indications). On mlx5 they change only when a process reads
	// the statistics of ethtool.
	Sent, Received [NumPriorities]uint64
}

// ETS is enhanced transmission selection (struct ieee_ets).
type ETS struct {
	Willing       bool // takes the configuration of its link partner
	Classes       int  // ets_cap
	PriorityClass [NumPriorities]int
	Algorithm     [NumPriorities]TSA // by class
	Bandwidth     [NumPriorities]int // percent, by class; of classes whose algorithm is TSAETS or TSAVendor
}

// TSA is a transmission selection algorithm.
type TSA uint8

// Transmission selection algorithms, IEEE_8021QAZ_TSA_* of linux/dcbnl.h.
const (
	TSAStrict TSA = 0
	TSACBS    TSA = 1
	TSAETS    TSA = 2
	TSAVendor TSA = 255
)

// App is an entry of the application priority table (struct dcb_app).
type App struct {
	Selector AppSelector
	Protocol int // the DSCP, EtherType or UDP port, by selector
	Priority int
}

// AppSelector is what the protocol of an App is.
type AppSelector uint8

// Selectors, IEEE_8021QAZ_APP_SEL_* and DCB_APP_SEL_PCP of linux/dcbnl.h.
const (
	AppEtherType AppSelector = 1
	AppTCP       AppSelector = 2 // TCP or SCTP port
	AppUDP       AppSelector = 3 // UDP or DCCP port
	AppAny       AppSelector = 4
	AppDSCP      AppSelector = 5
	AppPCP       AppSelector = 255
)

// Buffers is how the receive buffer of a port is divided (struct dcbnl_buffer).
type Buffers struct {
	OfPriority [NumPriorities]int // the buffer that the priority uses
	Bytes      [NumPriorities]int // by buffer
	Total      int                // bytes
}

// DCBX says who configures the interface (DCB_CAP_DCBX_*).
type DCBX struct {
	Host        bool // the operating system; otherwise the firmware may overwrite what was set
	LLDManaged  bool // a daemon of the host
	CEE, IEEE   bool // versions
	StaticModes bool
}

// OwnClass reports whether no other priority has the traffic class of p: only then what the class counts is
// of p. It is false while ETS is not known.
func (q *QoS) OwnClass(p int) bool {
	ets, known := q.ETS.Get()
	for other, class := range ets.PriorityClass {
		known = known && (other == p) == (class == ets.PriorityClass[p])
	}
	return known
}

// Pause is IEEE 802.3x flow control of the whole link, which excludes PFC.
type Pause struct {
	Autonegotiated    bool
	Receive, Transmit bool
	// Frames, where the driver counts them; unknown(missing) elsewhere.
	Received, Transmitted Fact[uint64]
}

// FEC is forward error correction.
type FEC struct {
	Active string // "none", "baser", "rs", "llrs"; empty when the driver does not say
	// What was corrected and what could not be, where the driver counts it; unknown(missing) elsewhere.
	CorrectedBlocks, UncorrectableBlocks, CorrectedBits Fact[uint64]
}

// Trust is the field of a frame that its priority comes from.
type Trust string

// Trust modes. A port that trusts neither puts all traffic into one priority.
const (
	TrustPCP  Trust = "pcp"
	TrustDSCP Trust = "dscp"
)

// Trusts returns both.
func Trusts() []Trust { return []Trust{TrustPCP, TrustDSCP} }

// CongestionParameter is one parameter of DCQCN under the driver's name, with the side it belongs to as prefix
// ("rp_ai_rate", "np_min_time_between_cnps").
type CongestionParameter struct {
	Name  string
	Value uint64
}

// TrafficClass is what tc/<port>/traffic_class of MLNX_OFED sets for queue pairs, over whatever their
// application asked for.
type TrafficClass struct {
	Global int // the traffic class byte, 0 to 255; -1 where there are only rules
	Rules  int // how many rules for single peers there are; the driver heeds them only without a global one
}
