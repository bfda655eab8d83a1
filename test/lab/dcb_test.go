// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/dcbnl"
)

// What the package dcbnl reads is what the dcb tool shows, before and after each setting is changed.
func testDCB(t *testing.T, _ *exporter) {
	ports, err := kernelPorts()
	if err != nil {
		t.Fatal(err)
	}
	netdevs := 0
	for _, p := range ports {
		if strings.HasPrefix(p.Netdev, "hca") {
			netdevs++
			agreesWithDCB(t, p.Netdev)
		}
	}
	if netdevs == 0 {
		t.Fatal("no interface with DCB")
	}
	set(t, "/sys/kernel/debug/fakehca/0/tx_prio3_pause", "6")
	set(t, "/sys/kernel/debug/fakehca/0/rx_prio4_pause", "18446744073709551615")
	for _, c := range []struct{ do, undo string }{
		{"pfc set dev hca0 delay 32767 prio-pfc all:off 4:on 5:on", "pfc set dev hca0 delay 0 prio-pfc all:off 3:on"},
		{"app replace dev hca0 dscp-prio 48:6 0:0 63:7", "app flush dev hca0; app replace dev hca0 dscp-prio 26:3"},
		{
			"app replace dev hca0 ethtype-prio 0x8915:3 stream-port-prio 80:0 dgram-port-prio 4791:3 port-prio 65535:7 default-prio 1",
			"app flush dev hca0; app replace dev hca0 dscp-prio 26:3",
		},
		{"buffer set dev hca0 prio-buffer all:0 3:7 buffer-size all:0 0:100000 7:262144", "buffer set dev hca0 prio-buffer 0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7 buffer-size all:0"},
		{
			"ets set dev hca0 willing on prio-tc all:0 3:7 7:3 tc-tsa all:strict 0:ets 3:ets 4:cbs 7:vendor tc-bw all:0 0:60 3:30 7:10",
			"ets set dev hca0 willing off prio-tc 0:0 1:1 2:2 3:3 4:4 5:5 6:6 7:7 tc-tsa all:strict tc-bw all:0",
		},
		{"dcbx set dev hca0 lld-managed cee ieee static", "dcbx set dev hca0 host ieee"},
	} {
		old := fmt.Sprint(readDCB(t, "hca0"))
		t.Cleanup(func() { setDCB(t, c.undo) })
		setDCB(t, c.do)
		agreesWithDCB(t, "hca0")
		if now := fmt.Sprint(readDCB(t, "hca0")); now == old {
			t.Errorf("dcb %s: nothing changes: %s", c.do, now)
		}
	}
	t.Run("without", testWithoutDCB)
	t.Run("cee", testCEE)
	t.Run("calls", testDCBCalls)
}

func testWithoutDCB(t *testing.T) {
	for _, netdev := range []string{"lo", "rdma0", "eth0"} {
		if read("/sys/class/net", netdev, "mtu") == "" {
			continue
		}
		if out, err := exec.Command("dcb", "pfc", "show", "dev", netdev).CombinedOutput(); err == nil {
			t.Errorf("%s has DCB: %s", netdev, out)
		}
		q := readDCB(t, netdev)
		for _, m := range []fabric.Meta{q.PFC.Meta(), q.ETS.Meta(), q.Apps.Meta(), q.Buffers.Meta(), q.DCBX.Meta()} {
			if m.State != fabric.Unknown || m.Reason != fabric.ReasonUnsupported {
				t.Errorf("%s: %+v", netdev, m)
			}
		}
	}
	c := dialDCB(t)
	var q fabric.QoS
	if err := c.Read("hca99", &q, time.Now()); !errors.Is(err, syscall.ENODEV) || q.PFC.Reason != fabric.ReasonGone {
		t.Errorf("no such interface: %v, %+v", err, q.PFC)
	}
}

// A driver that uses CEE has its PFC there, and the rest is unknown instead of zero.
func testCEE(t *testing.T) {
	t.Cleanup(func() { setDCB(t, "dcbx set dev hca1 host ieee") })
	setDCB(t, "dcbx set dev hca1 host cee")
	q := readDCB(t, "hca1")
	pfc, ok := q.PFC.Get()
	if !ok || pfc != (fabric.PFC{Enabled: 1 << 3}) || q.PFC.Source != "DCB_ATTR_CEE_PFC" {
		t.Errorf("%+v", q.PFC)
	}
	if q.ETS.Meta().Reason != fabric.ReasonUnsupported || q.Apps.State != fabric.OK || q.Buffers.State != fabric.OK {
		t.Errorf("%+v", q)
	}
	if mode, ok := q.DCBX.Get(); !ok || mode != (fabric.DCBX{Host: true, CEE: true}) {
		t.Errorf("%+v", q.DCBX)
	}
}

// One reading asks the driver for each thing once: ETS, maximum rates, PFC, buffers.
func testDCBCalls(t *testing.T) {
	calls := func() int {
		n, err := strconv.Atoi(read("/sys/kernel/debug/fakehca/0/calls_dcb"))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	c := dialDCB(t)
	var q fabric.QoS
	before := calls()
	for range 5 {
		if err := c.Read("hca0", &q, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if n, asked := calls()-before, c.Commands()[fabric.CommandDCB]; n != 20 || asked != 5 {
		t.Errorf("5 readings ask the driver %d times with %d questions, want 20 with 5", n, asked)
	}
}

// setDCB runs dcb commands that may run twice: "app replace" and not "app add".
func setDCB(t *testing.T, lines string) {
	t.Helper()
	for line := range strings.SplitSeq(lines, "; ") {
		if out, err := twice(func() ([]byte, error) { return exec.Command("dcb", strings.Fields(line)...).CombinedOutput() }); err != nil {
			t.Fatalf("dcb %s: %v\n%s", line, err, out)
		}
	}
}

// twice runs a dcb command a second time when it fails: it numbers its messages by the second, and takes the end of
// its first answer for a broken second one when the second has changed in between.
func twice[T any](f func() (T, error)) (T, error) {
	v, err := f()
	if err != nil {
		v, err = f()
	}
	return v, err
}

func dialDCB(t *testing.T) *dcbnl.Client {
	t.Helper()
	c, err := dcbnl.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// readDCB reads an interface as root and as the user nobody, who must see the same.
func readDCB(t *testing.T, netdev string) fabric.QoS {
	t.Helper()
	read := func(q *fabric.QoS) error {
		c, err := dcbnl.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Read(netdev, q, time.Time{})
	}
	var root, nobody fabric.QoS
	if err := read(&root); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread, which is of the user nobody now, ends with this goroutine
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			failed <- errno
			return
		}
		failed <- read(&nobody)
	}()
	if err := <-failed; err != nil {
		t.Fatalf("as nobody: %v", err)
	}
	if a, b := fmt.Sprint(root), fmt.Sprint(nobody); a != b {
		t.Errorf("%s: root sees %s, nobody %s", netdev, a, b)
	}
	return root
}

// agreesWithDCB compares the facts of an interface with what the dcb tool says about it.
func agreesWithDCB(t *testing.T, netdev string) {
	t.Helper()
	q := readDCB(t, netdev)
	same(t, netdev, "pfc", shownPFC(q.PFC.Value))
	same(t, netdev, "ets", shownETS(q.ETS.Value))
	same(t, netdev, "app", shownApps(q.Apps.Value))
	same(t, netdev, "buffer", map[string]any{
		"prio_buffer": q.Buffers.Value.OfPriority, "buffer_size": q.Buffers.Value.Bytes, "total_size": q.Buffers.Value.Total,
	})
	same(t, netdev, "dcbx", shownDCBX(q.DCBX.Value))
	for _, m := range []fabric.Meta{q.PFC.Meta(), q.ETS.Meta(), q.Apps.Meta(), q.Buffers.Meta(), q.DCBX.Meta()} {
		if m.State != fabric.OK {
			t.Errorf("%s: %+v", netdev, m)
		}
	}
}

// same compares an object with `dcb -j -s OBJECT show`, without what is not read.
func same(t *testing.T, netdev, object string, got map[string]any) {
	t.Helper()
	want, err := twice(func() (map[string]json.RawMessage, error) {
		var v map[string]json.RawMessage
		err := answer(&v, "dcb", "-j", "-s", object, "show", "dev", netdev)
		return v, err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, ignored := range []string{"macsec_bypass", "cbs", "pg_bw", "reco_tc_bw", "reco_tc_tsa", "reco_prio_tc"} {
		delete(want, ignored)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("%s %s:\n%s, dcb says\n%s", netdev, object, a, b)
	}
}

func shownPFC(v fabric.PFC) map[string]any {
	var enabled [fabric.NumPriorities]bool
	for p := range enabled {
		enabled[p] = v.Enabled.Has(p)
	}
	return map[string]any{"pfc_cap": v.Classes, "delay": v.Delay, "prio_pfc": enabled, "requests": v.Sent, "indications": v.Received}
}

func shownETS(v fabric.ETS) map[string]any {
	names := map[fabric.TSA]string{fabric.TSAStrict: "strict", fabric.TSACBS: "cbs", fabric.TSAETS: "ets", fabric.TSAVendor: "vendor"}
	var algorithms [fabric.NumPriorities]string
	for i, a := range v.Algorithm {
		algorithms[i] = names[a]
	}
	return map[string]any{"willing": v.Willing, "ets_cap": v.Classes, "tc_bw": v.Bandwidth, "tc_tsa": algorithms, "prio_tc": v.PriorityClass}
}

func shownApps(apps []fabric.App) map[string]any {
	names := map[fabric.AppSelector]string{
		fabric.AppEtherType: "ethtype_prio", fabric.AppTCP: "stream_port_prio", fabric.AppUDP: "dgram_port_prio",
		fabric.AppAny: "port_prio", fabric.AppDSCP: "dscp_prio", fabric.AppPCP: "pcp_prio",
	}
	shown := map[string]any{}
	for _, a := range apps {
		if a.Selector == fabric.AppEtherType && a.Protocol == 0 {
			list, _ := shown["default_prio"].([]int)
			shown["default_prio"] = append(list, a.Priority)
			continue
		}
		list, _ := shown[names[a.Selector]].([][2]int)
		shown[names[a.Selector]] = append(list, [2]int{a.Protocol, a.Priority})
	}
	return shown
}

func shownDCBX(v fabric.DCBX) map[string]any {
	shown := map[string]any{}
	for name, set := range map[string]bool{"host": v.Host, "lld_managed": v.LLDManaged, "cee": v.CEE, "ieee": v.IEEE, "static": v.StaticModes} {
		if set {
			shown[name] = true
		}
	}
	return shown
}
