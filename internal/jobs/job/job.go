// SPDX-License-Identifier: Apache-2.0

package job

import (
	"slices"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// Transport is how NCCL moves data between nodes.
type Transport string

// Transports. The words are stable: programs read them.
const (
	RDMA    Transport = "rdma"
	TCP     Transport = "tcp"
	Mixed   Transport = "mixed" // both carry data
	Local   Transport = "local" // all ranks are on this node, or in one NVLink domain
	Unknown Transport = "unknown"
)

// Transports returns the full state set.
func Transports() []Transport { return []Transport{RDMA, TCP, Mixed, Local, Unknown} }

// Way is the part of NCCL, or the plugin, that moves the data.
type Way string

// Ways. WayVerbs is NCCL's own NET/IB.
const (
	WayVerbs   Way = "verbs"
	WayEFA     Way = "efa"     // aws-ofi-nccl
	WayUCX     Way = "ucx"     // a plugin of nccl-rdma-sharp-plugins
	WayIBext   Way = "ibext"   // another one of these, in HPC-X
	WayGIB     Way = "gib"     // Google, A3 Ultra and later: verbs
	WayPlugin  Way = "plugin"  // one that is not known
	WayTCPX    Way = "tcpx"    // Google, A3 High: TCP into GPU memory, by design
	WayFasTrak Way = "fastrak" // Google, A3 Mega: its own NIC service, by design
	WaySocket  Way = "socket"  // NCCL's own NET/Socket
)

// byDesign reports whether the way uses TCP, or what looks like it, on purpose.
func (w Way) byDesign() bool { return w == WayTCPX || w == WayFasTrak }

// Reason is why a transport is unknown.
type Reason string

// Reasons.
const (
	FirstReading  Reason = "first_reading"  // two are needed
	Idle          Reason = "idle"           // its GPUs are idle: before the first collective, or in between
	NoTraffic     Reason = "no_traffic"     // its GPUs are busy, and neither way carried data
	LittleTraffic Reason = "little_traffic" // too little to decide
	Privilege     Reason = "privilege"      // the exporter may not read what decides
	Unreadable    Reason = "unreadable"     // what decides could not be read for another reason
	// its RDMA devices are in another network namespace: their counters are not seen
	Moved          Reason = "moved"
	NoCommunicator Reason = "no_communicator" // it holds GPUs and shows no NCCL communicator
)

// Reasons returns every reason.
func Reasons() []Reason {
	return []Reason{FirstReading, Idle, NoTraffic, LittleTraffic, Privilege, Unreadable, Moved, NoCommunicator}
}

// unseen reports whether a transport is unknown because what decides was not read: nothing is known that
// contradicts what was seen before.
func (r Reason) unseen() bool {
	return r == FirstReading || r == Privilege || r == Unreadable || r == Moved
}

// Cause is why NCCL uses TCP, as far as that can be seen.
type Cause string

// Causes, the most certain first.
const (
	CauseNone           Cause = ""
	CauseNoDevices      Cause = "no_rdma_devices_in_container" // no /dev/infiniband in its mount namespace
	CauseDisabled       Cause = "rdma_disabled"                // NCCL_IB_DISABLE
	CauseSocketSelected Cause = "socket_selected"              // NCCL_NET=Socket
	CauseNoLibrary      Cause = "no_libibverbs"                // libibverbs is not mapped
	CausePlugin         Cause = "plugin_fell_back"             // a plugin for RDMA is loaded and its devices carry nothing
	CauseNotNamed       Cause = "no_device_of_that_name"       // NCCL_IB_HCA
	CauseNoPort         Cause = "no_active_port"               // the node has no active RDMA port
	CauseNoSharedMemory Cause = "shared_memory_disabled"       // NCCL_SHM_DISABLE, between ranks of one node
)

// Verdict is what is known of the transport of a rank or a job, as JSON has it, too (Document).
type Verdict struct {
	Transport Transport `json:"transport"`
	Confirmed bool      `json:"confirmed"`                // else it is suspected; of no meaning if unknown
	Way       Way       `json:"way,omitempty"`            // empty: not known, or none
	Reason    Reason    `json:"unknown_reason,omitempty"` // if unknown
	Cause     Cause     `json:"cause,omitempty"`          // if TCP
	Evidence  []string  `json:"evidence"`

	partly bool // not all that decides was read
	said   bool // only by what its user wrote
}

// fellBack reports whether NCCL uses its sockets, and not a plugin that is made so.
func (v *Verdict) fellBack() bool { return v.Transport == TCP && !v.Way.byDesign() }

// Rank is a process of a job.
type Rank struct {
	PID      int
	Start    uint64 // as in fabric.RankCandidate
	Rank     int    // as its environment states it, -1: not stated
	Command  string // name of the program, as the process states it
	GPUs     []string
	Children int // forked processes that share its sockets
	Verdict  Verdict
	Unseen   Reason // why Verdict is one that is kept; empty: it is not
}

// Job is the ranks of a job on this node.
type Job struct {
	// Name is scheduler/id ("slurm/4242", "kubernetes/namespace/pod"), so that an executable cannot take the
	// name of a job of a scheduler.
	Name      string
	Scheduler string
	User      string // numeric user ID; empty: not known
	Ranks     []Rank // by PID
	Size      int    // ranks on all nodes, as their environment states it; 0: not stated
	Spans     bool   // it is known to have ranks on other nodes
	GPUs      []string
	Devices   []string // RDMA devices that carried its data
	Verdict   Verdict
	Since     time.Time // when the transport was first seen to be this one
	// Seen is when what decides was last seen of the rank that is unseen for the longest time, and Unseen why it
	// is not seen now. They are empty while all is seen, and where it never was. The verdict is kept for an hour
	// from Seen.
	Seen     time.Time
	Unseen   Reason
	Findings []Finding // the worst first
	Pulse    Pulse
}

// Rule names a finding. The words are stable: they are label values.
type Rule string

// Rules. A rule that begins with setting_ is a verdict of package lint on NCCL settings of the job.
const (
	RuleNoCommunicator        Rule = "no_communicator"
	RuleNoDevices             Rule = "no_rdma_devices_in_container"
	RuleMemlock               Rule = "memlock"
	RuleAlignment             Rule = "nic_alignment"
	RuleFewerNICs             Rule = "fewer_nics"
	RuleAffinity              Rule = "cpu_affinity"
	RuleVersions              Rule = "nccl_versions_differ"
	RuleSettings              Rule = "settings_differ"
	RuleGrowing               Rule = "resources_grow"
	RuleBAR1                  Rule = "bar1_full"
	RuleSettingMisread        Rule = "setting_misread"
	RuleSettingRefused        Rule = "setting_refused"
	RuleSettingIgnored        Rule = "setting_ignored"
	RuleSettingUnknown        Rule = "setting_unknown_variable"
	RuleSettingWrongHere      Rule = "setting_wrong_here"
	RuleSettingNotRecommended Rule = "setting_not_recommended"
)

// OfSetting reports whether a rule is a verdict of package lint on a setting.
func (r Rule) OfSetting() bool { return strings.HasPrefix(string(r), "setting_") }

// Rules returns every rule.
func Rules() []Rule {
	return []Rule{
		RuleNoCommunicator, RuleNoDevices, RuleMemlock, RuleAlignment, RuleFewerNICs, RuleAffinity, RuleVersions,
		RuleSettings, RuleGrowing, RuleBAR1, RuleSettingMisread,
		RuleSettingRefused, RuleSettingIgnored, RuleSettingUnknown, RuleSettingWrongHere, RuleSettingNotRecommended,
	}
}

// Finding is something that is wrong with a job whatever its transport, as JSON has it, too (Document).
type Finding struct {
	Rule     Rule             `json:"rule"`
	Severity verdict.Severity `json:"severity"`
	Text     string           `json:"text"`
	PIDs     []int            `json:"pids"` // the ranks that it is about
	// Variables are those that a rule on settings is about.
	Variables []string `json:"-"`
}

// Impairment is why the time of a GPU is counted as impaired.
type Impairment string

// Impairments.
const (
	ImpairedTCP         Impairment = "tcp"           // the job is confirmed to use TCP
	ImpairedMisconfig   Impairment = "misconfigured" // the job has a finding of severity warning or critical
	ImpairedLink        Impairment = "degraded_link" // the job uses RDMA and the port of the nearest NIC is slow or down
	ImpairedNoGPUDirect Impairment = "no_gpudirect"  // the job uses RDMA and NCCL would not use GPUDirect RDMA
)

// Impairments returns all of them.
func Impairments() []Impairment {
	return []Impairment{ImpairedTCP, ImpairedMisconfig, ImpairedLink, ImpairedNoGPUDirect}
}

// Jobs is what is known at one reading.
type Jobs struct {
	At      time.Time
	Known   bool   // the processes could be read
	Reason  Reason // if not; the jobs are then those that there were, with verdicts that are kept
	List    []Job  // by name
	Dropped int    // candidates that were left out, because there are too many
	// Impaired is GPU time in seconds by UUID and impairment, since the Tracker began.
	Impaired map[string]map[Impairment]float64
}

// Compared reports whether a further reading would say no more: the jobs are known, or why they cannot be,
// and none was seen only once.
func (now Jobs) Compared() bool {
	once := func(j Job) bool {
		return slices.ContainsFunc(j.Ranks, func(r Rank) bool { return r.Verdict.Reason == FirstReading })
	}
	return now.Reason == Privilege || now.Known && !slices.ContainsFunc(now.List, once)
}

// Wants is what a node has to be observed for.
const Wants = fabric.WantRanks | fabric.WantGID | fabric.WantQoS
