// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// recordable is a client of a driver that answers all questions, and of one that refuses FEC and has no statistics.
func recordable(t *testing.T) *Client {
	k := &fakeKernel{nics: map[string]*nic{"eth0": hca(7, "3"), "eth1": {index: 8}}}
	n := &fakeNetlink{answers: map[message]func(netlink.Message) ([]netlink.Message, error){
		msgGetFamily: says(msgGetFamily, familyReply()),
		msgLinkModes: says(msgLinkModes, speedReply(400_000)),
		msgPause:     says(msgPause, pauseReply()),
		msgFEC: func(request netlink.Message) ([]netlink.Message, error) {
			if bytes.Contains(request.Data, []byte("eth1\x00")) {
				return refuses(unix.EOPNOTSUPP)(request)
			}
			return says(msgFEC, fecReply())(request)
		},
	}}
	c := client(t, k)
	c.dial = n.dial
	return c
}

// said is all that a client says about these interfaces.
func said(c *Client, netdevs ...string) (all []any) {
	for _, netdev := range netdevs {
		var q fabric.QoS
		err := c.Read(netdev, &q, now())
		list, statistics := c.Statistics(netdev, func(string) bool { return true }, now())
		all = append(all, c.Speed(netdev, now()), q, err == nil, list, errors.Is(statistics, errors.ErrUnsupported), statistics == nil)
	}
	return all
}

func TestReplay(t *testing.T) {
	c := recordable(t)
	var exchanges []netlink.Exchange
	same := func(s string) string { return s }
	c.Record(func(e netlink.Exchange) { exchanges = append(exchanges, Rewrite(e, same)) })
	want := said(c, "eth0", "eth1")
	b, err := json.Marshal(exchanges)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), File)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := netlink.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Replay(loaded)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 {
		if got := said(r, "eth0", "eth1"); !reflect.DeepEqual(got, want) {
			t.Errorf("replayed:\n%v\nrecorded:\n%v", got, want)
		}
	}
	var q fabric.QoS
	if err := r.Read("eth2", &q, now()); !errors.Is(err, unix.ENODEV) {
		t.Errorf("an interface that was not recorded: %v", err)
	}
	if got := r.Speed("eth2", now()); got != noSpeed(fabric.ReasonGone) || !r.HasNetlink() {
		t.Errorf("a speed that was not recorded: %+v", got)
	}
	if _, err := r.Statistics("eth2", func(string) bool { return true }, now()); !errors.Is(err, unix.ENODEV) {
		t.Errorf("statistics that were not recorded: %v", err)
	}
}

// Of a kernel before 5.6 nothing is recorded over netlink, and its recording has no netlink either.
func TestReplayWithoutNetlink(t *testing.T) {
	c := recordable(t)
	c.dial = (&fakeNetlink{answers: map[message]func(netlink.Message) ([]netlink.Message, error){msgGetFamily: refuses(unix.ENOENT)}}).dial
	var exchanges []netlink.Exchange
	c.Record(func(e netlink.Exchange) { exchanges = append(exchanges, e) })
	want := said(c, "eth0")
	r, err := Replay(exchanges)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := said(r, "eth0"); !reflect.DeepEqual(got, want) || r.HasNetlink() || len(exchanges) != 1 {
		t.Errorf("replayed:\n%v\nrecorded:\n%v", got, want)
	}
}

// The name of the interface is replaced wherever it is, and what is not known here is left out.
func TestRewrite(t *testing.T) {
	c := recordable(t)
	var exchanges []netlink.Exchange
	c.Record(func(e netlink.Exchange) {
		if e.Command == msgPause.String() {
			e.Answer = append(e.Answer, encoded(func(ae *mdlayher.AttributeEncoder) { ae.String(999, "secret") })...)
		}
		exchanges = append(exchanges, Rewrite(e, func(s string) string { return strings.ReplaceAll(s, "eth", "other") }))
	})
	want := said(c, "eth0", "eth1")
	r, err := Replay(exchanges)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := said(r, "other0", "other1"); !reflect.DeepEqual(got, want) {
		t.Errorf("replayed:\n%v\nrecorded:\n%v", got, want)
	}
	for _, e := range exchanges {
		if bytes.Contains(e.Answer, []byte("secret")) || bytes.Contains(e.Answer, []byte("eth")) {
			t.Errorf("%s: %q", e.Command, e.Answer)
		}
	}
	if e := Rewrite(netlink.Exchange{Command: msgFEC.String(), Answer: []byte("nonsense")}, strings.ToUpper); !bytes.Equal(e.Answer, []byte{0}) {
		t.Errorf("%q", e.Answer)
	}
}

// An invented recording is refused like a driver that answers so.
func TestReplayOfNonsense(t *testing.T) {
	many := make([]netlink.Statistic, maxStatistics+1)
	r, err := Replay([]netlink.Exchange{
		{Command: cmdValues.String(), NetDev: "many", Statistics: many},
		{Command: cmdValues.String(), NetDev: "long", Statistics: []netlink.Statistic{{Name: strings.Repeat("x", 100), Value: 1}, {Name: "y", Value: 2}}},
		{Command: msgPause.String(), NetDev: "long", Answer: []byte{1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	everything := func(string) bool { return true }
	if _, err := r.Statistics("many", everything, now()); !errors.Is(err, netlink.ErrMalformed) {
		t.Errorf("%d statistics: %v", len(many), err)
	}
	list, err := r.Statistics("long", everything, now())
	if err != nil || len(list) != 2 || list[0].Name != strings.Repeat("x", nameSize) || list[1].Value.Value != 2 {
		t.Errorf("%v, %v", list, err)
	}
	var q fabric.QoS
	_ = r.Read("long", &q, now())
	if q.Pause.Reason != fabric.ReasonMalformed {
		t.Errorf("%+v", q.Pause)
	}
}

// Whatever is in a message, what stays is well-formed, and rewriting it again changes nothing.
func FuzzRewrite(f *testing.F) {
	f.Add(true, pauseReply())
	f.Add(false, fecReply())
	f.Fuzz(func(t *testing.T, pause bool, b []byte) {
		e := netlink.Exchange{Command: msgFEC.String(), Answer: slices.Clone(b)}
		if pause {
			e.Command = msgPause.String()
		}
		once := Rewrite(e, strings.ToUpper)
		if twice := Rewrite(once, strings.ToUpper); !reflect.DeepEqual(once, twice) {
			t.Errorf("%x became %x and then %x", b, once.Answer, twice.Answer)
		}
	})
}
