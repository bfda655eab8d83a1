// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/sockdiag"
	"gpufabric_exporter/internal/nccl/settings"
)

const allDevices = "NODES=/dev/nvidia0 /dev/nvidia1 /dev/nvidiactl /dev/nvidia-uvm /dev/infiniband/uverbs0 /dev/infiniband/uverbs1"

func noNVML() fabric.Fact[map[int][]string] {
	return fabric.UnknownFact[map[int][]string](fabric.ReasonMissing, "NVML", time.Time{})
}

func sources() Sources {
	return Sources{
		Variable: settings.Exposed,
		Conf:     settings.ExposedConf,
		Sockets: func(namespace *os.File) (Sockets, error) {
			if namespace == nil {
				return sockdiag.Dial()
			}
			return sockdiag.DialIn(namespace)
		},
		Verbs: func(func(int) int) (map[int]*fabric.VerbsUse, error) { return nil, nil },
	}
}

func reader(t testing.TB, s Sources) *Reader {
	t.Helper()
	r, err := Open("/proc", s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func look(t testing.TB, r *Reader, gpus fabric.Fact[map[int][]string], now time.Time) fabric.RankReading {
	t.Helper()
	for {
		reading, err := r.Look(context.Background(), gpus, now)
		if err != nil {
			t.Fatal(err)
		}
		if reading.Hidden != fabric.ReasonNotRead { // all new processes were examined
			return reading
		}
	}
}

// of returns the candidate with a PID.
func of(t testing.TB, reading fabric.RankReading, pid int) fabric.RankCandidate {
	t.Helper()
	i := slices.IndexFunc(reading.Candidates, func(c fabric.RankCandidate) bool { return c.PID == pid })
	if i < 0 {
		t.Fatalf("PID %d is not among %d candidates", pid, len(reading.Candidates))
	}
	return reading.Candidates[i]
}

func has(reading fabric.RankReading, pid int) bool {
	return slices.ContainsFunc(reading.Candidates, func(c fabric.RankCandidate) bool { return c.PID == pid })
}

// hasSockets reports whether this kernel has sock_diag for TCP.
func hasSockets(t *testing.T) bool {
	t.Helper()
	c, err := sockdiag.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Sockets(func(uint64) bool { return false }, nil)
	if err != nil {
		t.Logf("without sockets: %v", err)
	}
	return err == nil
}

const secret = "hunter2secret"

// A process that looks like a rank over verbs: everything that is asked of it is found, and no secret is.
func TestRank(t *testing.T) {
	needRoot(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	socket, err := conn.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	nccl := t.TempDir() + "/libnccl.so.2.27.3"
	s := spawn(t, inDev(), []*os.File{socket}, "OWN_DEV=1", allDevices,
		"OPEN=/dev/nvidia1 /dev/nvidia0 /dev/nvidia0 /dev/nvidiactl /dev/infiniband/uverbs1",
		"MAP="+nccl+" /dev/shm/nccl-abc /dev/shm/nccl-def /dev/shm/other /dev/plugins/tcpx/libnccl-net.so",
		"NCCL_IB_DISABLE=1", "NCCL_NET=Socket", "NCCL_IB_HCA="+secret, "NCCL_"+secret+"=1", "PASSWORD="+secret,
		"RANK=3", "WORLD_SIZE=16", "SLURM_JOB_ID=4242", "SLURM_JOB_USER=alice", "AWS_SECRET_ACCESS_KEY="+secret)
	r := reader(t, sources())
	var verbs fabric.VerbsUse
	r.sources.Verbs = func(process func(int) int) (map[int]*fabric.VerbsUse, error) {
		if process(s.Process.Pid) != s.Process.Pid || process(1) != 0 {
			t.Errorf("threads of %d and %d", process(s.Process.Pid), process(1))
		}
		return map[int]*fabric.VerbsUse{s.Process.Pid: {Devices: []string{"mlx5_0"}, Contexts: 1}, 1: {Contexts: 7}}, nil
	}
	now := time.Unix(1e9, 0)
	reading := look(t, r, noNVML(), now)
	c := of(t, reading, s.Process.Pid)
	files, _ := c.Files.Get()
	if !slices.Equal(files.GPUs, []int{0, 1}) || !slices.Equal(files.Uverbs, []string{"uverbs1"}) || !files.Complete || len(files.Sockets) == 0 {
		t.Errorf("files %+v", files)
	}
	maps, _ := c.Maps.Get()
	if maps.NCCL != nccl || maps.Version != "2.27.3" || maps.Segments != 2 || !slices.Equal(maps.Plugins, []string{"dev/plugins/tcpx/libnccl-net.so"}) || !slices.Equal(maps.Hints, []string{"tcpx"}) {
		t.Errorf("maps %+v", maps)
	}
	want := []fabric.NCCLVariable{
		{Name: "NCCL_IB_DISABLE", Value: "1", Source: "environ", Number: 1, IsNumber: true},
		{Name: "NCCL_IB_HCA", Value: "set", Source: "environ", Masked: true},
		{Name: "NCCL_NET", Value: "Socket", Source: "environ"},
	}
	if got, _ := c.Settings.Get(); !reflect.DeepEqual(got, want) {
		t.Errorf("settings %+v, want %+v", got, want)
	}
	if w := c.Workload.Value; w.Rank != 3 || w.Ranks != 16 || w.Scheduler == "slurm" && w.Job != "4242" {
		t.Errorf("workload %+v", w)
	}
	if d, ok := c.Devices.Get(); !ok || d != (fabric.ProcessDevices{GPUs: 2, Uverbs: 2}) {
		t.Errorf("devices %+v, %+v", d, c.Devices.Meta())
	}
	if v, _ := c.Limits.Get(); v.Memlock == 0 || v.CPUs == "" {
		t.Errorf("limits %+v", v)
	}
	if !hasSockets(t) {
		if c.Sockets.Reason != fabric.ReasonMissing {
			t.Errorf("sockets %+v of a kernel that lists none", c.Sockets)
		}
	} else if s, ok := c.Sockets.Get(); !ok || len(s) != 1 || s[0].Sent < 4096 || s[0].Remote.Port() != uint16(l.Addr().(*net.TCPAddr).Port) {
		t.Errorf("sockets %+v, %+v", s, c.Sockets.Meta())
	}
	if verbs, _ = c.Verbs.Get(); verbs.Contexts != 1 || !slices.Equal(verbs.Devices, []string{"mlx5_0"}) {
		t.Errorf("verbs %+v", c.Verbs)
	}
	if devs, ok := c.NetDevs.Get(); !ok || !slices.ContainsFunc(devs, func(d fabric.InterfaceUse) bool { return d.Name == "lo" }) {
		t.Errorf("interfaces %+v", c.NetDevs)
	}
	if b, err := json.Marshal(reading); err != nil || strings.Contains(string(b)+fmt.Sprintf("%+v", reading), secret) {
		t.Errorf("the secret is out: %s, %v", b, err)
	}
	// It ends, and so does what is known of it.
	s.input.Close()
	_ = s.Wait()
	if reading = look(t, r, noNVML(), now.Add(time.Second)); has(reading, s.Process.Pid) {
		t.Error("a process that has ended is a candidate")
	}
}

// Forked children inherit GPUs and sockets and are no ranks; what a rank starts anew is looked at on its own;
// a child that NVML lists is a rank.
func TestChildren(t *testing.T) {
	needRoot(t)
	// A shell in parentheses is forked and runs no other program.
	const script = `exec 9<&0; for i in 1 2 3; do (read x <&9) & all="$all $!"; done; echo ready; echo $all; read x`
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0 /dev/nvidia-uvm", "SCRIPT="+script)
	pids := strings.Fields(s.line(t))
	r := reader(t, sources())
	now := time.Unix(1e9, 0)
	reading := look(t, r, noNVML(), now)
	c := of(t, reading, s.Process.Pid)
	for _, text := range pids {
		if pid, _ := strconv.Atoi(text); has(reading, pid) {
			t.Errorf("forked child %d is a candidate", pid)
		}
	}
	if c.Children < len(pids) {
		t.Errorf("%d children, want at least %d", c.Children, len(pids))
	}
	if !c.Files.Value.CUDA {
		t.Errorf("files %+v", c.Files)
	}
	first, _ := strconv.Atoi(pids[0])
	gpus := fabric.Known(map[int][]string{s.Process.Pid: {"GPU-a"}, first: {"GPU-b"}}, "NVML", now)
	reading = look(t, r, gpus, now.Add(time.Second))
	if got, _ := of(t, reading, first).GPUs.Get(); !slices.Equal(got, []string{"GPU-b"}) {
		t.Errorf("a child that NVML lists: GPUs %q", got)
	}
}

// A launcher that only counted the GPUs forks ranks: none of them is taken for its child.
func TestLauncher(t *testing.T) {
	needRoot(t)
	const script = `exec 9<&0; for i in 0 1; do (exec 8<>/dev/nvidia$i 7<>/dev/nvidia-uvm; echo open; read x <&9) & all="$all $!"; done; echo $all; wait`
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "SCRIPT=echo ready; "+script)
	var ranks []string
	for range 3 {
		if line := s.line(t); line != "open" {
			ranks = strings.Fields(line)
		}
	}
	reading := look(t, reader(t, sources()), noNVML(), time.Unix(1e9, 0))
	for _, text := range ranks {
		if pid, _ := strconv.Atoi(text); !has(reading, pid) {
			t.Errorf("rank %d is no candidate", pid)
		}
	}
}

// A process may open its GPU long after it started: it is found when its age has doubled, and at once when
// NVML lists it.
func TestLater(t *testing.T) {
	needRoot(t)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "SCRIPT=echo ready; read x; exec 5<>/dev/nvidia1; echo open; read x")
	r := reader(t, sources())
	start := time.Unix(1e9, 0)
	if has(look(t, r, noNVML(), start), s.Process.Pid) {
		t.Fatal("candidate without a GPU")
	}
	fmt.Fprintln(s.input)
	if line := s.line(t); line != "open" {
		t.Fatal(line)
	}
	found := time.Duration(0)
	for age := time.Duration(0); age < 30*time.Minute && found == 0; age += 15 * time.Second {
		if has(look(t, r, noNVML(), start.Add(age)), s.Process.Pid) {
			found = age
		}
	}
	if found == 0 || found > 15*time.Minute {
		t.Errorf("found at the age of %v", found)
	}
	other := reader(t, sources())
	gpus := fabric.Known(map[int][]string{s.Process.Pid: {"GPU-a"}}, "NVML", start)
	if c := of(t, look(t, other, gpus, start), s.Process.Pid); !slices.Equal(c.Files.Value.GPUs, []int{1}) {
		t.Errorf("%+v", c.Files)
	}
}

// Another process with the PID of a candidate is none.
func TestReuse(t *testing.T) {
	needRoot(t)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0")
	r := reader(t, sources())
	now := time.Unix(1e9, 0)
	if !has(look(t, r, noNVML(), now), s.Process.Pid) {
		t.Fatal("not found")
	}
	r.known[s.Process.Pid].start-- // as if another one had started there before
	reading, err := r.Look(t.Context(), noNVML(), now)
	if err != nil || has(reading, s.Process.Pid) {
		t.Error("the reading is taken for one of the same process")
	}
	if reading = look(t, r, noNVML(), now); !has(reading, s.Process.Pid) {
		t.Error("the new process is not found")
	}
}

// What the RDMA core does not list is not known to be none, unless no device is open.
func TestVerbsUnknown(t *testing.T) {
	files := fabric.Known(fabric.OpenFiles{Complete: true}, "", time.Time{})
	open := fabric.Known(fabric.OpenFiles{Complete: true, Uverbs: []string{"uverbs0"}}, "", time.Time{})
	part := fabric.Known(fabric.OpenFiles{}, "", time.Time{})
	denied := fabric.UnknownFact[fabric.OpenFiles](fabric.ReasonPrivilege, "", time.Time{})
	r := reader(t, sources())
	for name, c := range map[string]struct {
		files  fabric.Fact[fabric.OpenFiles]
		state  fabric.State
		reason fabric.Reason
	}{
		"no device open":      {files, fabric.OK, ""},
		"a device open":       {open, fabric.Unknown, fabric.ReasonMissing},
		"not all descriptors": {part, fabric.Unknown, fabric.ReasonMissing},
		"none readable":       {denied, fabric.Unknown, fabric.ReasonPrivilege},
	} {
		list := []fabric.RankCandidate{{PID: math.MaxInt32, Files: c.files}}
		r.samePIDs = true
		r.addVerbs(list, time.Time{})
		if v := list[0].Verbs; v.State != c.state || v.Reason != c.reason {
			t.Errorf("%s: %v %s", name, v.State, v.Reason)
		}
		r.samePIDs = false // IDs of threads are those of another PID namespace
		r.addVerbs(list, time.Time{})
		if v := list[0].Verbs; v.State != fabric.Unknown || v.Reason != fabric.ReasonPrivilege {
			t.Errorf("%s, other PID namespace: %v %s", name, v.State, v.Reason)
		}
	}
}

// A socket that two candidates have is of the one with verbs, else of the oldest.
func TestSocketOwners(t *testing.T) {
	c := func(start uint64, uverbs []string, inodes ...uint64) fabric.RankCandidate {
		return fabric.RankCandidate{Start: start, Files: fabric.Known(fabric.OpenFiles{Sockets: inodes, Uverbs: uverbs}, "", time.Time{})}
	}
	got := socketOwners([]fabric.RankCandidate{c(10, nil, 1, 2, 3), c(5, nil, 2, 3), c(20, []string{"uverbs0"}, 3, 4)})
	if want := map[uint64]int{1: 0, 2: 1, 3: 2, 4: 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("owners %v, want %v", got, want)
	}
}

// With more ranks than one look reads everything about, the others have it at the next look, and until then
// nothing that could be taken for an answer.
func TestManyCandidates(t *testing.T) {
	needRoot(t)
	const script = `exec 9<&0; i=0; while [ $i -lt 40 ]; do (read x <&9) & i=$((i+1)); done; echo ready; read x`
	spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "SCRIPT="+script)
	r := reader(t, sources())
	now := time.Unix(1e9, 0)
	var read []int
	for len(read) == 0 || read[len(read)-1] < 41 {
		reading, err := r.Look(t.Context(), noNVML(), now)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, c := range reading.Candidates {
			switch {
			case c.Limits.State == fabric.OK:
				n++
			case c.Maps.State != fabric.Unknown || c.Settings.State != fabric.Unknown || c.Devices.State != fabric.Unknown:
				t.Errorf("not read, and known: %+v", c)
			}
		}
		if len(read) > 0 && n > read[len(read)-1]+maxRead {
			t.Errorf("%d candidates were read, %d at the look before", n, read[len(read)-1])
		}
		if read = append(read, n); len(read) > 50 {
			t.Fatalf("read at each look: %d", read)
		}
	}
}

// What a bound leaves out is named as alive, with its owner, and the error beside the list names him: what a
// look does not name has ended. So it is with a candidate that procfs gives another inode, and that waits to
// be examined again.
func TestLeft(t *testing.T) {
	needRoot(t)
	const children = maxCandidates + 44
	script := fmt.Sprintf(`exec 9<&0; i=0; while [ $i -lt %d ]; do (read x <&9) & i=$((i+1)); done; echo ready; read x`, children)
	spawn(t, ofUser(2000), nil, "OWN_DEV=1", allDevices, "OPEN="+strings.Repeat("/dev/null ", 100)+"/dev/nvidia0", "SCRIPT="+script)
	r := reader(t, sources())
	now := time.Unix(1e9, 0)
	starts := map[int]uint64{}
	for pid, c := range alive(t, look(t, r, noNVML(), now), userOwner(2000), now) {
		starts[pid] = c.Start
	}
	if len(starts) != children+1 {
		t.Fatalf("%d of %d processes", len(starts), children+1)
	}
	for pid := range starts {
		r.known[pid].inode++ // as procfs does when memory is short
	}
	reading, err := r.Look(t.Context(), noNVML(), now)
	if err != nil || reading.Hidden != fabric.ReasonNotRead {
		t.Fatalf("%v, hidden %q: nothing waits", err, reading.Hidden)
	}
	again := alive(t, reading, userOwner(2000), now)
	for pid, start := range starts {
		if again[pid].Start != start {
			t.Errorf("PID %d is taken for one that has ended", pid)
		}
	}
	if _, partial := errors.AsType[*fabric.PartialError](incomplete(&reading)); !partial {
		t.Errorf("%v beside a list", incomplete(&reading))
	}
	reading = look(t, r, noNVML(), now)
	if i := slices.IndexFunc(reading.Exceeded, func(x fabric.Excess) bool { return x.Owner == userOwner(2000) && x.What == "processes with GPUs" }); i < 0 {
		t.Errorf("%+v are named", reading.Exceeded)
	}
}

// alive are the candidates of an owner, read or left out, by PID.
func alive(t *testing.T, reading fabric.RankReading, owner fabric.Owner, now time.Time) map[int]fabric.RankCandidate {
	t.Helper()
	of := map[int]fabric.RankCandidate{}
	read := 0
	for _, c := range reading.Candidates {
		if !c.Left {
			read++
		}
		if c.Owner != owner {
			continue
		}
		if _, twice := of[c.PID]; twice || c.Start == 0 || !c.At.Equal(now) || c.User != 2000 || !c.UserKnown || c.NetNS.State != fabric.OK {
			t.Errorf("%+v, twice: %t", c, twice)
		}
		of[c.PID] = c
	}
	if read > maxCandidates {
		t.Errorf("%d were read", read)
	}
	return of
}

// Many descriptors: those beyond the bound make the answer incomplete, never an error.
func TestManyFiles(t *testing.T) {
	r := reader(t, sources())
	r.left, r.filesEach = maxAllFiles, maxAllFiles
	pid := os.Getpid()
	fact := r.files(strconv.Itoa(pid), &process{share: &share{}}, time.Time{})
	before, ok := fact.Get()
	if !ok || !before.Complete {
		t.Fatalf("%+v", fact)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < maxFiles+100 {
		t.Skipf("only %d descriptors are allowed", limit.Cur)
	}
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	for range maxFiles + 10 {
		fd, err := unix.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	after, ok := r.files(strconv.Itoa(pid), &process{share: &share{}}, time.Time{}).Get()
	if !ok || after.Complete || after.All > maxFiles {
		t.Errorf("%d of %d descriptors, complete %t", after.All, len(fds), after.Complete)
	}
}

// A descriptor that was closed and another one that was opened under its number between two looks is seen
// after listAge looks. Until then none is read again.
func TestReusedDescriptor(t *testing.T) {
	needRoot(t)
	script := `exec 8<>/dev/null; echo ready; read x; exec 8<>/dev/infiniband/uverbs0; echo ready; read x`
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN="+strings.Repeat("/dev/nvidia0 ", 256), "SCRIPT="+script)
	r := reader(t, Sources{})
	now := time.Unix(1e9, 0)
	next := func() (fabric.OpenFiles, int) {
		t.Helper()
		now = now.Add(time.Second)
		c := of(t, look(t, r, noNVML(), now), s.Process.Pid)
		v, ok := c.Files.Get()
		if !ok || !v.Complete || !slices.Equal(v.GPUs, []int{0}) {
			t.Fatalf("%+v", c.Files)
		}
		return v, r.calls
	}
	if v, _ := next(); len(v.Uverbs) > 0 {
		t.Fatalf("%+v", v)
	}
	cheap := 0
	for i := 0; i < 1000 && cheap != listAge-1; i++ { // calls for processes of other programs count too, for minutes if other tests run beside this one
		if i > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		cheap = 0
		for range listAge {
			if v, calls := next(); len(v.Uverbs) > 0 {
				t.Fatalf("%+v", v)
			} else if calls < v.All {
				cheap++
			}
		}
	}
	if cheap != listAge-1 {
		t.Errorf("%d of %d looks read no descriptors that were known", cheap, listAge)
	}
	if _, err := io.WriteString(s.input, "\n"); err != nil {
		t.Fatal(err)
	}
	s.line(t)
	for n := 1; ; n++ {
		if v, _ := next(); slices.Equal(v.Uverbs, []string{"uverbs0"}) {
			break
		}
		if n == listAge {
			t.Fatalf("not seen after %d looks", n)
		}
	}
}

// TestInterfacesAfterAnEnd: of two ranks in a network namespace, the one that is read first has just ended.
func TestInterfacesAfterAnEnd(t *testing.T) {
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	ns := fabric.Known(uint64(1), "ns/net", time.Time{})
	list := []fabric.RankCandidate{{PID: ended.Process.Pid, NetNS: ns}, {PID: os.Getpid(), NetNS: ns}, {PID: ended.Process.Pid, NetNS: ns}}
	reader(t, sources()).addInterfaces(list, time.Time{})
	if first, second := list[0].NetDevs, list[1].NetDevs; first.Reason != fabric.ReasonGone || second.State != fabric.OK || list[2].NetDevs.State != fabric.OK {
		t.Errorf("%+v, %+v, %+v", first, second, list[2].NetDevs)
	}
}
