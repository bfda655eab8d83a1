// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/ethtool"
)

// What the reader says about network interfaces is what the ethtool program says.
func TestEthtool(t *testing.T) {
	c, err := ethtool.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, test := range []struct {
		name string
		run  func(*testing.T, *ethtool.Client)
	}{
		{"interfaces", ethtoolInterfaces},
		{"values", ethtoolValues},
		{"pause", ethtoolPause},
		{"fec", ethtoolFEC},
		{"pfc_changes", ethtoolPFC},
		{"pfc_keeps_changing", ethtoolRace},
		{"load", ethtoolLoad},
		{"names_exchanged", ethtoolRenamed},
		{"unplugged", ethtoolUnplugged},
		{"unprivileged", ethtoolUnprivileged},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, c) })
	}
}

func anyName(string) bool { return true }

// says runs the ethtool program: its lines without blanks around them, nil when it refuses.
func says(args ...string) (lines []string) {
	out, err := exec.Command("ethtool", args...).Output()
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// statistics is what the reader says in the form of ethtool -S.
func statistics(t *testing.T, c *ethtool.Client, netdev string) (lines []string) {
	t.Helper()
	list, err := c.Statistics(netdev, anyName, time.Now())
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", netdev, err)
		}
		return nil
	}
	lines = []string{"NIC statistics:"}
	for _, s := range list {
		lines = append(lines, fmt.Sprintf("%s: %d", s.Name, s.Value.Value))
	}
	return lines
}

func checkStatistics(t *testing.T, c *ethtool.Client, netdev string) []string {
	t.Helper()
	got, want := statistics(t, c, netdev), says("-S", netdev)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, ethtool says %q", netdev, got, want)
	}
	return got
}

// counted is a line of ethtool -I; it has none for what the driver does not count.
func counted(what string, f fabric.Fact[uint64]) (lines []string) {
	if v, ok := f.Get(); ok {
		lines = append(lines, fmt.Sprintf("%s: %d", what, v))
	}
	return lines
}

func checkPause(t *testing.T, q fabric.QoS, netdev string) {
	t.Helper()
	want := says("-I", "-a", netdev)
	p, ok := q.Pause.Get()
	if !ok {
		if want != nil || q.Pause.Reason != fabric.ReasonUnsupported {
			t.Errorf("%s: %+v, ethtool says %q", netdev, q.Pause, want)
		}
		return
	}
	onOff := map[bool]string{false: "off", true: "on"}
	got := []string{
		"Pause parameters for " + netdev + ":", "Autonegotiate: " + onOff[p.Autonegotiated], "RX: " + onOff[p.Receive],
		"TX: " + onOff[p.Transmit], "Statistics:",
	}
	got = slices.Concat(got, counted("tx_pause_frames", p.Transmitted), counted("rx_pause_frames", p.Received), []string{""})
	if !slices.Equal(got, want) {
		t.Errorf("%q, ethtool says %q", got, want)
	}
}

func checkFEC(t *testing.T, q fabric.QoS, netdev string) {
	t.Helper()
	want := says("-I", "--show-fec", netdev)
	f, ok := q.FEC.Get()
	if !ok {
		if want != nil || q.FEC.Reason != fabric.ReasonUnsupported {
			t.Errorf("%s: %+v, ethtool says %q", netdev, q.FEC, want)
		}
		return
	}
	names := map[string]string{"none": "Off", "rs": "RS", "baser": "BaseR", "llrs": "LLRS"}
	got := slices.Concat(
		[]string{"FEC parameters for " + netdev + ":", "Active FEC encoding: " + names[f.Active], "Statistics:"},
		counted("corrected_blocks", f.CorrectedBlocks), counted("uncorrectable_blocks", f.UncorrectableBlocks),
		counted("corrected_bits", f.CorrectedBits))
	want = slices.DeleteFunc(want, func(line string) bool { return strings.HasPrefix(line, "Supported") })
	if !slices.Equal(got, want) {
		t.Errorf("%q, ethtool says %q", got, want)
	}
}

func checkDriver(t *testing.T, c *ethtool.Client, netdev string) {
	t.Helper()
	d, err := c.Driver(netdev)
	want := says("-i", netdev)
	if err != nil {
		if want != nil || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, ethtool says %q", netdev, err, want)
		}
		return
	}
	for what, got := range map[string]string{
		"driver": d.Driver, "version": d.Version, "firmware-version": d.Firmware, "bus-info": d.Bus,
	} {
		if !slices.Contains(want, strings.TrimSpace(what+": "+got)) {
			t.Errorf("%s: %s %q, ethtool says %q", netdev, what, got, want)
		}
	}
}

func readQoS(t *testing.T, c *ethtool.Client, netdev string) (q fabric.QoS) {
	t.Helper()
	if err := c.Read(netdev, &q, time.Now()); err != nil {
		t.Error(err)
	}
	return q
}

// One of each kind: without driver, with one that has no statistics, with some, and with all that is asked for.
func ethtoolInterfaces(t *testing.T, c *ethtool.Client) {
	for _, netdev := range []string{"lo", "iw0", "hca0.7", "rdma0", "hca0", "hca4"} {
		n := len(checkStatistics(t, c, netdev))
		checkDriver(t, c, netdev)
		q := readQoS(t, c, netdev)
		checkPause(t, q, netdev)
		checkFEC(t, q, netdev)
		t.Log(netdev, n, q.Pause.State, q.FEC.State)
	}
}

// number gives all statistics of fakehca_0 values of their own, by name, until the test ends.
func number(t *testing.T) (values map[string]int) {
	t.Helper()
	files, err := filepath.Glob(debug("fakehca_0", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	values = map[string]int{}
	for i, path := range files {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "calls_") {
			continue
		}
		if strings.Contains(name, "prio") || strings.HasSuffix(name, "_phy") || strings.Contains(name, "pause") || strings.HasPrefix(name, "outbound") {
			values[name] = 1000 + i
			set(t, path, strconv.Itoa(1000+i))
		}
	}
	if len(values) < 100 {
		t.Fatal(values)
	}
	return values
}

func ethtoolValues(t *testing.T, c *ethtool.Client) {
	values := number(t)
	got := checkStatistics(t, c, "hca0")
	if want := fmt.Sprint("rx_prio3_pause: ", values["rx_prio3_pause"]); !slices.Contains(got, want) {
		t.Errorf("%q lacks %s", got, want)
	}
	set(t, debug("fakehca_0", "rx_prio3_pause"), "18446744073709551615")
	if got := checkStatistics(t, c, "hca0"); !slices.Contains(got, "rx_prio3_pause: 18446744073709551615") {
		t.Errorf("%q", got)
	}
}

func ethtoolPause(t *testing.T, c *ethtool.Client) {
	set(t, debug("fakehca_0", "rx_global_pause"), "71")
	set(t, debug("fakehca_0", "tx_global_pause"), "72")
	without := statistics(t, c, "hca0")
	t.Cleanup(func() { command(t, "ethtool -A hca0 rx off tx off autoneg off") })
	for _, line := range []string{"rx on tx off autoneg off", "rx off tx on autoneg on", "rx on tx on autoneg off"} {
		command(t, "ethtool -A hca0 "+line)
		q := readQoS(t, c, "hca0")
		checkPause(t, q, "hca0")
		if p := q.Pause.Value; p.Received.Value != 71 || p.Transmitted.Value != 72 {
			t.Errorf("%+v", p)
		}
		if with := checkStatistics(t, c, "hca0"); len(with) != len(without)+5 || !slices.Contains(with, "rx_global_pause: 71") {
			t.Errorf("%d statistics with global pause, %d without", len(with), len(without))
		}
	}
}

func ethtoolFEC(t *testing.T, c *ethtool.Client) {
	set(t, debug("fakehca_0", "fec_corrected_blocks"), "81")
	set(t, debug("fakehca_0", "fec_uncorrectable_blocks"), "82")
	set(t, debug("fakehca_0", "rx_corrected_bits_phy"), "83")
	for bits, want := range map[string]string{"4": "none", "8": "rs", "16": "baser", "32": "llrs"} { // ETHTOOL_FEC_*
		set(t, debug("fakehca_0", "fec"), bits)
		q := readQoS(t, c, "hca0")
		checkFEC(t, q, "hca0")
		if f := q.FEC.Value; f.Active != want || f.CorrectedBlocks.Value != 81 || f.UncorrectableBlocks.Value != 82 || f.CorrectedBits.Value != 83 {
			t.Errorf("%s: %+v", want, f)
		}
	}
	set(t, debug("fakehca_0", "fec"), "0") // the driver does not say
	if f, ok := readQoS(t, c, "hca0").FEC.Get(); !ok || f.Active != "" {
		t.Errorf("%+v", f)
	}
}

func since(now, before fabric.Commands) fabric.Commands {
	did := fabric.Commands{}
	for kind, n := range now {
		did[kind] = n - before[kind]
	}
	return did
}

// What a reading costs the driver, and that it is counted.
func ethtoolLoad(t *testing.T, c *ethtool.Client) {
	kinds := map[string]fabric.Command{
		"gstats": fabric.CommandNetStats, "gstrings": fabric.CommandNetNames, "pause": fabric.CommandPause, "fec": fabric.CommandFEC,
	}
	asked := func() fabric.Commands {
		n := fabric.Commands{}
		for file, kind := range kinds {
			v, err := strconv.ParseUint(read(debug("fakehca_0", "calls_"+file)), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n[kind] = v
		}
		return n
	}
	statistics(t, c, "hca0")
	const readings = 10
	driver, client := asked(), c.Commands()
	begin := time.Now()
	for range readings {
		if len(statistics(t, c, "hca0")) < 50 {
			t.Error("too few statistics")
		}
	}
	took := time.Since(begin)
	for range readings {
		readQoS(t, c, "hca0")
	}
	for _, did := range []fabric.Commands{since(asked(), driver), since(c.Commands(), client)} {
		for _, kind := range kinds {
			if did[kind] != readings {
				t.Errorf("%d of %s in %d readings", did[kind], kind, readings)
			}
		}
	}
	if v := c.Speed("hca0", time.Now()); v.Or(0) != 50e9 {
		t.Errorf("speed %+v, ethtool says %q", v, says("hca0"))
	}
	t.Logf("a reading takes %v", took/readings)
}

// The user nobody sees what root sees.
func ethtoolUnprivileged(t *testing.T, _ *ethtool.Client) {
	if os.Getuid() != 0 {
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run", "^TestEthtool$/^interfaces$")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestEthtool/interfaces") {
		t.Errorf("%v\n%s", err, out)
	}
}
