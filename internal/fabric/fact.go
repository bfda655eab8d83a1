// SPDX-License-Identifier: Apache-2.0

package fabric

import "time"

// State says how much is known about a Fact.
type State uint8

const (
	// Unknown is the zero value on purpose: a fact that no reader set is never mistaken for a reading.
	Unknown State = iota
	// OK means that Value was read from Source.
	OK
	// Absent means that the host conclusively has no such thing (no netdev, no LID on Ethernet).
	Absent
)

// String returns the state as it is shown to users.
func (s State) String() string {
	switch s {
	case OK:
		return "ok"
	case Absent:
		return "absent"
	default:
		return "unknown"
	}
}

// Reason is the bounded enumeration of why a fact is unknown; it is used as a label value.
type Reason string

// The reasons. ReasonNotRead is the reason of a zero Fact.
const (
	ReasonNotRead        Reason = "not_read"        // the reader did not get to it, or its collector is off
	ReasonMissing        Reason = "missing"         // this kernel or driver does not offer the source
	ReasonPrivilege      Reason = "privilege"       // EACCES, EPERM, or a family of sockets that a filter denies
	ReasonUnsupported    Reason = "unsupported"     // EOPNOTSUPP or EINVAL: the driver refuses
	ReasonIO             Reason = "io_error"        // any other error of the read itself
	ReasonMalformed      Reason = "malformed"       // read, but not what the kernel's ABI promises
	ReasonGone           Reason = "gone"            // ENODEV: the device is gone while it was read
	ReasonStuck          Reason = "stuck"           // a read of this device does not return
	ReasonRTNLStuck      Reason = "rtnl_stuck"      // a read under the kernel's rtnl lock does not return
	ReasonTimeout        Reason = "timeout"         // no answer within this scrape's deadline
	ReasonPanic          Reason = "panic"           // the reader failed; a bug of this exporter
	ReasonDriverConstant Reason = "driver_constant" // the driver answers the same whatever the hardware does
	ReasonRestricted     Reason = "restricted"      // the device is restricted beyond its name
	ReasonSuspended      Reason = "suspended"       // reading would wake a sleeping device
	ReasonVirtual        Reason = "virtual"         // a hypervisor hides the hardware
	ReasonUnstated       Reason = "unstated"        // nothing says whether it should be so
	ReasonMoved          Reason = "moved"           // the device, or its interface, is in another network namespace
)

// ReasonNeverMet is the reason of a verdict and never of a fact: it would be a failure if the node had ever
// met the expectation.
const ReasonNeverMet Reason = "never_met"

// Reasons returns every reason of a fact, for documentation and for tests.
func Reasons() []Reason {
	return []Reason{
		ReasonNotRead, ReasonMissing, ReasonPrivilege, ReasonUnsupported, ReasonIO, ReasonMalformed, ReasonGone,
		ReasonStuck, ReasonRTNLStuck, ReasonTimeout, ReasonPanic, ReasonDriverConstant, ReasonRestricted,
		ReasonSuspended, ReasonVirtual, ReasonMoved, ReasonUnstated,
	}
}

// Fact is the only way a value travels from a reader to a verdict or a metric: a value with how it is
// known, from where, and since when. The zero Fact is unknown.
type Fact[T any] struct {
	Value  T
	State  State
	Reason Reason    // why State is Unknown
	Source string    // file (relative to the sysfs, proc or root mount) or netlink attribute
	At     time.Time // when it was read
}

// Known returns a fact that was read from source.
func Known[T any](v T, source string, at time.Time) Fact[T] {
	return Fact[T]{Value: v, State: OK, Source: source, At: at}
}

// AbsentFact returns a fact whose subject conclusively does not exist.
func AbsentFact[T any](source string, at time.Time) Fact[T] {
	return Fact[T]{State: Absent, Source: source, At: at}
}

// UnknownFact returns a fact that could not be read, and why.
func UnknownFact[T any](r Reason, source string, at time.Time) Fact[T] {
	return Fact[T]{Reason: r, Source: source, At: at}
}

// Get returns the value and whether it is known.
func (f Fact[T]) Get() (T, bool) { return f.Value, f.State == OK }

// Or returns the value, or def when it is absent or unknown.
func (f Fact[T]) Or(def T) T {
	if f.State == OK {
		return f.Value
	}
	return def
}

// Meta returns the fact without its value.
func (f Fact[T]) Meta() Meta {
	r := f.Reason
	if f.State != Unknown {
		r = ""
	} else if r == "" {
		r = ReasonNotRead
	}
	return Meta{State: f.State, Reason: r, Source: f.Source, At: f.At}
}

// Meta is what is known about a fact of any type.
type Meta struct {
	State  State
	Reason Reason
	Source string
	At     time.Time
}
