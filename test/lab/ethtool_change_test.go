// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/ethtool"
)

// pfc enables PFC for these priorities of hca0 only.
func pfc(t *testing.T, priorities string) {
	t.Helper()
	args := append(strings.Fields("pfc set dev hca0 prio-pfc all:off"), strings.Fields(priorities)...)
	var out []byte
	var err error
	for range 3 { // see guest/fakehca.sh
		if out, err = exec.Command("dcb", args...).CombinedOutput(); err == nil {
			return
		}
	}
	t.Errorf("dcb %q: %v %s", args, err, out)
}

// The list of statistics follows PFC, and is of the same length with PFC for another priority.
func ethtoolPFC(t *testing.T, c *ethtool.Client) {
	values := number(t)
	t.Cleanup(func() { pfc(t, "3:on") })
	lengths := map[string]int{}
	for _, priorities := range []string{"3:on", "4:on", "", "3:on 4:on", "5:on", "3:on"} {
		pfc(t, priorities)
		got := checkStatistics(t, c, "hca0")
		lengths[priorities] = len(got)
		for p := range 8 {
			line := fmt.Sprintf("tx_prio%d_pause: %d", p, values[fmt.Sprintf("tx_prio%d_pause", p)])
			if has := slices.Contains(got, line); has != strings.Contains(priorities, strconv.Itoa(p)) {
				t.Errorf("PFC %s: %s is there: %t", priorities, line, has)
			}
		}
	}
	if lengths["3:on"] != lengths["4:on"] || lengths["3:on 4:on"] != lengths["3:on"]+5 {
		t.Error(lengths)
	}
}

// No value gets another name, however often the list changes while it is read.
func ethtoolRace(t *testing.T, c *ethtool.Client) {
	values := number(t)
	t.Cleanup(func() { pfc(t, "3:on") })
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for turn := range 16 { // the guest needs half a second for one
			pfc(t, []string{"3:on", "4:on", "", "4:on 5:on"}[turn%4])
		}
	}()
	lists, changing := map[string]int{}, 0
	before := c.Commands()
	for changes := true; changes; {
		select {
		case <-changed:
			changes = false
		default:
		}
		list, err := c.Statistics("hca0", anyName, time.Now())
		if errors.Is(err, ethtool.ErrChanging) {
			changing++
			continue
		}
		if err != nil {
			t.Error(err)
		}
		var enabled []string
		for _, s := range list {
			if want, ok := values[s.Name]; ok && s.Value.Value != uint64(want) {
				t.Errorf("%s is %d, want %d", s.Name, s.Value.Value, want)
			}
			if strings.HasSuffix(s.Name, "_pause") && strings.HasPrefix(s.Name, "rx_prio") {
				enabled = append(enabled, s.Name[len("rx_prio"):][:1])
			}
		}
		lists[strings.Join(enabled, ",")]++
	}
	did := since(c.Commands(), before)
	t.Logf("readings by priorities with PFC %v, without end %d; asked %v", lists, changing, did)
	if len(lists) != 4 {
		t.Errorf("readings %v", lists)
	}
}

// An interface that gets the name of another one has its own statistics.
func ethtoolRenamed(t *testing.T, c *ethtool.Client) {
	undone(t, "ip link add one numtxqueues 1 numrxqueues 1 type veth peer name one-peer", "ip link del one-peer")
	undone(t, "ip link add two numtxqueues 3 numrxqueues 3 type veth peer name two-peer", "ip link del two-peer")
	for range 3 {
		checkStatistics(t, c, "one")
		checkStatistics(t, c, "two")
		checkDriver(t, c, "two")
		for _, line := range []string{"one name other", "two name one", "other name two"} {
			command(t, "ip link set "+line)
		}
	}
}

func ethtoolUnplugged(t *testing.T, c *ethtool.Client) {
	for range 2 { // the second time with another number and the names of the first one in mind
		command(t, "ip link add gone type veth peer name gone-peer")
		checkStatistics(t, c, "gone")
		command(t, "ip link del gone")
		var q fabric.QoS
		err := c.Read("gone", &q, time.Now())
		if !errors.Is(err, syscall.ENODEV) || q.Pause.Reason != fabric.ReasonGone || q.FEC.Reason != fabric.ReasonGone {
			t.Errorf("%+v, %v", q, err)
		}
		if _, err := c.Statistics("gone", anyName, time.Now()); !errors.Is(err, syscall.ENODEV) {
			t.Error(err)
		}
		if _, err := c.Driver("gone"); !errors.Is(err, syscall.ENODEV) {
			t.Error(err)
		}
	}
}
