// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/host/netlink"
)

// kernel answers each command with a recording of a real one, and refuses the second port.
func kernel(t testing.TB) *Client {
	return client(func(requests []netlink.Message) ([]netlink.Message, error) {
		names := map[command]string{cmdGet: "get", cmdPortGet: "port_get_fakehca_0", cmdStatGet: "stat_get_fakehca_0", cmdSysGet: "sys_get"}
		if strings.HasSuffix(string(requests[0].Data), "\x02\x00\x00\x00") {
			return refuse(unix.EINVAL)(requests)
		}
		return answer(recording(t, names[command(requests[0].Header.Type&(1<<clientShift-1))])...)(requests)
	})
}

// said is all that a client says to these questions.
func said(c *Client) []any {
	var all []any
	note := func(v any, err error) { all = append(all, v, errors.Is(err, unix.EINVAL), err == nil) }
	devices, err := c.Devices()
	note(devices, err)
	system, err := c.System()
	note(system, err)
	for port := range uint32(2) {
		p, err := c.Port(4, 1+port)
		note(p, err)
		counters, err := c.Counters(4, 1+port)
		note(counters, err)
	}
	return all
}

func TestReplay(t *testing.T) {
	c := kernel(t)
	var exchanges []netlink.Exchange
	c.Record(func(e netlink.Exchange) { exchanges = append(exchanges, e) })
	want := said(c)
	b, err := json.Marshal(exchanges)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rdma.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := netlink.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	r := Replay(loaded)
	if got := said(r); !reflect.DeepEqual(got, want) {
		t.Errorf("replayed:\n%v\nrecorded:\n%v", got, want)
	}
	if got := said(r); !reflect.DeepEqual(got, want) {
		t.Error("a second round gets something else")
	}
	if _, err := r.Port(77, 1); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a device that was not recorded: %v", err)
	}
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := netlink.Load(file); err == nil || !strings.Contains(err.Error(), "rdma.json: expected recorded answers") {
		t.Errorf("nonsense: %v", err)
	}
}

// Identifiers are replaced, foreign devices are left out, and so is what is not known here.
func TestRewrite(t *testing.T) {
	var exchanges []netlink.Exchange
	c := kernel(t)
	c.Record(func(e netlink.Exchange) {
		if e.Command == cmdGet.String() {
			e.Messages[1] = put(e.Messages[1], 999, "secret")
			e.Messages = append(e.Messages, []byte("nonsense"))
		}
		exchanges = append(exchanges, Rewrite(e, Rewriting{
			Keep: func(device string) bool { return device != "rxe0" },
			Name: func(s string) string { return strings.ReplaceAll(s, "hca", "other") },
			GUID: func(v uint64) uint64 { return v + 1 },
		}))
	})
	want := said(c)
	before := want[0].([]Device)
	after, err := Replay(exchanges).Devices()
	if !errors.Is(err, netlink.ErrMalformed) {
		t.Errorf("the malformed device: %v", err)
	}
	if len(after) != len(before)-1 {
		t.Fatalf("%d devices, want all but one of %d", len(after), len(before))
	}
	renamed := 0
	for i, d := range after {
		was := before[len(before)-len(after)+i] // rxe0 is the first
		if strings.Contains(was.Name, "hca") {
			renamed++
		}
		if d.Name != strings.ReplaceAll(was.Name, "hca", "other") || d.NodeGUID == was.NodeGUID || d.ImageGUID == was.ImageGUID || d.Firmware != was.Firmware {
			t.Errorf("%+v became %+v", was, d)
		}
	}
	if p, err := Replay(exchanges).Port(4, 1); err != nil || p.NetDev != "other0" || p.State == "" {
		t.Errorf("port %+v, %v", p, err)
	}
	if counters, err := Replay(exchanges).Counters(4, 1); err != nil || !reflect.DeepEqual(counters, want[9]) {
		t.Errorf("counters %v, %v; want %v", counters, err, want[9])
	}
	if renamed == 0 {
		t.Error("no device with a name to replace")
	}
	for _, e := range exchanges {
		for _, m := range e.Messages {
			if bytes.Contains(m, []byte("secret")) || bytes.Contains(m, []byte("rxe0")) || bytes.Contains(m, []byte("nonsense")) {
				t.Errorf("%s: %q", e.Command, m)
			}
		}
	}
}

// Whatever is in a message, what stays is well-formed, and rewriting it again changes nothing.
func FuzzRewrite(f *testing.F) {
	for _, name := range []string{"get", "port_get_siw1", "stat_get_rxe0"} {
		f.Add(payload(f, name))
	}
	same := Rewriting{
		Keep: func(string) bool { return true }, Name: func(s string) string { return s }, GUID: func(v uint64) uint64 { return v },
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		once := Rewrite(netlink.Exchange{Messages: []netlink.Bytes{b}}, same)
		if twice := Rewrite(once, same); !reflect.DeepEqual(once, twice) {
			t.Errorf("%x became %x and then %x", b, once, twice)
		}
	})
}
