// SPDX-License-Identifier: Apache-2.0

package dcbnl

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

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// recordable is a client of a kernel whose recordings are in testdata: a driver with IEEE, one that uses CEE, and an
// interface without DCB.
func recordable(t *testing.T) *Client {
	return client(func(requests []netlink.Message) ([]netlink.Message, error) {
		names := map[string]string{
			string(encode(cmdIEEEGet, "hca0").Data): "ieee_get_hca0",
			string(encode(cmdIEEEGet, "hca1").Data): "ieee_get_hca1",
			string(encode(cmdCEEGet, "hca1").Data):  "cee_get_hca1",
		}
		if name, ok := names[string(requests[0].Data)]; ok {
			return answer(recording(t, name))(requests)
		}
		return refuse(unix.EOPNOTSUPP)(requests)
	})
}

// said is all that a client says about these interfaces.
func said(c *Client, netdevs ...string) (all []any) {
	for _, netdev := range netdevs {
		var q fabric.QoS
		err := c.Read(netdev, &q, at())
		all = append(all, q, err == nil)
	}
	return all
}

func TestReplay(t *testing.T) {
	c := recordable(t)
	var exchanges []netlink.Exchange
	c.Record(func(e netlink.Exchange) { exchanges = append(exchanges, e) })
	want := said(c, "hca0", "hca1", "lo")
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
	r := Replay(loaded)
	for range 2 {
		if got := said(r, "hca0", "hca1", "lo"); !reflect.DeepEqual(got, want) {
			t.Errorf("replayed:\n%v\nrecorded:\n%v", got, want)
		}
	}
	var q fabric.QoS
	if err := r.Read("hca9", &q, at()); !errors.Is(err, unix.ENODEV) {
		t.Errorf("an interface that was not recorded: %v", err)
	}
}

// The name of the interface is replaced wherever it is, and what is not known here is left out.
func TestRewrite(t *testing.T) {
	c := recordable(t)
	var exchanges []netlink.Exchange
	c.Record(func(e netlink.Exchange) {
		if e.Errno == 0 {
			e.Answer = put(e.Answer, 99, "secret")
		}
		exchanges = append(exchanges, Rewrite(e, func(s string) string { return strings.ReplaceAll(s, "hca", "other") }))
	})
	want := said(c, "hca0", "hca1", "lo")
	if got := said(Replay(exchanges), "other0", "other1", "lo"); !reflect.DeepEqual(got, want) {
		t.Errorf("replayed:\n%v\nrecorded:\n%v", got, want)
	}
	for _, e := range exchanges {
		if bytes.Contains(e.Answer, []byte("secret")) || bytes.Contains(e.Answer, []byte("hca")) {
			t.Errorf("%s: %q", e.Command, e.Answer)
		}
	}
	for _, b := range [][]byte{nil, {1}, []byte("nonsense"), put(message(cmdIEEEGet, nil), attrIEEE, []byte{1})} {
		if e := Rewrite(netlink.Exchange{Answer: b}, strings.ToUpper); len(e.Answer) > 1 {
			t.Errorf("%q became %q", b, e.Answer)
		}
	}
}

// Whatever is in a message, what stays is well-formed, and rewriting it again changes nothing.
func FuzzRewrite(f *testing.F) {
	for _, name := range []string{"ieee_get_hca0", "ieee_get_hca1", "cee_get_hca1"} {
		f.Add(recording(f, name).Data)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		once := Rewrite(netlink.Exchange{Answer: b}, strings.ToUpper)
		if twice := Rewrite(once, strings.ToUpper); !reflect.DeepEqual(once, twice) {
			t.Errorf("%x became %x and then %x", b, once.Answer, twice.Answer)
		}
	})
}
