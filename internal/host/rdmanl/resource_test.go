// SPDX-License-Identifier: Apache-2.0

package rdmanl

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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

// In the recording one thread has a context and a PD, another one two regions of 16 KiB and six queue pairs
// on one pair of completion queues, and a third one, which has ended, a region.
func TestUse(t *testing.T) {
	devices := []Device{{Index: 0, Name: "rxe0"}}
	for name, c := range map[string]*Client{"all commands": using(t), "without RES_CTX_GET": using(t, cmdCtxGet)} {
		use, err := c.Use(devices, itself)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var all fabric.VerbsUse
		for task, v := range use.ByProcess {
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
		if len(use.ByProcess) != 2 || use.Unowned != 1 || !reflect.DeepEqual(all, want) {
			t.Errorf("%s: %d threads, %d unowned, %+v, want 2, 1, %+v", name, len(use.ByProcess), use.Unowned, all, want)
		}
		if n := c.Requests(); n["res_ctx_get"]+n["res_pd_get"]+n["res_mr_get"]+n["res_cq_get"] != 4 {
			t.Errorf("%s: requests %v, want one of each kind", name, n)
		}
	}
}

// Nothing is better than a part: a process without queue pairs would seem to use none.
func TestUseRefused(t *testing.T) {
	for _, cmd := range []command{cmdPDGet, cmdMRGet, cmdCQGet} {
		use, err := using(t, cmd).Use([]Device{{Name: "rxe0"}}, itself)
		if !errors.Is(err, unix.EINVAL) || use.ByProcess != nil {
			t.Errorf("%v refused: %+v, %v", cmd, use, err)
		}
	}
}

func allKinds() []resourceKind {
	return []resourceKind{kindOf(cmdCtxGet), kindOf(cmdPDGet), kindOf(cmdMRGet), kindOf(cmdCQGet)}
}

// itself takes each thread for a process of its own.
func itself(task int) int { return task }

// tables is a kernel that lists these many objects of a kind, one in a message, and none of others.
func tables(kind resourceKind, n int, attributes func(i int) []byte) *Client {
	done := netlink.Message{Header: netlink.Header{Type: 3, Flags: 2}, Data: make([]byte, 4)} // NLMSG_DONE
	return client(func(requests []netlink.Message) ([]netlink.Message, error) {
		if command(requests[0].Header.Type&(1<<clientShift-1)) != kind.command {
			return answer(done)(requests)
		}
		var messages []netlink.Message
		for i := range n {
			messages = append(messages, netlink.Message{
				Header: netlink.Header{Type: kind.command.header(), Flags: 2}, // NLM_F_MULTI
				Data:   put(nil, kind.table, put(nil, kind.entry, attributes(i))),
			})
		}
		return answer(append(messages, done)...)(requests)
	})
}

// Threads of others, however many, hide none that are asked about. Objects of the kernel and of no process
// cost nothing.
func TestUseOfMany(t *testing.T) {
	devices := []Device{{Name: "mlx5_0"}}
	use, err := tables(kindOf(cmdPDGet), 3, func(i int) []byte {
		return [][]byte{put(nil, attrResKernName, "ib_core"), nil, put(nil, attrResPID, uint32(0xffffffff))}[i]
	}).Use(devices, itself)
	if err != nil || len(use.ByProcess) != 0 || use.Unowned != 2 {
		t.Errorf("%+v, %v, want 2 unowned", use, err)
	}
	const threads = 20_000 // once, 4,096 made all use unknown
	use, err = tables(kindOf(cmdCtxGet), threads, func(i int) []byte { return put(nil, attrResPID, uint32(i+1)) }).Use(devices, func(task int) int {
		if task > threads-2 {
			return 7
		}
		return 0
	})
	if v := use.ByProcess[7]; err != nil || len(use.ByProcess) != 1 || v == nil || !slices.Equal(v.Devices, []string{"mlx5_0"}) {
		t.Errorf("%+v, %v", use, err)
	}
}

// More memory regions than the kernel lists in time leave contexts and queue pairs as they are; their own
// number is not known. More contexts are an error.
func TestUseTooLong(t *testing.T) {
	for cmd, want := range map[command]error{cmdMRGet: nil, cmdPDGet: nil, cmdCtxGet: netlink.ErrTooLong, cmdCQGet: netlink.ErrTooLong} {
		synctest.Test(t, func(t *testing.T) {
			use, err := tables(kindOf(cmd), 3000, func(int) []byte { return put(nil, attrResPID, uint32(9)) }).Use([]Device{{Name: "mlx5_0"}}, func(task int) int {
				time.Sleep(time.Millisecond)
				return task
			})
			if !errors.Is(err, want) || want == nil && (!use.Partial || use.ByProcess[9].Regions != -1 || use.ByProcess[9].PDs != -1) {
				t.Errorf("%v: %+v, %v", cmd, use, err)
			}
		})
	}
}
