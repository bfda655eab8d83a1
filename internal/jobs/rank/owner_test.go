// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/jobs/owned"
)

const (
	podUID    = "8d5aa0b6-2f4e-4d7c-9e0a-0123456789ab"
	container = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	victim    = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210" // a container of another tenant
)

// Of a control group, the outermost pod, container or job of Slurm is the owner; what users may make below is
// no more than a name.
func TestCgroup(t *testing.T) {
	under := strings.ReplaceAll(podUID, "-", "_")
	pod := fabric.Workload{Scheduler: "kubernetes", Job: podUID, Pod: podUID, ContainerID: container}
	ofPod := fabric.Owner{Kind: "pod", ID: podUID}
	docker := fabric.Workload{Scheduler: "container", Job: container[:12], ContainerID: container}
	ofDocker := fabric.Owner{Kind: "container", ID: container}
	slurm := func(id string) fabric.Workload { return fabric.Workload{Scheduler: "slurm", Job: id} }
	ofSlurm := func(id string) fabric.Owner { return fabric.Owner{Kind: "job", ID: id} }
	named := func(name string) fabric.Owner { return fabric.Owner{Kind: "container", ID: name} }
	none, nobody := fabric.Workload{Scheduler: "none"}, fabric.Owner{}
	rootless := docker
	rootless.Stated = true
	inPod := fabric.Workload{Scheduler: "slurm", Job: "3", Pod: podUID, Stated: true}
	for name, c := range map[string]struct {
		text  string
		want  fabric.Workload
		owner fabric.Owner
	}{
		"Slurm, version 2":                 {"0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0\n", slurm("123"), ofSlurm("123")},
		"Slurm, several slurmd":            {"0::/system.slice/node1_slurmstepd.scope/job_7/step_batch\n", slurm("7"), ofSlurm("7")},
		"Slurm, version 1":                 {"12:memory:/slurm/uid_1000/job_99/step_1\n5:freezer:/slurm_n1/uid_1000/job_99\n0::/\n", slurm("99"), ofSlurm("99")},
		"Slurm, adopted login":             {"12:memory:/slurm/uid_1000/job_99/step_extern\n1:name=systemd:/user.slice/user-1000.slice/session-3.scope\n", slurm("99"), ofSlurm("99")},
		"not of Slurm":                     {"0::/user.slice/job_5\n", none, nobody},
		"no number":                        {"0::/system.slice/slurmstepd.scope/job_x1/step_0\n", none, nobody},
		"pod, systemd":                     {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under + ".slice/cri-containerd-" + container + ".scope\n", pod, ofPod},
		"pod, guaranteed, crio":            {"0::/kubepods.slice/kubepods-pod" + under + ".slice/crio-" + container + ".scope/container\n", pod, ofPod},
		"pod, cgroupfs, version 1":         {"4:cpu:/kubepods/besteffort/pod" + podUID + "/" + container + "\n", pod, ofPod},
		"pod, namespaced path":             {"0::/../../kubepods-pod" + under + ".slice/cri-containerd-" + container + ".scope\n", pod, ofPod},
		"pod, cgroupfs, namespaced path":   {"0::/../../../burstable/pod" + podUID + "/" + container + "\n", pod, ofPod},
		"pod, cgroupfs, guaranteed, as is": {"0::/../../../pod" + podUID + "/" + container + "\n", pod, ofPod},
		"pod of podman":                    {"0::/machine.slice/machine-libpod_pod_" + container + ".slice/libpod-" + container + ".scope\n", docker, ofDocker},
		"Slurm in a pod":                   {"0::/kubepods.slice/kubepods-pod" + under + ".slice/x/system.slice/slurmstepd.scope/job_3/step_0\n", inPod, ofPod},
		"docker":                           {"0::/system.slice/docker-" + container + ".scope\n", docker, ofDocker},
		"docker, version 1":                {"3:cpu:/docker/" + container + "\n", docker, ofDocker},
		"docker, cgroupfs in a slice":      {"0::/system.slice:docker:" + container + "\n", docker, ofDocker},
		"containerd, unlike kubelet":       {"0::/system.slice/containerd.service/kubepods-besteffort-pod" + under + ".slice:cri-containerd:" + container + "\n", pod, ofPod},
		"kind, from within":                {"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + under + ".slice/cri-containerd-" + container + ".scope\n", pod, ofPod},
		"kind":                             {"0::/docker/" + container + "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" + under + ".slice/cri-containerd-" + victim + ".scope\n", docker, ofDocker},
		"podman without root":              {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + container + ".scope/container\n", rootless, nobody},
		"LXC":                              {"0::/lxc.payload.alice/system.slice/slurmstepd.scope/job_4242\n", none, named("lxc.payload.alice")},
		"LXC, version 1":                   {"4:memory:/lxc/alice/slurm/uid_0/job_4242\n", none, named("alice")},
		"nspawn":                           {"0::/machine.slice/systemd-nspawn@alice.service/payload/docker/" + victim + "\n", none, named("systemd-nspawn@alice.service")},
		"LSF":                              {"4:memory:/lsf/cluster1/job.123.456.1600000000\n", none, nobody},
		"PBS":                              {"4:memory:/pbs_jobs.service/jobid/123.server\n", none, nobody},
		"Apptainer":                        {"0::/user.slice/user-1000.slice/user@1000.service/user.slice/apptainer-77.scope\n", none, nobody},
		"a login":                          {"0::/user.slice/user-1000.slice/session-3.scope\n", none, nobody},
		"nothing":                          {"", none, nobody},
		"names that lie":                   {"0::/kubepods/pod\"}{x=\"1/evil\x01\n", none, nobody},

		"a user's group named like Slurm":            {"0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_123/step_0\n", none, nobody},
		"a user's group named like a pod":            {"0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod" + podUID + "/x\n", none, nobody},
		"a container's group named like Slurm":       {"0::/system.slice/docker-" + container + ".scope/slurm/job_4242\n", docker, ofDocker},
		"a container's, version 1":                   {"3:cpu:/docker/" + container + "/slurm/uid_0/job_4242\n2:pids:/docker/" + container + "\n", docker, ofDocker},
		"a container's, of one hierarchy":            {"3:cpu:/slurm/uid_0/job_4242\n2:pids:/docker/" + container + "\n", docker, ofDocker},
		"a container's group like another's":         {"0::/system.slice/docker-" + container + ".scope/docker-" + victim + ".scope\n", docker, ofDocker},
		"a container's group like a pod":             {"0::/system.slice/docker-" + container + ".scope/kubepods/pod" + podUID + "/" + victim + "\n", docker, ofDocker},
		"a pod's group like another container":       {"0::/kubepods.slice/kubepods-pod" + under + ".slice/cri-containerd-" + container + ".scope/docker-" + victim + ".scope\n", pod, ofPod},
		"a service's group like a container":         {"0::/system.slice/jupyter-alice.service/docker-" + victim + ".scope\n", fabric.Workload{Scheduler: "container", Job: victim[:12], ContainerID: victim, Stated: true}, nobody},
		"a service's group like Slurm":               {"0::/system.slice/jupyter-alice.service/slurmstepd.scope/job_4242\n", none, nobody},
		"a folder of a user (pam_cgfs)":              {"4:memory:/user/alice/0/slurm/uid_0/job_4242\n", none, nobody},
		"a login's group like Slurm":                 {"0::/user.slice/user-1000.slice/session-3.scope/system.slice/slurmstepd.scope/job_4242\n", none, nobody},
		"a folder above Slurm that is not a slice":   {"0::/some/system.slice/slurmstepd.scope/job_4242\n", none, nobody},
		"a named hierarchy with another container":   {"9:name=mine:/docker/" + victim + "\n3:cpu:/docker/" + container + "\n", none, nobody},
		"the other order":                            {"9:cpu:/docker/" + container + "\n3:name=mine:/docker/" + victim + "\n0::/\n", none, nobody},
		"a container after two that differ":          {"9:cpu:/docker/" + container + "\n3:pids:/docker/" + victim + "\n1:name=systemd:/docker/" + container + "\n", none, nobody},
		"a pod and a container":                      {"9:cpu:/kubepods/pod" + podUID + "/" + container + "\n3:name=mine:/docker/" + victim + "\n", none, nobody},
		"a job after two that differ":                {"9:cpu:/docker/" + container + "\n3:pids:/docker/" + victim + "\n2:memory:/slurm/uid_0/job_7\n", none, nobody},
		"hybrid, docker":                             {"9:cpu:/docker/" + container + "\n1:name=systemd:/docker/" + container + "\n0::/system.slice/containerd.service\n", docker, ofDocker},
		"hybrid, the pod's own group in one of them": {"9:cpu:/kubepods/pod" + podUID + "\n1:name=systemd:/kubepods/pod" + podUID + "/" + container + "\n0::/\n", pod, ofPod},
		"escapes and colons":                         {"0::/a:b/docker\\x2d" + victim + ".scope/docker/" + victim + "\n", fabric.Workload{Scheduler: "container", Job: victim[:12], ContainerID: victim, Stated: true}, nobody},
		"two jobs":                                   {"12:memory:/slurm/uid_1000/job_99\n5:freezer:/slurm/uid_0/job_4242\n4:cpu:/slurm/uid_0/job_4242\n", none, nobody},
	} {
		c.want.Rank = -1
		if got, owner := parseCgroup([]byte(c.text)); got != c.want || owner != c.owner {
			t.Errorf("%s: %+v of %s, want %+v of %s", name, got, owner, c.want, c.owner)
		}
	}
}

// FuzzCgroup: whatever a tenant makes below his own group, the owner stays who he is.
func FuzzCgroup(f *testing.F) {
	above := []string{
		"0::/system.slice/docker-" + container + ".scope", "3:cpu:/docker/" + container, "0::/lxc.payload.alice",
		"0::/kubepods/pod" + podUID, "0::/kubepods.slice/kubepods-pod" + strings.ReplaceAll(podUID, "-", "_") + ".slice/crio-" + container + ".scope",
		"0::/user.slice/user-1000.slice/user@1000.service", "0::/system.slice/slurmstepd.scope/job_7", "0::/system.slice/x.service",
	}
	for i := range above {
		f.Add(byte(i), "/slurm/uid_0/job_4242")
		f.Add(byte(i), "/docker-"+victim+".scope/kubepods/pod"+podUID)
	}
	f.Fuzz(func(t *testing.T, i byte, below string) {
		line := above[int(i)%len(above)]
		_, want := parseCgroup([]byte(line + "\n"))
		below = strings.ReplaceAll(below, "\n", "_") // which the kernel refuses
		w, owner := parseCgroup([]byte(line + "/" + below + "\n"))
		if owner != want {
			t.Errorf("%s/%s is of %s, want %s", line, below, owner, want)
		}
		if strings.ContainsAny(w.Job+w.Pod+w.ContainerID+owner.ID, "\n\"\\{} ") || len(owner.ID) > 64 {
			t.Errorf("%+v of %s", w, owner)
		}
		unifiedCgroup([]byte(line + "/" + below + "\n"))
	})
}

// FuzzMounts: what is asked about a file system is answered from the text alone, and no type is local that
// nobody knows.
func FuzzMounts(f *testing.F) {
	f.Add([]byte("21 1 0:20 / / rw - overlay overlay rw\n22 21 0:21 / /etc rw - fuse.sshfs host: rw\n"), "22")
	f.Add([]byte("pos:\t0\nflags:\t02\nmnt_id:\t29\n"), "29")
	f.Fuzz(func(t *testing.T, b []byte, id string) {
		types, err := parseMounts(bytes.NewReader(b))
		for at, kind := range types {
			if !isMountOfInterest(at) || isLocal(kind) && strings.HasPrefix(kind, "fuse") {
				t.Errorf("%q is %q", at, kind)
			}
		}
		if err == nil && types["/"] == "" {
			t.Error("no root")
		}
		if kind, err := mountType(bytes.NewReader(b), id); err == nil && strings.Contains(kind, " ") {
			t.Errorf("type %q", kind)
		}
		if id, err := parseMountID(bytes.NewReader(b)); err == nil && strings.Contains(id, "\n") {
			t.Errorf("mount %q", id)
		}
	})
}

// FuzzMaps: paths are a tenant's; none leaves the package as it is.
func FuzzMaps(f *testing.F) {
	f.Add([]byte(map1 + "/dev/shm/nccl-a\n" + map1 + "/x/libnccl-net.so (deleted)\n" + map1 + "/opt/libnccl.so.2.27.3"))
	f.Add([]byte(map1 + "/a\\012b/tcpxo/libnccl-net-\".so\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		const planted = "planted_SECRET"
		m, err := parseMaps(bytes.NewReader(append(bytes.Clone(b), "\n"+map1+"/home/"+planted+"/data\n"+map1+"/dev/shm/nccl-"+planted...)))
		if err != nil {
			t.Fatal(err)
		}
		if out := fmt.Sprint(m); strings.ContainsAny(out, "\n\"\\\x1b") || strings.Contains(out, planted) || len(m.Plugins) > maxPlugins || len(m.NCCL) > 256 {
			t.Errorf("%q", out)
		}
	})
}

// FuzzLogName: a pattern matches what NCCL makes of it, and costs little whatever it is.
func FuzzLogName(f *testing.F) {
	f.Add("nccl.%h.%p.log", "gpu-7", uint32(4242))
	f.Add(strings.Repeat("%h", 127), "x", uint32(1))
	f.Fuzz(func(t *testing.T, pattern, host string, pid uint32) {
		if host == "" || strings.Contains(host+pattern, "/") || pid == 0 || pid > 1<<22 {
			return
		}
		var made strings.Builder // ncclDebugInit of src/debug.cc
		for i := 0; i < len(pattern); i++ {
			if pattern[i] != '%' || i+1 == len(pattern) {
				made.WriteByte(pattern[i])
				continue
			}
			i++
			switch pattern[i] {
			case 'h':
				made.WriteString(host)
			case 'p':
				fmt.Fprint(&made, pid)
			case '%':
				made.WriteByte('%')
			default:
				made.WriteString(pattern[i-1 : i+1])
			}
		}
		name := made.String()
		if is := logName(pattern); name != "" && len(name) <= maxLogName && len(pattern) <= maxLogName && (!is(name) || !is(name+" (deleted)")) {
			t.Errorf("%q is not %q", name, pattern)
		}
	})
}

// The name of a log that a user chooses costs next to nothing: as an expression, 127 times %h took seconds
// for the descriptors of one process.
func TestLogNameCost(t *testing.T) {
	for _, pattern := range []string{strings.Repeat("%h", 127), strings.Repeat("%h%p", 63), strings.Repeat("%p", 127), strings.Repeat("%ha", 85)} {
		before := cpu()
		is, name := logName(pattern), strings.Repeat("1", 254)+"\n"
		for range maxFiles {
			is(name)
		}
		if took := cpu() - before; took > time.Second/2 {
			t.Errorf("%.12s...: %v for %d names", pattern, took, maxFiles)
		}
	}
}

// ofUser are the attributes of a process of a user, with what it needs for a /dev of its own.
func ofUser(id uint32) *syscall.SysProcAttr {
	attr := inDev()
	attr.Credential = &syscall.Credential{Uid: id, Gid: id}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_MKNOD, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER}
	return attr
}

// Reads that hang, of as many users as there are, leave others what is theirs: once, four hung reads blinded
// the reader. What a user waits for in vain is waited for once, he is named, and what was known of him stays.
func TestHangingUsers(t *testing.T) {
	needRoot(t)
	end := make(chan struct{})
	defer close(end)
	from := sources()
	from.Log = func([]byte, []byte, int64) fabric.NCCLLog { <-end; return fabric.NCCLLog{} }
	const hanging = 3
	for i := range hanging {
		p := fmt.Sprintf("/tmp/gpufabric-test-%d-%d.log", os.Getpid(), i)
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(p)
		for range 2 {
			spawn(t, ofUser(uint32(2000+i)), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0 "+p, "NCCL_DEBUG_FILE="+p)
		}
	}
	fine := spawn(t, ofUser(3000), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia1", "NCCL_IB_TIMEOUT=22")
	r := reader(t, from)
	now := time.Unix(1e9, 0)
	for i := range 4 {
		began := time.Now()
		reading := look(t, r, noNVML(), now)
		if took := time.Since(began); took > lookPatience+3*patience {
			t.Errorf("look %d took %v", i, took)
		}
		for _, x := range reading.Exceeded {
			if x.Owner == userOwner(3000) || x.Reason != fabric.ReasonStuck {
				t.Errorf("%+v is named", x)
			}
		}
		if len(reading.Exceeded) == 0 {
			t.Error("nobody is named")
		}
		now = now.Add(15 * time.Second)
	}
	again := spawn(t, ofUser(3000), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia1", "NCCL_IB_TIMEOUT=22") // a job that begins later
	reading := look(t, r, noNVML(), now)
	for _, s := range []*spawned{fine, again} {
		if c := of(t, reading, s.Process.Pid); c.Maps.State != fabric.OK || c.Settings.State != fabric.OK || c.Owner != userOwner(3000) {
			t.Errorf("of another user: %+v, %+v", c.Maps, c.Settings)
		}
	}
	if len(reading.Exceeded) != hanging {
		t.Errorf("%+v are named, want %d users", reading.Exceeded, hanging)
	}
}

// A user with many processes that have many descriptors does not keep those of others from being found: once,
// each look examined a dozen of his and nobody else's.
func TestManyProcesses(t *testing.T) {
	needRoot(t)
	const script = `exec 9<&0; i=0; while [ $i -lt 60 ]; do (read x <&9) & i=$((i+1)); done; echo ready; read x`
	spawn(t, ofUser(2000), nil, "OPEN="+strings.Repeat("/dev/null ", 500), "SCRIPT="+script)
	s := spawn(t, ofUser(3000), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0")
	r := reader(t, Sources{})
	now := time.Unix(1e9, 0)
	for i := range 3 { // processes of other programs are as many as they are
		reading, err := r.Look(t.Context(), noNVML(), now)
		if err != nil {
			t.Fatal(err)
		}
		if has(reading, s.Process.Pid) {
			return
		}
		t.Logf("not in look %d of %d processes", i, reading.Processes)
	}
	t.Error("not found")
}

// Processes of a user that do nothing do not keep those of others from being examined again: 30,000 of them
// were examined in four hours.
func TestIdleProcesses(t *testing.T) {
	r := reader(t, Sources{})
	now := time.Unix(1e9, 0)
	for pid := range 30_000 {
		r.known[pid+1] = &process{kind: other, next: now.Add(-time.Hour)}
	}
	const victim, bare = 40_000, 40_001
	r.known[victim] = &process{kind: other, next: now.Add(-time.Minute), share: r.shareOf(userOwner(1000))}
	r.known[bare] = &process{kind: other, next: now.Add(-time.Minute)}
	found := map[int]bool{}
	looks := 0
	for ; !found[victim] || !found[bare]; looks++ {
		r.look++
		for _, pid := range r.due(now, func(int) bool { return false }) {
			found[pid] = true
			r.known[pid].next = now.Add(longest)
		}
		if looks == 0 && !found[victim] {
			t.Fatal("a process with descriptors waits for those without")
		}
	}
	if looks > 16 { // of 15 seconds each
		t.Errorf("examined again in %d looks", looks)
	}
}

// Bounds of an owner: descriptors, threads and network namespaces beyond them are his, and he is named once.
func TestBoundsOfOwner(t *testing.T) {
	r := reader(t, sources())
	r.left, r.filesEach = maxAllFiles, 100
	pid := os.Getpid()
	greedy := &process{share: r.shareOf(userOwner(1001))}
	r.known[pid] = greedy
	greedy.share.files = 99
	if v := r.files(strconv.Itoa(pid), greedy, time.Time{}).Value; v.Complete || v.All > 1 {
		t.Errorf("%d descriptors, complete %t", v.All, v.Complete)
	}
	if v := r.files(strconv.Itoa(pid), &process{share: r.shareOf(userOwner(1002))}, time.Time{}).Value; !v.Complete {
		t.Errorf("of another: %d descriptors", v.All)
	}
	list := []fabric.RankCandidate{{PID: pid, Files: fabric.Known(fabric.OpenFiles{Uverbs: []string{"uverbs0"}}, "fd", time.Time{})}}
	if of, beyond := r.threads(list); of[unix.Gettid()] != pid || beyond[pid] {
		t.Errorf("threads %v, beyond %v", of, beyond)
	}
	greedy.share.threads = threadsEach
	r.samePIDs = true
	if r.addVerbs(list, time.Time{}); list[0].Verbs.Reason != fabric.ReasonMalformed {
		t.Errorf("verbs %+v", list[0].Verbs)
	}
	for range namespacesEach {
		if !r.mayList(pid, 0) {
			t.Error("a network namespace within the bound")
		}
	}
	if r.mayList(pid, 0) {
		t.Error("a network namespace beyond the bound")
	}
	if want := []fabric.Excess{{Owner: userOwner(1001), PID: pid, What: "descriptors", Reason: fabric.ReasonMalformed}}; !slices.Equal(r.exceeded, want) {
		t.Errorf("%+v, want %+v", r.exceeded, want)
	}
}

// A program with a lease on its nccl.conf does not hold up the reader: the kernel would let it wait for 45 seconds.
func TestLease(t *testing.T) {
	name := t.TempDir() + "/nccl.conf"
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const setLease, write = 1024, 1 // F_SETLEASE, F_WRLCK
	if _, err := unix.FcntlInt(f.Fd(), setLease, write); err != nil {
		t.Skipf("no lease on a file here: %v", err)
	}
	signal.Ignore(unix.SIGIO)
	fd, err := unix.Open(name, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	began := time.Now()
	if _, err := readConf(fd); fabric.ReasonOf(err) != fabric.ReasonUnsupported || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// An overlay that a user may have mounted is not asked: FUSE may be below it, and statfs(2) would ask that.
func TestOverlayOfUser(t *testing.T) {
	needRoot(t)
	attr := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWNS | unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: 1001, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: 1001, Size: 1}},
	}
	user, node := spawn(t, attr, nil), spawn(t, inDev(), nil)
	r := reader(t, Sources{})
	if r.mountsOfNode(strconv.Itoa(user.Process.Pid)) || !r.mountsOfNode(strconv.Itoa(node.Process.Pid)) || isLocal(layered) {
		t.Error("mounts of a user are taken for those of the node, or the other way round")
	}
}

// Processes with the subordinate numbers of one user have the bounds of one owner. As owners of their own,
// 256 of them would each come before the second rank of another user.
func TestSubordinateUsers(t *testing.T) {
	needRoot(t)
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(root+"/etc", 0o700), os.WriteFile(root+"/etc/subuid", []byte("eve:100000:65536\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []uint32{100_007, 100_008} {
		spawn(t, ofUser(uid), nil, "OWN_DEV=1", allDevices, "OPEN=/dev/nvidia0")
	}
	s := sources()
	s.Users = owned.UsersOf(root)
	reading := look(t, reader(t, s), noNVML(), time.Unix(1e9, 0))
	owners := map[fabric.Owner]int{}
	for _, c := range reading.Candidates {
		if c.User == 100_007 || c.User == 100_008 {
			owners[c.Owner]++
			if c.Tenant() != c.Owner || !c.UserKnown {
				t.Errorf("tenant %s, user known %t", c.Tenant(), c.UserKnown)
			}
		}
	}
	if owners[userOwner(100_000)] != 2 {
		t.Errorf("owners %v", owners)
	}
	c := fabric.RankCandidate{Owner: fabric.Owner{Kind: fabric.OwnerJob, ID: "7"}, User: 100_007, UserKnown: true, Answers: 100_000}
	if c.Tenant() != userOwner(100_000) {
		t.Errorf("in a job of a scheduler: %s", c.Tenant())
	}
}
