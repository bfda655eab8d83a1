// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// using is a kernel whose device 0 answers as recorded; without has the commands that it does not know.
func using(t testing.TB, without ...command) *Client {
	return client(func(requests []netlink.Message) ([]netlink.Message, error) {
		cmd := command(requests[0].Header.Type & (1<<clientShift - 1))
		if slices.Contains(without, cmd) {
			return refuse(unix.EINVAL)(requests)
		}
		return answer(recording(t, cmd.String())...)(requests)
	})
}

// In the recording one thread has a context and a PD, another one two regions of 16 KiB and six queue pairs on one pair of
// completion queues, and a third one, which has ended, a region.
func TestUse(t *testing.T) {
	devices := []Device{{Index: 0, Name: "rxe0"}}
	for name, c := range map[string]*Client{"all commands": using(t), "without RES_CTX_GET": using(t, cmdCtxGet)} {
		use, err := c.Use(devices)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var all fabric.VerbsUse
		for task, v := range use.ByTask {
			if task <= 0 || !reflect.DeepEqual(v.Devices, []string{"rxe0"}) {
				t.Errorf("%s: thread %d: %+v", name, task, v)
			}
			all.Contexts += v.Contexts
			all.PDs += v.PDs
			all.Regions += v.Regions
			all.Bytes += v.Bytes
			all.QueuePairs += v.QueuePairs
		}
		want := fabric.VerbsUse{Contexts: 1, PDs: 1, Regions: 2, Bytes: 32 << 10, QueuePairs: 6}
		if len(use.ByTask) != 2 || use.Unowned != 1 || !reflect.DeepEqual(all, want) {
			t.Errorf("%s: %d threads, %d unowned, %+v, want 2, 1, %+v", name, len(use.ByTask), use.Unowned, all, want)
		}
		if n := c.Requests(); n["res_ctx_get"]+n["res_pd_get"]+n["res_mr_get"]+n["res_cq_get"] != 4 {
			t.Errorf("%s: requests %v, want one of each kind", name, n)
		}
	}
}

// Nothing is better than a part: a process without queue pairs would seem to use none.
func TestUseRefused(t *testing.T) {
	for _, cmd := range []command{cmdPDGet, cmdMRGet, cmdCQGet} {
		use, err := using(t, cmd).Use([]Device{{Name: "rxe0"}})
		if !errors.Is(err, unix.EINVAL) || use.ByTask != nil {
			t.Errorf("%v refused: %+v, %v", cmd, use, err)
		}
	}
}

// More threads than the limit are an error, and objects of the kernel and of no process cost nothing.
func TestUseBounds(t *testing.T) {
	entry := func(attributes []byte) []byte { return put(nil, attrResPDEntry, attributes) }
	table := func(n int, attributes func(i int) []byte) []netlink.Message {
		var messages []netlink.Message
		for i := range n {
			messages = append(messages, netlink.Message{
				Header: netlink.Header{Type: cmdPDGet.header(), Flags: 2}, // NLM_F_MULTI
				Data:   put(nil, attrResPD, entry(attributes(i))),
			})
		}
		return append(messages, netlink.Message{Header: netlink.Header{Type: 3, Flags: 2}, Data: make([]byte, 4)}) // NLMSG_DONE
	}
	ask := func(messages []netlink.Message) (Use, error) {
		c := client(func(requests []netlink.Message) ([]netlink.Message, error) {
			if command(requests[0].Header.Type&(1<<clientShift-1)) == cmdPDGet {
				return answer(messages...)(requests)
			}
			return answer(messages[len(messages)-1])(requests)
		})
		return c.Use([]Device{{Name: "mlx5_0"}})
	}
	use, err := ask(table(3, func(i int) []byte {
		return [][]byte{put(nil, attrResKernName, "ib_core"), nil, put(nil, attrResPID, uint32(0xffffffff))}[i]
	}))
	if err != nil || len(use.ByTask) != 0 || use.Unowned != 2 {
		t.Errorf("%+v, %v, want 2 unowned", use, err)
	}
	for n, want := range map[int]error{maxTasks: nil, maxTasks + 1: netlink.ErrTooMany} {
		use, err := ask(table(n, func(i int) []byte { return put(nil, attrResPID, uint32(i+1)) }))
		if !errors.Is(err, want) || want == nil && len(use.ByTask) != n {
			t.Errorf("%d threads: %d, %v, want %v", n, len(use.ByTask), err, want)
		}
	}
}
