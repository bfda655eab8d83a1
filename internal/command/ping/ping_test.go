// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/logging"
	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/internal/site"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/pinger"
	"gpufabric_exporter/rdmaping/verbs"
	"gpufabric_exporter/rdmaping/verbs/verbstest"
)

// inProcess is a worker in this process.
type inProcess struct{ *verbs.Server }

func (w inProcess) Call(ctx context.Context, request []byte) ([]byte, error) {
	return w.Handle(ctx, request)
}

func (w inProcess) Close() error { w.Server.Close(); return nil }

func startInProcess(context.Context, string, *slog.Logger) (pinger.Worker, error) {
	return inProcess{verbs.NewServer()}, nil
}

// network is two nodes with the devices mlx5_0 and mlx5_1 each, over two copies of a stand-in.
type network struct {
	*testing.T
	here, there string // libraries
	peer        string // that answers
	port        string // state, MTU and link layer of all devices; empty: as they are
	timeout     string
	stop        func()
	paths       []string // flags
}

// healthy is the flags for a node with eight ports.
func healthy(t *testing.T) []string { return simulated(t, "healthy") }

func simulated(t *testing.T, scenario string) []string {
	t.Helper()
	s, err := simulator.Find(scenario)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := s.Build().Materialise(commandtest.Memory(t))
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs()}
}

var built = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "verbs") })

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code) //nolint:forbidigo // the main of tests
}

func line(start pinger.Start) command.Line {
	s, log := &site.Site{}, new(logging.Flags)
	return command.Line{
		Groups:   []command.Group{log, &s.Devices, &s.Paths, &s.Recorded, &s.Config},
		Commands: []*command.Command{New(s, log, start)},
	}
}

// connect has one node answer.
func connect(t *testing.T) *network {
	t.Helper()
	return connectAs(t, "")
}

// connectAs has one node answer whose devices are of some kind, with what is planted in both nodes.
func connectAs(t *testing.T, port string, faults ...string) *network {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	n := &network{T: t, paths: healthy(t), port: port, timeout: "2s"}
	for i, to := range []*string{&n.here, &n.there} {
		*to = filepath.Join(dir, strconv.Itoa(i), verbstest.Library)
		if _, err := os.Stat(*to); err == nil { // the loader keeps it
			continue
		}
		if err := os.MkdirAll(filepath.Dir(*to), 0o700); err != nil {
			t.Fatal(err)
		}
		verbstest.Build(t, filepath.Dir(*to))
	}
	n.plant(faults...)
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan int)
	go func() {
		ended <- line(startInProcess).Run(ctx, append([]string{"ping", "--answer=127.0.0.1:0", "--library=" + n.there}, n.paths...), in, in)
		in.Close()
	}()
	said := new(strings.Builder)
	buffer := make([]byte, 4096)
	address := regexp.MustCompile(`http://(\S+)/rdma-ping\.json`)
	for n.peer == "" {
		k, err := out.Read(buffer)
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		said.Write(buffer[:k])
		if m := address.FindStringSubmatch(said.String()); m != nil {
			n.peer = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if code := <-ended; code != command.OK {
			t.Errorf("the answering node ends with %d: %s", code, said)
		}
	})
	t.Cleanup(n.stop)
	return n
}

// plant describes the devices of both nodes, of which the one has faults.
func (n *network) plant(faults ...string) {
	for i, library := range []string{n.here, n.there} {
		lines := append([]string{}, faults...)
		for k := range 8 {
			lines = append(lines, fmt.Sprintf("device mlx5_%d 127.0.%d.%d %s", k, i, k+2, n.port))
		}
		verbstest.Describe(n, library, lines...)
	}
}

// ping returns the exit code, and what was printed.
func (n *network) ping(args ...string) (int, string) {
	var out commandtest.Output
	words := append([]string{"ping", "--interval=100ms", "--timeout=" + n.timeout}, append(n.paths, args...)...)
	if n.here != "" {
		words = append(words, "--library="+n.here)
	}
	code := line(startInProcess).Run(n.Context(), words, &out, &out)
	return code, out.String()
}

func TestPing(t *testing.T) {
	n := connect(t)
	code, out := n.ping(n.peer)
	if code != command.OK {
		t.Errorf("exit code %d: %s", code, out)
	}
	t.Log(out)
	commandtest.Contains(t, out, "mlx5_0: GID 3 is ::ffff:127.0.0.2 (RoCE v2), traffic class 106 (NCCL_IB_TC", "MTU 4096", "to mlx5_0 of "+n.peer,
		"Times are by the clock of this host: mlx5_0 has none", "64 bytes seq=5 time=", "5 sent, 5 answered, 0.0 % lost", "loopback: 5 sent, 5 answered", "path MTU 4096: 3 of 3")
	code, out = n.ping(n.peer, "--device=mlx5_1", "--count=1", "--size=4096", "--tclass=96")
	if code != command.OK {
		t.Errorf("exit code %d: %s", code, out)
	}
	commandtest.Contains(t, out, "mlx5_1: GID 3", "traffic class 96 (--tclass)", "to mlx5_1 of", "4096 bytes seq=1", "1 sent, 1 answered")
	commandtest.Lacks(t, out, "path MTU")
	n.paths = simulated(t, "ofed-traffic-class")
	for flag, want := range map[string]string{
		"--size=64":   "mlx5_4: GID 3 is ::ffff:127.0.0.6 (RoCE v2), traffic class 0 (MLNX_OFED, for the whole port)",
		"--tclass=96": "traffic class 96 (--tclass)",
	} {
		if code, out = n.ping(n.peer, "--device=mlx5_4", "--count=1", flag); code != command.OK {
			t.Errorf("exit code %d: %s", code, out)
		}
		commandtest.Contains(t, out, want)
	}
}

func TestWhyNotOf(t *testing.T) {
	v4, v6 := rdmaping.GID{10: 0xff, 11: 0xff, 12: 10}, rdmaping.GID{0: 0xfd}
	eth := func(g rdmaping.GID) rdmaping.Endpoint {
		return rdmaping.Endpoint{Device: "a", Link: rdmaping.Ethernet, GID: g}
	}
	roce := func(version int) rdmaping.Endpoint {
		return rdmaping.Endpoint{Device: "a", Link: rdmaping.Ethernet, GID: v4, RoCE: version}
	}
	ib := func(pkey uint16) rdmaping.Endpoint {
		return rdmaping.Endpoint{Device: "a", Link: rdmaping.InfiniBand, PKey: pkey}
	}
	for _, c := range []struct {
		own, peer rdmaping.Endpoint
		want      string
	}{
		{eth(v4), eth(v4), ""},
		{eth(v4), eth(v6), "an IPv4 address, and that of the peer's a is an IPv6 address"},
		{roce(1), roce(2), "the GID of a is for RoCE v1, and that of the peer's a for RoCE v2"},
		{roce(1), roce(1), ""},
		{roce(1), roce(0), ""},
		{eth(v4), ib(0xffff), "Ethernet here, and a of the peer is InfiniBand"},
		{ib(0xffff), ib(0x7fff), ""},
		{ib(0x7fff), ib(0x7fff), "both are limited members"},
		{ib(0x8001), ib(0x8002), "P_Key 0x8001 here, 0x8002 of the peer"},
	} {
		if got := whyNot(c.own, c.peer); got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, expected %q", got, c.want)
		}
	}
}

func TestPair(t *testing.T) {
	own := func(device string, rail int) pinger.Own {
		return pinger.Own{Open: rdmaping.Open{Device: device}, Rail: rail}
	}
	peer := func(device string, rail byte) rdmaping.Endpoint {
		return rdmaping.Endpoint{Device: device, Rail: int(rail), GID: rdmaping.GID{15: rail + 1}}
	}
	rails := []pinger.Own{own("mlx5_0", 0), own("mlx5_1", 1)}
	for _, c := range []struct {
		rails    []pinger.Own
		peers    []rdmaping.Endpoint
		gid      byte
		from, to string
	}{
		{rails, []rdmaping.Endpoint{peer("mlx5_1", 0), peer("mlx5_2", 1)}, 0, "mlx5_1", "mlx5_1"},
		{rails, []rdmaping.Endpoint{peer("mlx5_0", 0), peer("mlx5_1", 1)}, 2, "mlx5_1", "mlx5_1"},
		{rails[1:], []rdmaping.Endpoint{peer("rdma0", 0), peer("rdma1", 1)}, 0, "mlx5_1", "rdma1"},
		{rails, []rdmaping.Endpoint{peer("rdma0", 0), peer("rdma1", 1)}, 2, "mlx5_1", "rdma1"},
		{rails[1:], []rdmaping.Endpoint{peer("rdma0", 0)}, 0, "mlx5_1", "rdma0"},
	} {
		if from, to, err := pair(c.rails, c.peers, rdmaping.GID{15: c.gid}); err != nil || from.Device != c.from || to.Device != c.to {
			t.Errorf("%+v: from %s to %s, %v", c, from.Device, to.Device, err)
		}
	}
	unknown := rdmaping.GID{10: 0xff, 11: 0xff, 12: 10, 15: 9}
	if _, to, err := pair(rails, []rdmaping.Endpoint{peer("mlx5_0", 0)}, unknown); err == nil || !strings.Contains(err.Error(), "mlx5_0 ::1") {
		t.Errorf("to %s, %v", to.Device, err)
	}
}

func TestTarget(t *testing.T) {
	for peer, want := range map[string]string{
		"node7": "node7:10792", "node7:99": "node7:99", "10.0.0.1": "10.0.0.1:10792", "[fd00::1]:5": "[fd00::1]:5",
		"::ffff:10.0.0.1": "10.0.0.1:10792", "fd00::1": "[fd00::1]:10792", "0000:0000:0000:0000:0000:ffff:0a00:0001": "10.0.0.1:10792",
		"[::ffff:10.0.0.1]:99": "10.0.0.1:99",
	} {
		p := pinging{peer: peer}
		got, gid := p.target()
		if got != want || (gid != rdmaping.GID{}) != (strings.Count(peer, ":") > 1) {
			t.Errorf("%s: %s, %s", peer, got, gid)
		}
	}
}
