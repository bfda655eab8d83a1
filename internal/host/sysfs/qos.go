// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// What follows reads what MLNX_OFED adds below class/net/<if> (en_sysfs.c and en_ecn.c of its mlx5 driver): ecn/ in
// all releases, qos/trust and qos/dscp2prio only in some before 4.9; since then DCB has both, as it always had PFC.
// Every file of ecn/ costs a firmware command and takes no rtnl lock.

const (
	debugMLX5     = "kernel/debug/mlx5"
	maxParameters = 64 // of one directory; Linux 6.12 has 22
	maxForeign    = 8  // errors of one call about foreign text
)

// ethernet reads attributes of one network interface, each once.
type ethernet struct {
	*reader
	fs      *FS
	dir     *dir
	now     time.Time
	foreign []error // errors of files whose text is not one of the driver's
	open    []*dir
}

// at returns a directory in another, which is closed with e.
func (e *ethernet) at(parent *dir, name string) *dir {
	d := parent.sub(name)
	e.open = append(e.open, d)
	return d
}

func (e *ethernet) close() {
	for _, d := range e.open {
		d.close()
	}
	e.dir.close()
}

func (f *FS) ethernet(netdev string, now time.Time) (*ethernet, error) {
	if !validNetDevName(netdev) {
		return nil, fmt.Errorf("%s: %w: interface name %q", netClass, errMalformed, netdev)
	}
	at := &dir{fs: f, path: netClass + "/" + netdev}
	if _, err := at.fd(); err != nil {
		return nil, fmt.Errorf("network interface %q: %w", netdev, err)
	}
	return &ethernet{reader: f.reader(), fs: f, dir: at, now: now}, nil
}

// askEthernet reads an attribute, unless its driver refused it recently. Nothing else is remembered between two calls:
// once a minute a file is not worth a descriptor. Where other text is than what is expected, the fact says
// which file it is in, and an error what it is.
func askEthernet[T any](e *ethernet, q question, parse func([]byte) (T, bool), expected string) fabric.Fact[T] {
	q.backoff = e.fs.ledger.recall(q.source)
	clear(e.asked)
	var text []byte
	fact := askOnce(e.reader, &q, e.now, func(b []byte) (T, bool) {
		text = b
		return parse(b)
	})
	switch {
	case fact.Reason != fabric.ReasonMalformed || len(e.foreign) == maxForeign:
	case text == nil:
		e.foreign = append(e.foreign, fmt.Errorf("%s: no regular file of at most %d bytes: %w", q.source, pageSize,
			errMalformed))
	default:
		e.foreign = append(e.foreign, fmt.Errorf("%s: %.40q, expected %s: %w", q.source, text, expected, errMalformed))
	}
	e.fs.ledger.remember(q.source, q.backoff, e.asked)
	return fact
}

// ReadQoS reads what MLNX_OFED shows of a network interface: trust mode, priorities of DSCPs, and for which
// priorities it notifies of congestion and heeds notifications. Other facts of q are left alone. The error says that
// the interface as a whole cannot be read; then, as without MLNX_OFED, the facts are unknown. Or it says what text is
// foreign in which files, beside the facts of the others.
func (f *FS) ReadQoS(netdev string, q *fabric.QoS, now time.Time) error {
	e, err := f.ethernet(netdev, now)
	if err != nil {
		r, source := fabric.ReasonOf(err), netClass+"/"+netdev
		q.Trust = fabric.UnknownFact[fabric.Trust](r, source, now)
		q.DSCPPriority = fabric.UnknownFact[[fabric.NumDSCP]int](r, source, now)
		q.NP = fabric.UnknownFact[fabric.PriorityMask](r, source, now)
		q.RP = fabric.UnknownFact[fabric.PriorityMask](r, source, now)
		q.CNPDSCP = fabric.UnknownFact[int](r, source, now)
		q.CNPPriority = fabric.UnknownFact[int](r, source, now)
		return err
	}
	defer e.close()
	qos, ecn := e.at(e.dir, "qos"), e.at(e.dir, "ecn")
	np, rp := e.at(ecn, "roce_np"), e.at(ecn, "roce_rp")
	q.Trust = askEthernet(e, newQuestion(qos, "trust", ""), parseTrust, `"pcp" or "dscp"`)
	q.DSCPPriority = askEthernet(e, newQuestion(qos, "dscp2prio", ""), parseDSCPPriority,
		"a line of names, and one with a priority for each of 64 DSCPs")
	q.NP, q.RP = e.enabled(np), e.enabled(rp)
	q.CNPDSCP = askEthernet(e, newQuestion(np, "cnp_dscp", fabric.CommandCongestion), parseInt(0, fabric.NumDSCP-1),
		"0 to 63")
	q.CNPPriority = askEthernet(e, newQuestion(np, "cnp_802p_prio", fabric.CommandCongestion),
		parseInt(0, fabric.NumPriorities-1), "0 to 7")
	return errors.Join(e.foreign...)
}

// enabled reads for which priorities one side of congestion control is on. The set is whole or unknown. Where the
// firmware refuses, the files are empty, which is not off (mlx5e_show_ecn_enable of en_ecn.c).
func (e *ethernet) enabled(side *dir) fabric.Fact[fabric.PriorityMask] {
	at := e.at(side, "enable")
	var set fabric.PriorityMask
	for p := range fabric.NumPriorities {
		q := newQuestion(at, strconv.Itoa(p), fabric.CommandCongestion)
		q.mute = true
		one := askEthernet(e, q, parseSwitch, "0 or 1")
		switch on, ok := one.Get(); {
		case !ok:
			return fabric.UnknownFact[fabric.PriorityMask](one.Reason, one.Source, one.At)
		case on:
			set |= 1 << p
		}
	}
	return fabric.Known(set, at.path, e.now)
}

// FunctionOf returns the PCI address of the function that a network interface belongs to; empty where there is
// none.
func (f *FS) FunctionOf(netdev string) string {
	address, err := f.linkBase(netClass + "/" + netdev + "/device")
	if err != nil || !isPCIAddress(address) {
		return ""
	}
	return address
}

// ReadCongestionParameters reads the parameters of DCQCN of a network interface: those that MLNX_OFED shows, else
// those of the PCI function below it in debugfs, which only root may read (cong.c of drivers/infiniband/hw/mlx5).
// The names are those of debugfs. A parameter that cannot be read is left out, unless that is true of all. Errors are
// those of ReadQoS.
func (f *FS) ReadCongestionParameters(netdev, pciAddress string, q *fabric.QoS, now time.Time) error {
	e, err := f.ethernet(netdev, now)
	if err != nil {
		q.Parameters = fabric.UnknownFact[[]fabric.CongestionParameter](fabric.ReasonOf(err), netClass+"/"+netdev, now)
		return err
	}
	defer e.close()
	ecn := e.at(e.dir, "ecn")
	q.Parameters = e.parameters(ecn.path, e.at(ecn, "roce_rp"), e.at(ecn, "roce_np"))
	if q.Parameters.Reason == fabric.ReasonMissing && isPCIAddress(pciAddress) {
		debug := &dir{fs: f, path: debugMLX5 + "/" + pciAddress + "/cc_params"}
		e.open = append(e.open, debug)
		q.Parameters = e.parameters(debug.path, debug)
	}
	return errors.Join(e.foreign...)
}

// parameters reads all numbers in some directories.
func (e *ethernet) parameters(source string, dirs ...*dir) fabric.Fact[[]fabric.CongestionParameter] {
	all := []fabric.CongestionParameter{}
	failed := fabric.UnknownFact[[]fabric.CongestionParameter](fabric.ReasonMissing, source, e.now)
	for _, d := range dirs {
		names, err := d.names()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed.Reason, failed.Source = fabric.ReasonOf(err), d.path
		}
		names = names[:min(len(names), maxParameters)]
		for _, name := range names {
			if name == "enable" || !validCounterName(name) {
				continue
			}
			one := askEthernet(e, newQuestion(d, name, fabric.CommandCongestion), parseParameter, "a number of 32 bits")
			if v, ok := one.Get(); ok {
				all = append(all, fabric.CongestionParameter{Name: parameterName(d, name), Value: v})
				continue
			}
			failed.Reason, failed.Source, failed.At = one.Reason, one.Source, one.At
			if one.Reason == fabric.ReasonPrivilege {
				break // nor may the others be read
			}
		}
	}
	if len(all) == 0 {
		return failed
	}
	return fabric.Known(all, source, e.now)
}

// parameterName returns the name that debugfs has for a parameter, so that hosts with and without MLNX_OFED can be
// compared. MLNX_OFED has a directory for each side instead of a prefix, and longer names for two.
func parameterName(d *dir, name string) string {
	side, ok := strings.CutPrefix(d.path[strings.LastIndexByte(d.path, '/')+1:], "roce_")
	if !ok {
		return name
	}
	switch name {
	case "clamp_tgt_rate_after_time_inc":
		name = "clamp_tgt_rate_ati"
	case "cnp_802p_prio":
		name = "cnp_prio"
	}
	return side + "_" + strings.TrimPrefix(name, "rpg_")
}
