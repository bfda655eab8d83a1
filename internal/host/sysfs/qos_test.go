// SPDX-License-Identifier: Apache-2.0

package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

const netEth0 = "devices/virtual/net/eth0/"

// The files of a ConnectX-6 with the defaults of its firmware, by the names of en_sysfs.c.
var (
	ecnNP = []string{"cnp_802p_prio", "cnp_dscp", "min_time_between_cnps"}
	ecnRP = []string{
		"clamp_tgt_rate", "clamp_tgt_rate_after_time_inc", "dce_tcp_g", "dce_tcp_rtt", "initial_alpha_value",
		"rate_reduce_monitor_period", "rate_to_set_on_first_cnp", "rpg_ai_rate", "rpg_byte_reset", "rpg_gd", "rpg_hai_rate",
		"rpg_max_rate", "rpg_min_dec_fac", "rpg_min_rate", "rpg_threshold", "rpg_time_reset",
	}
	// mlx5_ib_dbg_cc_name of drivers/infiniband/hw/mlx5/cong.c.
	debugCC = []string{
		"np_cnp_dscp", "np_cnp_prio", "np_cnp_prio_mode", "np_min_time_between_cnps", "rp_ai_rate", "rp_byte_reset",
		"rp_clamp_tgt_rate", "rp_clamp_tgt_rate_ati", "rp_dce_tcp_g", "rp_dce_tcp_rtt", "rp_gd", "rp_hai_rate",
		"rp_initial_alpha_value", "rp_max_rate", "rp_min_dec_fac", "rp_min_rate", "rp_rate_reduce_monitor_period",
		"rp_rate_to_set_on_first_cnp", "rp_threshold", "rp_time_reset", "rtt_resp_dscp", "rtt_resp_dscp_valid",
	}
)

// ofed is what MLNX_OFED adds to an interface; trust and dscp2prio are those of an old release.
func ofed() tree {
	t := tree{
		"qos/trust": "dscp\n", "qos/dscp2prio": dscpTable(firmwareDefault), "qos/tc_num": "8\n", "qos/maxrate": "0 0 0 0 0 0 0 0 \n",
		"ecn/roce_np/cnp_dscp": "48\n", "ecn/roce_np/cnp_802p_prio": "6\n", "ecn/roce_np/min_time_between_cnps": "4\n",
	}
	for i, name := range ecnRP {
		t["ecn/roce_rp/"+name] = itoa(i) + "\n"
	}
	for p := range fabric.NumPriorities {
		on := "0\n"
		if p == 3 || p == 4 {
			on = "1\n"
		}
		t["ecn/roce_np/enable/"+itoa(p)], t["ecn/roce_rp/enable/"+itoa(p)] = on, on
	}
	return t
}

func readQoS(t *testing.T, f *FS, at time.Time) fabric.QoS {
	t.Helper()
	var q fabric.QoS
	must(t, f.ReadQoS("eth0", &q, at))
	return q
}

func TestQoS(t *testing.T) {
	f, _ := netdev("eth0", "400000\n", ofed()).open(t)
	q := readQoS(t, f, now)
	known(t, "trust", q.Trust, fabric.TrustDSCP)
	if p := q.DSCPPriority; p.State != fabric.OK || p.Value[26] != 3 || p.Value[48] != 6 || p.Source != "class/net/eth0/qos/dscp2prio" {
		t.Errorf("DSCPs %+v", p)
	}
	known(t, "NP", q.NP, fabric.PriorityMask(0b11000))
	known(t, "RP", q.RP, fabric.PriorityMask(0b11000))
	known(t, "CNP DSCP", q.CNPDSCP, 48)
	known(t, "CNP priority", q.CNPPriority, 6)
	if got := f.Commands(); len(got) != 1 || got[fabric.CommandCongestion] != 18 {
		t.Errorf("commands %v", got)
	}
	q = fabric.QoS{PFC: fabric.Known(fabric.PFC{Enabled: 8}, "DCB", now)}
	must(t, f.ReadQoS("eth0", &q, now))
	known(t, "PFC of another reader", q.PFC, fabric.PFC{Enabled: 8})
	if q.Parameters.State != fabric.Unknown || q.Parameters.Reason != "" {
		t.Errorf("parameters that were not asked for: %+v", q.Parameters)
	}
}

// TestQoSWithoutOFED: what does not exist is unknown, and never off.
func TestQoSWithoutOFED(t *testing.T) {
	f, _ := netdev("eth0", "400000\n", nil).with(netdev("eth1", "1000\n", tree{"ecn": "-> ../../../../outside"}),
		tree{"outside/roce_np/cnp_dscp": "48\n", "class/net/evil": "-> /proc/self"}).open(t)
	facts := func(q *fabric.QoS) map[string]fabric.Meta {
		return map[string]fabric.Meta{
			"qos/trust": q.Trust.Meta(), "qos/dscp2prio": q.DSCPPriority.Meta(), "ecn/roce_np/enable/0": q.NP.Meta(),
			"ecn/roce_rp/enable/0": q.RP.Meta(), "ecn/roce_np/cnp_dscp": q.CNPDSCP.Meta(), "ecn/roce_np/cnp_802p_prio": q.CNPPriority.Meta(),
		}
	}
	q := readQoS(t, f, now)
	for file, m := range facts(&q) {
		if want := (fabric.Meta{Reason: fabric.ReasonMissing, Source: "class/net/eth0/" + file, At: now}); m != want {
			t.Errorf("%+v, want %+v", m, want)
		}
	}
	q = fabric.QoS{}
	must(t, f.ReadQoS("eth1", &q, now))
	unknown(t, "a link", q.CNPDSCP, fabric.ReasonIO)
	for name, want := range map[string]fabric.Reason{"none": fabric.ReasonMissing, "": fabric.ReasonMalformed, "a/b": fabric.ReasonMalformed, "evil": fabric.ReasonMalformed} {
		q := fabric.QoS{}
		err := f.ReadQoS(name, &q, now)
		if err == nil || want == fabric.ReasonMissing && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: error %v", name, err)
		}
		for file, m := range facts(&q) {
			if m.State != fabric.Unknown || m.Reason != want || m.Source != "class/net/"+name {
				t.Errorf("%q: %s is %+v, want unknown: %s", name, file, m, want)
			}
		}
	}
	if got := f.Commands(); len(got) != 0 && got[fabric.CommandCongestion] != 0 {
		t.Errorf("commands %v", got)
	}
}

func TestQoSBadInput(t *testing.T) {
	for content, want := range map[string]fabric.Reason{
		"!EINVAL": fabric.ReasonUnsupported, "!EOPNOTSUPP": fabric.ReasonUnsupported, "!EIO": fabric.ReasonIO, "!EACCES": fabric.ReasonPrivilege,
		"!ENODEV": fabric.ReasonGone, "garbage\n": fabric.ReasonMalformed, "9999999999999999999999\n": fabric.ReasonMalformed, "-1\n": fabric.ReasonMalformed,
		"\xff\x00\n": fabric.ReasonMalformed, strings.Repeat("1", 10<<20): fabric.ReasonMalformed,
	} {
		for _, file := range []string{"qos/trust", "qos/dscp2prio", "ecn/roce_np/enable/3", "ecn/roce_rp/enable/7", "ecn/roce_np/cnp_dscp", "ecn/roce_np/cnp_802p_prio"} {
			f, _ := netdev("eth0", "400000\n", ofed().with(tree{file: content})).with(netdev("eth1", "400000\n", ofed())).open(t)
			var q, other fabric.QoS
			err := f.ReadQoS("eth0", &q, now)
			if foreign := want == fabric.ReasonMalformed; foreign != (err != nil) || fabric.ReasonOf(err) == want != foreign {
				t.Errorf("%s %.20q: error %v", file, content, err)
			} else if foreign && !strings.HasPrefix(err.Error(), "class/net/eth0/"+file+": ") {
				t.Errorf("%s %.20q: %v names another file", file, content, err)
			}
			must(t, f.ReadQoS("eth1", &other, now))
			known(t, "trust of another interface", other.Trust, fabric.TrustDSCP)
			known(t, "NP of another interface", other.NP, fabric.PriorityMask(0b11000))
			ok := 0
			for _, m := range []fabric.Meta{q.Trust.Meta(), q.DSCPPriority.Meta(), q.NP.Meta(), q.RP.Meta(), q.CNPDSCP.Meta(), q.CNPPriority.Meta()} {
				switch {
				case m.State == fabric.OK:
					ok++
				case m.Reason != want || m.Source != "class/net/eth0/"+file:
					t.Errorf("%s %.20q: %+v, want unknown: %s", file, content, m, want)
				}
			}
			if ok != 5 {
				t.Errorf("%s %.20q: %d facts, want 5", file, content, ok)
			}
		}
	}
	f, root := netdev("eth0", "400000\n", ofed()).open(t)
	must(t, os.Remove(filepath.Join(root, netEth0, "ecn/roce_np/cnp_dscp")))
	mkfifo(t, filepath.Join(root, netEth0, "ecn/roce_np/cnp_dscp"))
	must(t, os.RemoveAll(filepath.Join(root, netEth0, "ecn/roce_rp/enable/2")))
	var q fabric.QoS
	if err := f.ReadQoS("eth0", &q, now); err == nil || err.Error() != "class/net/eth0/ecn/roce_np/cnp_dscp: no regular file of at most 4096 bytes: not what sysfs promises" {
		t.Errorf("a FIFO: %v", err)
	}
	unknown(t, "a FIFO", q.CNPDSCP, fabric.ReasonMalformed)
	unknown(t, "seven of eight", q.RP, fabric.ReasonMissing)
}

// TestForeignText: an error says what is in which file, what belongs there, and is short.
func TestForeignText(t *testing.T) {
	f, _ := netdev("eth0", "400000\n", ofed().with(tree{
		"qos/trust": "both\n", "ecn/roce_rp/enable/7": "on\n", "ecn/roce_np/cnp_dscp": strings.Repeat("6", 4000), "ecn/roce_rp/rpg_gd": "1.5\n",
	})).open(t)
	var q fabric.QoS
	want := `class/net/eth0/qos/trust: "both\n", expected "pcp" or "dscp": not what sysfs promises
class/net/eth0/ecn/roce_rp/enable/7: "on\n", expected 0 or 1: not what sysfs promises
class/net/eth0/ecn/roce_np/cnp_dscp: "` + strings.Repeat("6", 40) + `", expected 0 to 63: not what sysfs promises`
	if err := f.ReadQoS("eth0", &q, now); err == nil || err.Error() != want {
		t.Errorf("%v\nwant:\n%s", err, want)
	}
	want = `class/net/eth0/ecn/roce_rp/rpg_gd: "1.5\n", expected a number of 32 bits: not what sysfs promises`
	err := f.ReadCongestionParameters("eth0", "", &q, now)
	if err == nil || !strings.Contains(err.Error(), want) || len(q.Parameters.Value) != len(ecnNP)+len(ecnRP)-2 {
		t.Errorf("%v, %+v, want %s", err, q.Parameters, want)
	}
	flood := tree{}
	for i := range 100 {
		flood["ecn/roce_np/"+itoa(i)] = strings.Repeat("\x00", 4000)
	}
	f, _ = netdev("eth0", "400000\n", flood).open(t)
	if err := f.ReadCongestionParameters("eth0", "", &q, now); err == nil || len(err.Error()) > 4<<10 {
		t.Errorf("%d bytes of errors", len(err.Error()))
	}
}

// TestQoSRefused: a firmware that refuses is left alone for a while, and an empty file is not "off".
func TestQoSRefused(t *testing.T) {
	f, root := netdev("eth0", "400000\n", ofed().with(tree{"ecn/roce_np/enable/0": "", "ecn/roce_np/cnp_dscp": "!EIO"})).open(t)
	q := readQoS(t, f, now)
	unknown(t, "NP", q.NP, fabric.ReasonUnsupported)
	unknown(t, "CNP DSCP", q.CNPDSCP, fabric.ReasonIO)
	asked := f.Commands()[fabric.CommandCongestion]
	if asked != 1+8+2 { // not the other seven, whose answer is of no use
		t.Errorf("asked %d times", asked)
	}
	ofed().under(strings.TrimSuffix(netEth0, "/")).write(t, root)
	q = readQoS(t, f, now.Add(time.Minute-1))
	unknown(t, "NP within a minute", q.NP, fabric.ReasonUnsupported)
	if got := f.Commands()[fabric.CommandCongestion]; got != asked+8+1 {
		t.Errorf("asked %d times within a minute", got)
	}
	q = readQoS(t, f, now.Add(time.Minute))
	if q.NP.Value != 0b11000 || q.CNPDSCP.Value != 48 {
		t.Errorf("after a minute: %+v, %+v", q.NP, q.CNPDSCP)
	}
	if len(f.ledger.refused) != 0 {
		t.Errorf("remembers %v", f.ledger.refused)
	}
	for i := range maxRefusals + 10 {
		f.ledger.remember(itoa(i), backoff{pause: 1}, nil)
	}
	if n := len(f.ledger.refused); n > maxRefusals {
		t.Errorf("remembers %d", n)
	}
}

func TestCongestionParameters(t *testing.T) {
	const address, cc = "0000:1a:00.0", "kernel/debug/mlx5/0000:1a:00.0/cc_params/"
	debug := tree{}
	for i, name := range debugCC {
		debug[cc+name] = itoa(i) + "\n"
	}
	read := func(f *FS, pci string) fabric.Fact[[]fabric.CongestionParameter] {
		var q fabric.QoS
		if err := f.ReadCongestionParameters("eth0", pci, &q, now); err != nil && fabric.ReasonOf(err) != fabric.ReasonMalformed {
			t.Error(err)
		}
		return q.Parameters
	}
	names := func(p fabric.Fact[[]fabric.CongestionParameter]) (names []string) {
		for _, v := range p.Value {
			names = append(names, v.Name)
		}
		slices.Sort(names)
		return names
	}

	// MLNX_OFED, which has debugfs too. There is no cnp_prio_mode, and nothing about responses to RTT probes.
	f, _ := netdev("eth0", "400000\n", ofed().with(tree{"ecn/roce_rp/rpg_max_rate": "-1\n"})).with(debug).open(t)
	p := read(f, address)
	common := slices.DeleteFunc(slices.Clone(debugCC), func(s string) bool { return s == "np_cnp_prio_mode" || strings.HasPrefix(s, "rtt_") })
	if got := names(p); !reflect.DeepEqual(got, common) || p.Source != "class/net/eth0/ecn" || p.At != now {
		t.Errorf("parameters %q from %s", got, p.Source)
	}
	for _, v := range p.Value {
		if want, ok := map[string]uint64{"np_cnp_dscp": 48, "rp_ai_rate": 7, "rp_max_rate": 1<<32 - 1}[v.Name]; ok && v.Value != want {
			t.Errorf("%+v, want %d", v, want)
		}
	}
	if got := f.Commands()[fabric.CommandCongestion]; got != uint64(len(ecnNP)+len(ecnRP)) {
		t.Errorf("%d commands", got)
	}

	// Linux.
	f, root := netdev("eth0", "400000\n", nil).with(debug, tree{"kernel/debug/mlx5/virtio0/cc_params/x": "1\n"}).open(t)
	p = read(f, address)
	if got := names(p); !reflect.DeepEqual(got, debugCC) || p.Source != strings.TrimSuffix(cc, "/") {
		t.Errorf("parameters %q from %s", got, p.Source)
	}
	for _, pci := range []string{"0000:1b:00.0", "", "../../..", "virtio0"} {
		unknown(t, "parameters of "+pci, read(f, pci), fabric.ReasonMissing)
	}
	tree{cc + "rp_gd": "!EINVAL", cc + "rp_ai_rate": "fast\n"}.write(t, root)
	if p := read(f, address); len(p.Value) != len(debugCC)-2 {
		t.Errorf("%d parameters, want all but two: %+v", len(p.Value), p)
	}

	// An exporter that is not root: of debugfs as it is mounted by default, or if others may enter it.
	denied := debug.with()
	for name := range denied {
		denied[name] = "!EACCES"
	}
	f, root = netdev("eth0", "400000\n", nil).with(denied).open(t)
	unknown(t, "parameters", read(f, address), fabric.ReasonPrivilege)
	if got := f.Commands()[fabric.CommandCongestion]; got != 1 {
		t.Errorf("asked %d times without the privilege", got)
	}
	f.openat = func(int, string, int, uint32) (int, error) { return -1, unix.EACCES }
	unknown(t, "parameters", read(f, address), fabric.ReasonPrivilege)
	must(t, os.RemoveAll(filepath.Join(root, "kernel")))
	must(t, os.MkdirAll(filepath.Join(root, "kernel/debug"), 0o755)) // not mounted
	f.openat = unix.Openat
	p = read(f, address)
	unknown(t, "parameters", p, fabric.ReasonMissing)

	// A directory without an end.
	flood := tree{cc + strings.Repeat("x", 100): "1\n"}
	for i := range 500 {
		flood[fmt.Sprintf("%sp%03d", cc, i)] = "1\n"
	}
	f, _ = netdev("eth0", "400000\n", nil).with(flood).open(t)
	if n := len(read(f, address).Value); n != maxParameters {
		t.Errorf("%d parameters", n)
	}
	if err := f.ReadCongestionParameters("none", address, &fabric.QoS{}, now); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestCostOfQoS counts what is opened and read of an interface.
func TestCostOfQoS(t *testing.T) {
	type cost struct{ opened, missed, preads int }
	for what, c := range map[string]struct {
		files tree
		read  func(*FS)
		want  cost
	}{
		// Six directories and 20 files.
		"MLNX_OFED": {ofed(), func(f *FS) { readQoS(t, f, now) }, cost{opened: 6 + 20, preads: 20}},
		// Neither qos nor ecn: one miss each.
		"none": {nil, func(f *FS) { readQoS(t, f, now) }, cost{missed: 2}},
		"parameters of MLNX_OFED": {ofed(), func(f *FS) {
			must(t, f.ReadCongestionParameters("eth0", "0000:1a:00.0", &fabric.QoS{}, now))
		}, cost{opened: 3 + 19, preads: 19}},
		"parameters of none": {nil, func(f *FS) {
			must(t, f.ReadCongestionParameters("eth0", "0000:1a:00.0", &fabric.QoS{}, now))
		}, cost{missed: 1}},
	} {
		f, _ := netdev("eth0", "400000\n", c.files).open(t)
		got := counted(f)
		before := len(openFiles(t))
		c.read(f)
		if cost(*got) != c.want {
			t.Errorf("%s costs %+v, want %+v", what, *got, c.want)
		}
		if after := len(openFiles(t)); after != before {
			t.Errorf("%s leaves %d files open", what, after-before)
		}
	}
}

// calls counts system calls on single names and files.
type calls struct{ opened, missed, preads int }

// counted counts the system calls of what is made of f from now on.
func counted(f *FS) *calls {
	c := &calls{}
	openat, pread := f.openat, f.pread
	f.openat = func(fd int, name string, flags int, mode uint32) (int, error) {
		n, err := openat(fd, name, flags, mode)
		if err != nil {
			c.missed++
		} else {
			c.opened++
		}
		return n, err
	}
	f.pread = func(fd int, p []byte, offset int64) (int, error) {
		c.preads++
		return pread(fd, p, offset)
	}
	return c
}

// TestConcurrentQoS is for the race detector.
func TestConcurrentQoS(t *testing.T) {
	f, _ := netdev("eth0", "400000\n", ofed().with(tree{"ecn/roce_np/cnp_dscp": "!EINVAL"})).open(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 20 {
				q := fabric.QoS{}
				if err := f.ReadQoS("eth0", &q, now.Add(time.Duration(i)*time.Minute)); err != nil || q.Trust.State != fabric.OK {
					t.Errorf("%v, %+v", err, q.Trust)
				}
				if err := f.ReadCongestionParameters("eth0", "", &q, now); err != nil {
					t.Error(err)
				}
				f.Commands()
			}
		})
	}
	wg.Wait()
}
