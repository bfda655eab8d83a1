// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

// What a tenant puts in the place of devices is not counted, followed out of its root, or waited for.
func TestHostileDevices(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		env  []string
		want fabric.ProcessDevices
		ok   bool
	}{
		"FIFOs":               {[]string{"FIFO=/dev/nvidia7 /dev/nvidia8", "NODES=/dev/nvidia0 /dev/nvidia00000 /dev/nvidiax"}, fabric.ProcessDevices{GPUs: 1}, true},
		"a link out":          {[]string{"LINK=/dev/infiniband /proc/1/root/dev", "NODES=/dev/nvidia0"}, fabric.ProcessDevices{}, false},
		"a link to a file":    {[]string{"LINK=/dev/infiniband /dev/null", "NODES=/dev/nvidia0"}, fabric.ProcessDevices{}, false},
		"a link around":       {[]string{"LINK=/dev/infiniband /dev/infiniband", "NODES=/dev/nvidia0"}, fabric.ProcessDevices{}, false},
		"a link to another":   {[]string{"LINK=/dev/infiniband other", "NODES=/dev/nvidia0 /dev/other/uverbs3"}, fabric.ProcessDevices{GPUs: 1, Uverbs: 1}, true},
		"a link without goal": {[]string{"LINK=/dev/infiniband nowhere", "NODES=/dev/nvidia0"}, fabric.ProcessDevices{GPUs: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := spawn(t, inDev(), nil, append(c.env, "OWN_DEV=1", "OPEN=/dev/nvidia0")...)
			r := reader(t, Sources{})
			d := of(t, look(t, r, noNVML(), time.Unix(1e9, 0)), s.Process.Pid).Devices
			if v, ok := d.Get(); ok != c.ok || v != c.want {
				t.Errorf("%+v, %s", d, d.Reason)
			}
		})
	}
}

// nccl.conf is read as NCCL of the process reads it, and only that: nothing is opened that is no regular
// file, nothing outside of its root, and nothing of another file system behind a link.
func TestConf(t *testing.T) {
	needRoot(t)
	outside := t.TempDir() + "/outside.conf"
	if err := os.WriteFile(outside, []byte("NCCL_IB_TIMEOUT=21\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		script string // in /etc of its own
		want   string // of Conf
	}{
		"none":             {"", "ok"},
		"a file":           {"printf 'NCCL_IB_TIMEOUT=22\\nNCCL_IB_HCA=" + secret + "\\nPASSWORD=" + secret + "\\nNCCL_" + secret + "=1\\nNCCL_IB_TIMEOUT=23' >/etc/nccl.conf", "ok NCCL_IB_HCA=set NCCL_IB_TIMEOUT=22"},
		"a link":           {"echo NCCL_IB_TIMEOUT=22 >/etc/real; ln -s real /etc/nccl.conf", "unknown unsupported"}, // /etc is a mount, which a link may not leave or enter
		"a mounted file":   {": >/etc/nccl.conf; echo NCCL_DEBUG=INFO >/etc/x; mount --bind /etc/x /etc/nccl.conf", "ok NCCL_DEBUG=INFO"},
		"a FIFO":           {"mkfifo /etc/nccl.conf", "unknown malformed"},
		"a device":         {"mknod /etc/nccl.conf c 10 130", "unknown malformed"}, // to open a watchdog starts it
		"a folder":         {"mkdir /etc/nccl.conf", "unknown malformed"},
		"a link to itself": {"ln -s nccl.conf /etc/nccl.conf", "unknown unsupported"},
		"a link out":       {"ln -s /proc/1/root" + outside + " /etc/nccl.conf", "unknown unsupported"},
		"too large":        {"head -c 70000 /dev/zero >/etc/nccl.conf", "unknown malformed"},
		"of the kernel":    {": >/etc/nccl.conf; mount -t proc proc /tmp && mount --bind /tmp/version /etc/nccl.conf", "unknown unsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			script := "set -e; mount -t tmpfs tmpfs /etc; mknod -m 666 /dev/zero c 1 5;" + c.script + "\necho ready; read x"
			s := spawn(t, inDev(), nil, "PATH="+os.Getenv("PATH"), "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "SCRIPT="+script)
			f := of(t, look(t, reader(t, sources()), noNVML(), time.Unix(1e9, 0)), s.Process.Pid).Conf
			words := []string{f.State.String()}
			if f.Reason != "" {
				words = append(words, string(f.Reason))
			}
			for _, v := range f.Value {
				words = append(words, v.Name+"="+v.Value)
			}
			if got := strings.Join(words, " "); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// What is closed while a read of files that hang is left behind is closed when that has returned.
func TestClosedWhileAReadHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		r := &Reader{dir: dir, stuck: &gate{}}
		end := make(chan bool)
		for i := range 2 {
			v := &visit{r: r, ctx: t.Context(), owner: userOwner(uint64(i))}
			attempt(v, "maps", func() (int, error) { <-end; return 1, nil })
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := dir.Stat(); err != nil {
			t.Errorf("closed while it is read: %v", err)
		}
		end <- true
		synctest.Wait()
		if _, err := dir.Stat(); err != nil {
			t.Errorf("closed while another one reads it: %v", err)
		}
		end <- true
		synctest.Wait()
		if _, err := dir.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("it is open for ever: %v", err)
		}
	})
}

// What never returns costs one fact of its owner, and one goroutine however often it is tried. Others are
// read, however many owners there are, those that NVML lists at last.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Reader{stuck: &gate{}}
		end := make(chan bool)
		var started atomic.Int32
		hang := func() (int, error) { started.Add(1); <-end; return 1, nil }
		fine := func() (int, error) { return 7, nil }
		visitOf := func(user int, listed bool) *visit {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			return &visit{r: r, ctx: ctx, owner: userOwner(uint64(user)), listed: listed}
		}
		for i := range 3 * maxStuck {
			if f := attempt(visitOf(i%(maxStuck/4), false), "maps", hang); f.State != fabric.Unknown || f.Reason != fabric.ReasonStuck {
				t.Errorf("%+v", f)
			}
		}
		if started.Load() != maxStuck/4 || len(r.stuck.of) == 0 {
			t.Errorf("%d reads were left behind, want %d", started.Load(), maxStuck/4)
		}
		if f := attempt(visitOf(maxStuck, false), "maps", fine); f.Value != 7 {
			t.Errorf("of another owner: %+v", f)
		}
		for i := range maxStuck { // more than anybody has users
			attempt(visitOf(1000+i, false), "maps", hang)
		}
		if f := attempt(visitOf(maxStuck, true), "maps", fine); f.Value != 7 {
			t.Errorf("of a process that NVML lists: %+v", f)
		}
		close(end)
		synctest.Wait()
		if f := attempt(visitOf(0, false), "maps", fine); f.Value != 7 || f.State != fabric.OK || len(r.stuck.of) > 0 {
			t.Errorf("afterwards: %+v", f)
		}
		v := visitOf(0, false)
		ctx, cancel := context.WithCancel(v.ctx)
		cancel()
		v.ctx = ctx
		if f := attempt(v, "maps", func() (int, error) { time.Sleep(time.Second); return 0, nil }); f.Reason != fabric.ReasonTimeout {
			t.Errorf("given up: %+v", f)
		}
		time.Sleep(2 * time.Second) // what was given up ends
		for err, want := range map[error]fabric.Reason{unix.ESRCH: fabric.ReasonGone, unix.EACCES: fabric.ReasonPrivilege, errors.New("x"): fabric.ReasonIO} {
			if f := attempt(visitOf(0, false), "maps", func() (int, error) { return 0, err }); f.Reason != want {
				t.Errorf("%v is %s, want %s", err, f.Reason, want)
			}
		}
	})
}

// Environments may be megabytes of anything.
func TestHugeEnvironment(t *testing.T) {
	needRoot(t)
	env := []string{"OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "NCCL_IB_TIMEOUT=22"}
	for i := range 10 {
		env = append(env, "BULK"+string(rune('A'+i))+"="+strings.Repeat("\xff\x01\n\"", 25<<10)+secret)
	}
	s := spawn(t, inDev(), nil, env...)
	c := of(t, look(t, reader(t, sources()), noNVML(), time.Unix(1e9, 0)), s.Process.Pid)
	if v, ok := c.Settings.Get(); !ok || len(v) != 1 || v[0].Name != "NCCL_IB_TIMEOUT" || v[0].Value != "22" {
		t.Errorf("%+v", c.Settings)
	}
}

// A memory map that is as long as a user can make it costs a look no more than other processes do. It took
// 0.7 seconds of processor time.
func TestHugeMap(t *testing.T) {
	needRoot(t)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "MAPS="+t.TempDir())
	r := reader(t, sources())
	before := cpu()
	c := of(t, look(t, r, noNVML(), time.Unix(1e9, 0)), s.Process.Pid)
	took := cpu() - before
	t.Logf("the look took %v of processor time", took)
	if c.Maps.Reason != fabric.ReasonTimeout || took > 10*fileTime {
		t.Errorf("%v of processor time, memory map %s (%s)", took, c.Maps.State, c.Maps.Reason)
	}
	if c.Limits.State != fabric.OK || c.Settings.State != fabric.OK {
		t.Errorf("what else is known of it: %+v, %+v", c.Limits, c.Settings)
	}
}

// Files that have the names of GPUs do not use up what a look reads: processes that the driver lists come first.
func TestDecoys(t *testing.T) {
	needRoot(t)
	const script = `exec 9<&0; i=0; while [ $i -lt 40 ]; do (read x <&9) & i=$((i+1)); done; echo ready; read x`
	spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "SCRIPT="+script)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0")
	now, r := time.Unix(1e9, 0), reader(t, Sources{})
	var reading fabric.RankReading
	for len(reading.Candidates) <= 40 { // a look examines so many new processes
		reading = look(t, r, fabric.Known(map[int][]string{s.Process.Pid: {"GPU-a"}}, "NVML", now), now)
	}
	if c := of(t, reading, s.Process.Pid); reading.Candidates[0].PID != s.Process.Pid || c.Maps.State != fabric.OK {
		t.Errorf("the first of %d candidates is PID %d: %+v", len(reading.Candidates), reading.Candidates[0].PID, c.Maps)
	}
}

// A process that renames itself with each scrape stays one job.
func TestRenamed(t *testing.T) {
	needRoot(t)
	s := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0", "MAP=/dev/shm/nccl-abc",
		"SCRIPT=printf one >/proc/$$/comm; echo ready; read x; printf two >/proc/$$/comm; echo renamed; read x")
	r := reader(t, Sources{})
	now := time.Unix(1e9, 0)
	first := of(t, look(t, r, noNVML(), now), s.Process.Pid)
	if _, err := s.input.Write([]byte("\n")); err != nil || s.line(t) != "renamed" {
		t.Fatal(err)
	}
	c := of(t, look(t, r, noNVML(), now.Add(15*time.Second)), s.Process.Pid)
	if first.Workload.Value.Scheduler != "none" {
		t.Skip("the test runs in a container, whose ID is the name of the job")
	}
	if first.Workload.Value.Job != "one" || c.Workload.Value.Job != "one" || c.Command != "two" {
		t.Errorf("%+v, %+v, %s", first.Workload, c.Workload, c.Command)
	}
}

// A log is read by the descriptor that the process keeps open for it, and nothing else is: neither a FIFO,
// nor what lies at the path, nor more than its beginning and its end. Its name does not leave the package.
func TestLog(t *testing.T) {
	needRoot(t)
	const line = "gpu-7:4242:4300 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0\n"
	dir := t.TempDir()
	write := func(name string, head string, size int64, tail string) string {
		t.Helper()
		p := dir + "/" + name
		if err := os.WriteFile(p, []byte(head), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(p, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(tail), size); err != nil {
			t.Fatal(err)
		}
		return p
	}
	const gigabyte = 1 << 30
	plainLog, huge := write("nccl."+secret+".4242.log", "", 0, line), write("huge.log", line, gigabyte, line)
	link := dir + "/link.log"
	if err := os.Symlink(plainLog, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env, open string
		want      string
	}{
		"none":                  {"X=1", "", "absent"},
		"expanded":              {"NCCL_DEBUG_FILE=" + dir + "/nccl.%h.%p.log", plainLog, "ok 78 0 0"},
		"huge":                  {"NCCL_DEBUG_FILE=" + dir + "/huge.log", huge, fmt.Sprintf("ok %d %d %d", logHead, logTail, gigabyte+len(line)-logHead-logTail)},
		"not open":              {"NCCL_DEBUG_FILE=" + plainLog, "", "unknown missing"},
		"a link is not its end": {"NCCL_DEBUG_FILE=" + link, plainLog, "unknown missing"},
		"FIFO":                  {"NCCL_DEBUG_FILE=" + dir + "/fifo", dir + "/fifo", "unknown malformed"},
		"procfs":                {"NCCL_DEBUG_FILE=/proc/self/environ", "/proc/thread-self/attr/current", "unknown missing"},
		"device":                {"NCCL_DEBUG_FILE=/dev/nvidia1", "/dev/nvidia1", "unknown malformed"},
		"not UTF-8":             {"NCCL_DEBUG_FILE=\xff%", "", "unknown missing"},
	} {
		t.Run(name, func(t *testing.T) {
			env := []string{"OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0 " + c.open, c.env}
			if name == "FIFO" {
				env = append(env, "FIFO="+c.open)
			}
			s := spawn(t, inDev(), nil, env...)
			from := sources()
			var read string
			from.Log = func(head, tail []byte, dropped int64) fabric.NCCLLog {
				read = fmt.Sprintf("ok %d %d %d", len(head), len(tail), dropped)
				return fabric.NCCLLog{Verbs: strings.Contains(string(head)+string(tail), "NET/IB")}
			}
			reading := look(t, reader(t, from), noNVML(), time.Unix(1e9, 0))
			got := of(t, reading, s.Process.Pid).Log
			said := strings.TrimSpace(got.State.String() + " " + string(got.Reason))
			if got.State == fabric.OK {
				said = read
			}
			if said != c.want || got.State == fabric.OK != got.Value.Verbs {
				t.Errorf("%q, want %q: %+v", said, c.want, got)
			}
			if text := fmt.Sprintf("%+v", reading); strings.Contains(text, secret) || strings.Contains(text, "4242.log") {
				t.Error("the name of the log is out")
			}
		})
	}
}

// The type of the file system of a log is known before the file system is asked: FUSE and those of servers are not.
func TestLogOfRemote(t *testing.T) {
	const mounts = "21 1 0:20 / / rw - overlay overlay rw\n22 21 0:21 / /logs rw - fuse.sshfs host: rw\n229 21 0:22 / /home rw - nfs4 server:/home rw\n"
	for id, want := range map[string]bool{"21": true, "22": false, "229": false, "2": false, "": false, "7": false} {
		kind, err := mountType(strings.NewReader(mounts), id)
		if isLocal(kind) != want || err == nil == (kind == "") {
			t.Errorf("mount %q: %q, %v", id, kind, err)
		}
	}
}

// Names of logs are expanded as NCCL does, and no pattern of a user is one for us.
func TestLogName(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"nccl.%h.%p.log", "nccl.gpu-7.4242.log", true},
		{"nccl.%h.%p.log", "nccl.gpu-7.x.log", false},
		{"nccl.%h.%p.log", "nccl.gpu-7.4242.log (deleted)", true},
		{"100%%", "100%", true},
		{"a%xb%", "a%xb%", true},
		{".*", "secret", false},
		{"[", "[", true},
	} {
		if got := logName(c.pattern)(c.name); got != c.want {
			t.Errorf("%q is %q: %t", c.pattern, c.name, got)
		}
	}
}

// Sockets of candidates whose descriptors cannot be read are those of their control group, in this network
// namespace only.
func TestSocketsOfCgroup(t *testing.T) {
	list := []fabric.Socket{{Inode: 1, Cgroup: 70}, {Inode: 2, Cgroup: 71}, {Inode: 3, Cgroup: 72}}
	r := reader(t, Sources{Sockets: func(*os.File) (Sockets, error) { return fakeSockets(list), nil }})
	denied := fabric.UnknownFact[fabric.OpenFiles](fabric.ReasonPrivilege, "fd", time.Time{})
	hidden := fabric.UnknownFact[uint64](fabric.ReasonPrivilege, "ns/net", time.Time{})
	all := []fabric.RankCandidate{
		{PID: 1, Files: denied, NetNS: hidden},
		{PID: 2, Files: denied, NetNS: fabric.Known(r.ownNamespace()+1, "ns/net", time.Time{})}, // in another one
		{PID: 3, Files: denied, NetNS: hidden},                                                  // has no group of its own
		{PID: 4, NetNS: hidden, Files: fabric.Known(fabric.OpenFiles{}, "fd", time.Time{})},
		{PID: 5, Files: denied, NetNS: hidden}, // has no sockets here
	}
	for pid, id := range map[int]uint64{1: 70, 2: 71, 3: 0, 4: 72, 5: 99} {
		r.known[pid] = &process{details: &details{cgroup: id}, share: &share{}}
	}
	r.addSocketsByCgroup(all, time.Time{})
	for _, c := range all {
		if mine := c.PID == 1; c.SocketsByCgroup != mine || (c.Sockets.State == fabric.OK) != mine || mine && (len(c.Sockets.Value) != 1 || c.Sockets.Value[0].Inode != 1) {
			t.Errorf("PID %d: %t, %+v", c.PID, c.SocketsByCgroup, c.Sockets)
		}
	}
}

type fakeSockets []fabric.Socket

func (fakeSockets) Close() error { return nil }

func (f fakeSockets) Sockets(wanted func(uint64) bool, groups map[uint64]bool) (list []fabric.Socket, _ error) {
	for _, s := range f {
		if wanted(s.Inode) || groups[s.Cgroup] {
			list = append(list, s)
		}
	}
	return list, nil
}

func (f fakeSockets) InGroup(group uint64, wanted func(uint64) bool) ([]fabric.Socket, error) {
	return f.Sockets(func(uint64) bool { return false }, map[uint64]bool{group: true})
}

// crowdedSockets takes too long for all, as where a tenant has made millions.
type crowdedSockets struct {
	fakeSockets
	asked *int
}

func (c crowdedSockets) Sockets(func(uint64) bool, map[uint64]bool) ([]fabric.Socket, error) {
	*c.asked++
	return nil, netlink.ErrTooLong
}

// Where one tenant has more sockets than the kernel lists in time, those of others are found by their control group.
func TestCrowd(t *testing.T) {
	asked := 0
	var at []int // looks that ask for the list
	r := reader(t, Sources{Sockets: func(*os.File) (Sockets, error) {
		return crowdedSockets{fakeSockets{{Inode: 1, Cgroup: 70}, {Inode: 2, Cgroup: 70}, {Inode: 3, Cgroup: 71}}, &asked}, nil
	}})
	own := fabric.Known(r.ownNamespace(), "ns/net", time.Time{})
	holds := func(inode uint64) fabric.Fact[fabric.OpenFiles] {
		return fabric.Known(fabric.OpenFiles{Sockets: []uint64{inode}, Complete: true}, "fd", time.Time{})
	}
	for pid, id := range map[int]uint64{1: 70, 2: 70, 3: 0} {
		r.known[pid] = &process{details: &details{cgroup: id}, share: &share{}}
	}
	for range 60 {
		r.look++
		r.exceeded = nil
		before := asked
		list := []fabric.RankCandidate{{PID: 1, NetNS: own, Files: holds(1)}, {PID: 2, NetNS: own, Files: holds(2)}, {PID: 3, NetNS: own, Files: holds(3)}}
		r.addSockets(list, time.Time{})
		for i, c := range list[:2] {
			if s, ok := c.Sockets.Get(); !ok || len(s) != 1 || s[0].Inode != uint64(i+1) || !c.SocketsByCgroup {
				t.Errorf("PID %d: %+v", c.PID, c.Sockets)
			}
		}
		if list[2].Sockets.Reason != fabric.ReasonTimeout || len(r.exceeded) != 1 {
			t.Errorf("without a group: %+v, named %+v", list[2].Sockets, r.exceeded)
		}
		if asked > before {
			at = append(at, r.look)
		}
	}
	if want := []int{1, 3, 7, 15, 31, 51}; !slices.Equal(at, want) { // the first time, this machine may have been busy
		t.Errorf("the list that takes too long was asked for in looks %v, want %v", at, want)
	}
}

func TestUnifiedCgroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/slurmstepd.scope/job_7/step_0\n": "system.slice/slurmstepd.scope/job_7/step_0",
		"4:memory:/slurm/job_7\n0::/kubepods.slice/podx\n": "kubepods.slice/podx",
		"0::/\n": "", "0::/../../kubepods/podx\n": "", "": "", "4:memory:/slurm\n": "", "0::relative\n": "", "0::/a/..\n": "",
	} {
		if got := unifiedCgroup([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Where the driver says nothing, one owner's many processes do not use up what a look reads: each owner gets a turn.
func TestTurns(t *testing.T) {
	r := &Reader{known: map[int]*process{}, shares: map[fabric.Owner]*share{}}
	var pids []int
	for pid := 1; pid <= 2*maxCandidates; pid++ { // decoys, older than all others
		r.known[pid] = &process{start: uint64(pid), share: r.shareOf(userOwner(1001))}
		pids = append(pids, pid)
	}
	for pid := 5000; pid < 5008; pid++ {
		r.known[pid] = &process{start: uint64(pid), share: r.shareOf(userOwner(1002))}
		pids = append(pids, pid)
	}
	r.order(pids, nil)
	for pid := 5000; pid < 5008; pid++ {
		if i := slices.Index(pids, pid); i >= 16 {
			t.Errorf("PID %d is number %d", pid, i)
		}
	}
	r.order(pids, map[int][]string{77: {"GPU-a"}})
	if pids[0] != 77 {
		t.Errorf("PID %d is the first, not that which the driver lists", pids[0])
	}
	if kept, beyond := r.bounded(pids, nil); len(kept) != maxCandidates || !slices.Contains(kept, 5007) || len(beyond) != len(pids)-maxCandidates {
		t.Errorf("%d candidates, %d beyond the bound", len(kept), len(beyond))
	}
	if want := []fabric.Excess{{Owner: userOwner(1001), PID: r.exceeded[0].PID, What: "processes with GPUs", Reason: fabric.ReasonMalformed}}; !slices.Equal(r.exceeded, want) {
		t.Errorf("%+v exceed, want %+v", r.exceeded, want)
	}
}

func TestPorts(t *testing.T) {
	for text, want := range map[string]uint16{"32768\t60999\n": 32768, "1024 65535": 1024, "1\t65535\n": 1024, "": 0, "x y": 0, "70000 1": 0, "1": 0} {
		if got := parsePorts([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// What hangs in the files of one job leaves the rest of the look alone, and is not waited for again and again.
func TestHangingFiles(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	var started atomic.Int32
	end := make(chan struct{})
	defer close(end)
	from := sources()
	from.Log = func([]byte, []byte, int64) fabric.NCCLLog {
		started.Add(1)
		<-end
		return fabric.NCCLLog{}
	}
	var hanging []*spawned
	for i := range 3 {
		p := fmt.Sprintf("%s/%d.log", dir, i)
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		hanging = append(hanging, spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0 "+p, "NCCL_DEBUG_FILE="+p, "SLURM_JOB_ID=1"))
	}
	fine := spawn(t, inDev(), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia1", "NCCL_IB_TIMEOUT=22")
	r := reader(t, from)
	began := time.Now()
	for n := range 4 { // the last ones find it under way
		reading := look(t, r, noNVML(), time.Unix(1e9, 0).Add(time.Duration(n)*time.Minute))
		for _, s := range hanging {
			if c := of(t, reading, s.Process.Pid); c.Log.Reason != fabric.ReasonStuck || c.Files.State != fabric.OK || c.Sockets.Reason == fabric.ReasonStuck {
				t.Errorf("look %d: %+v", n, c)
			}
		}
		if c := of(t, reading, fine.Process.Pid); c.Files.State != fabric.OK || c.NetDevs.State != fabric.OK { // the rest is of the same user
			t.Errorf("look %d: %+v, %+v", n, c.Files, c.NetDevs)
		}
	}
	if n := started.Load(); n > 1 {
		t.Errorf("%d reads were left behind", n)
	}
	t.Logf("4 looks took %v, %d reads were left behind", time.Since(began), started.Load())
}
