// SPDX-License-Identifier: Apache-2.0

package rank

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/settings"
)

// environ joins strings as the kernel shows them.
func environ(vars ...string) string { return strings.Join(vars, "\x00") + "\x00" }

func TestEnvironment(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	text := environ("NCCL_IB_DISABLE=1", "NCCL_IB_DISABLE=0", "HOME=/root", "NCCL_DEBUG=info", "NCCL_DEBUG_FILE="+secret, "X="+long,
		"NCCL_IB_HCA="+long, "NCCL_UNHEARD_OF="+secret, "NCCL_IB_TC=106"+secret, "RANK=7", "RANK=9", "WORLD_SIZE=64", "PMI_RANK=99999999999999",
		"SLURM_JOB_USER=bob", "noequals", "=", "SLURM_JOB_ID=55", strings.Repeat("N", 70000)+"=1") + "NCCL_NET_GDR_LEVEL=PXB"
	want := []fabric.NCCLVariable{
		{Name: "NCCL_DEBUG", Value: "info", Source: "environ"},
		{Name: "NCCL_DEBUG_FILE", Value: "set", Source: "environ", Masked: true},
		{Name: "NCCL_IB_DISABLE", Value: "1", Source: "environ", Number: 1, IsNumber: true},
		{Name: "NCCL_IB_HCA", Value: "set", Source: "environ", Masked: true},
		{Name: "NCCL_IB_TC", Value: "set", Source: "environ", Masked: true},
		{Name: "NCCL_NET_GDR_LEVEL", Value: "PXB", Source: "environ"},
	}
	for name, read := range map[string]*bytes.Reader{"at once": bytes.NewReader([]byte(text)), "by bytes": bytes.NewReader([]byte(text))} {
		var e environment
		var err error
		if name == "by bytes" {
			e, err = scan(iotest.OneByteReader(read), settings.Exposed)
		} else {
			e, err = scan(read, settings.Exposed)
		}
		if err != nil || !reflect.DeepEqual(e.settings, want) {
			t.Errorf("%s: %v\n%+v, want\n%+v", name, err, e.settings, want)
		}
		w := e.complete(fabric.Workload{Scheduler: "none"})
		if w != (fabric.Workload{Scheduler: "slurm", Job: "55", Stated: true, Rank: 7, Ranks: 64}) {
			t.Errorf("%s: %+v", name, w)
		}
		// What control groups say comes first.
		if w := e.complete(fabric.Workload{Scheduler: "kubernetes", Job: podUID}); w.Job != podUID {
			t.Errorf("%s: %+v", name, w)
		}
	}
	if _, err := scan(endless{}, settings.Exposed); fabric.ReasonOf(err) != fabric.ReasonMalformed {
		t.Errorf("an environment without an end: %v", err)
	}
	lie, err := scan(strings.NewReader(environ("RANK=8", "WORLD_SIZE=8", "SLURM_JOB_USER=a\"b", "SLURM_JOB_ID=-1")), nil)
	if w := lie.complete(fabric.Workload{Scheduler: "none"}); err != nil || w != (fabric.Workload{Scheduler: "none", Rank: -1}) {
		t.Errorf("lies: %+v, %v", w, err)
	}
}

// endless is an environment that goes on for ever.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'A'
	}
	return len(b), nil
}

const map1 = "7f0000000000-7f0000001000 r-xp 00000000 08:01 77 "

func TestMaps(t *testing.T) {
	text := strings.Join([]string{
		"555500000000-555500001000 r--p 00000000 08:01 12                         /usr/bin/python3.12",
		map1 + "                        /usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5",
		map1 + "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5",
		map1 + "/opt/libtorch_cuda.so",
		map1 + "/lib/libibverbs.so.1.14.50.0 (deleted)",
		map1 + "/usr/local/gib/lib64/libnccl-net.so",
		map1 + "/opt/amazon/efa/lib/libfabric.so.1.25",
		map1 + "/dev/shm/nccl-AbC (deleted)",
		map1 + "/dev/shm/nccl-AbC (deleted)",
		map1 + "/dev/shm/nccl-xyz",
		map1 + "/tmp/\\012evil\" name/libnccl-net-\"}.so",
		"7ffff0000000-7ffff0001000 rw-p 00000000 00:00 0                          [stack]",
		"7ffff0000000-7ffff0001000 rw-p 00000000 00:00 0 ",
		"nonsense", "", strings.Repeat("y", 200<<10),
	}, "\n")
	got, err := parseMaps(strings.NewReader(text))
	want := fabric.MappedFiles{
		NCCL: "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5", Version: "2.21.5", Torch: true, Verbs: true,
		Plugins: []string{"local/gib/lib64/libnccl-net.so", "tmp/_012evil__name/libnccl-net-__.so"}, Segments: 2, Hints: []string{"fabric", "gib"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v, want\n%+v", err, got, want)
	}
	if _, err := parseMaps(endless{}); fabric.ReasonOf(err) != fabric.ReasonMalformed {
		t.Errorf("a map without an end: %v", err)
	}
	for suffix, want := range map[string]string{".2.27.3": "2.27.3", ".2": "", "": "", ".2.27.x": "", ".2..3": "", ".9999999999.1.1234567": ""} {
		if got := version(suffix); got != want {
			t.Errorf("version of libnccl.so%s is %q, want %q", suffix, got, want)
		}
	}
}

func statText(command string, code, stack uint64) string {
	return fmt.Sprintf("42 (%s) S 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 8192 100 18446744073709551615 %d 9 %d 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 2 3 4 5 6 7 0\n", command, code, stack)
}

func TestStat(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want stat
		ok   bool
	}{
		"python":             {statText("python3", 10, 20), stat{"python3", 7, 777, image{10, 20, 4}}, true},
		"not to be traced":   {statText("python3", 1, 0), stat{"python3", 7, 777, image{}}, true},
		"name with brackets": {statText("a) S 1 (b", 10, 20), stat{"a)_S_1_(b", 7, 777, image{10, 20, 4}}, true},
		"name with newlines": {statText("a\nb\x1b[31m\"", 10, 20), stat{"a_b_[31m_", 7, 777, image{10, 20, 4}}, true},
		"broken off":         {"42 (python3) S 7 42", stat{}, false},
		"empty":              {"", stat{}, false},
		"no end of the name": {"42 (python3", stat{}, false},
		"no number":          {strings.Replace(statText("x", 10, 20), " 777 ", " 7x7 ", 1), stat{}, false},
	} {
		got, ok := parseStat([]byte(c.text))
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v %t, want %+v", name, got, ok, c.want)
		}
	}
}

const devHeader = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"

func TestInterfaces(t *testing.T) {
	got, ok := parseInterfaces([]byte(devHeader + "    lo: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\neth0:1:18446744073709551615 1 0 0 0 0 0 0 2 2 0 0 0 0 0 0\n"))
	want := []fabric.InterfaceUse{{Name: "lo", Received: 100, Sent: 200}, {Name: "eth0:1", Received: math.MaxUint64, Sent: 2}}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %t, want %+v", got, ok, want)
	}
	for _, text := range []string{"", "x\ny\n", devHeader + "eth0: 1 2\n", devHeader + "no colon\n"} {
		if got, ok := parseInterfaces([]byte(text)); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestMounts(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[string]string
	}{
		"a container":   {"1 0 0:50 / / rw - overlay overlay rw,lowerdir=/a\n2 1 0:51 / /dev rw master:1 - tmpfs tmpfs rw\n3 1 0:52 / /proc rw - proc proc rw\n", map[string]string{"/": "overlay", "/dev": "tmpfs"}},
		"the last wins": {"1 0 0:50 / / rw - ext4 /dev/sda rw\n2 1 0:51 / / rw - fuse.squashfuse squashfuse rw\n", map[string]string{"/": "fuse.squashfuse"}},
		"no root":       {"1 0 0:50 / /mnt rw - ext4 /dev/sda rw\n", nil},
		"nonsense":      {"x\n", nil},
	} {
		got, err := parseMounts(strings.NewReader(c.text))
		if (err != nil) != (c.want == nil) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := parseMounts(endless{}); err == nil {
		t.Error("mounts without an end")
	}
}

func FuzzEnvironment(f *testing.F) {
	f.Add([]byte(environ("NCCL_IB_DISABLE=1", "RANK=1", "SLURM_JOB_USER=a", "NCCL_NET=Socket")))
	f.Add([]byte("NCCL_IB_HCA=" + secret))
	f.Fuzz(func(t *testing.T, b []byte) {
		const planted = "planted_SECRET"
		text := append(append([]byte{}, b...), "\x00TOKEN="+planted+"\x00NCCL_IB_HCA="+planted+"\x00NCCL_"+planted+"=1\x00RANK="+planted+"\x00SLURM_JOB_USER="+planted...)
		e, err := scan(bytes.NewReader(text), settings.Exposed)
		if err != nil {
			t.Fatal(err)
		}
		const paths = "\n0::/slurm/uid_0/job_" + planted + "\n0::/kubepods/besteffort/pod" + planted + "/" + planted + "\n0::/x/cri-containerd-" + planted + ".scope"
		w, owner := parseCgroup(append(bytes.Clone(b), paths...))
		w = e.complete(w)
		out, _ := json.Marshal([]any{e.settings, w, owner, e.numbers})
		if bytes.Contains(out, []byte(planted)) {
			t.Fatalf("the secret is out: %s", out)
		}
		if len(e.settings) > maxSettings || w.Rank < -1 || strings.ContainsAny(w.Job+w.Pod+w.ContainerID, "\n\"\\{}") {
			t.Errorf("%+v", w)
		}
		again, err := scan(iotest.HalfReader(bytes.NewReader(text)), settings.Exposed)
		if err != nil || !reflect.DeepEqual(e, again) {
			t.Errorf("read by parts: %+v, was %+v", again, e)
		}
	})
}

func FuzzProc(f *testing.F) {
	f.Add([]byte(statText("x", 1, 2)))
	f.Add([]byte(map1 + "/dev/shm/nccl-a\n" + map1 + "/x/libnccl-net.so\n"))
	f.Add([]byte(devHeader + "    lo: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n"))
	f.Add([]byte("1 0 0:50 / / rw - ext4 /dev/sda rw\n"))
	f.Add([]byte("Uid:\t0\t0\nCpus_allowed_list:\t0-3\nMax locked memory 1 2 bytes\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		st, ok := parseStat(b)
		if ok && (len(st.command) > 15 || strings.ContainsAny(st.command, "\n\"\\ ")) {
			t.Errorf("command %q", st.command)
		}
		if m, err := parseMaps(bytes.NewReader(b)); err == nil {
			if out := fmt.Sprint(m); strings.ContainsAny(out, "\n\"\\") || len(m.Plugins) > maxPlugins {
				t.Errorf("%q", out)
			}
		}
		if list, ok := parseInterfaces(b); ok && len(list) > maxInterfaces {
			t.Errorf("%d interfaces", len(list))
		}
		if types, err := parseMounts(bytes.NewReader(b)); err == nil && len(types) > 5 {
			t.Errorf("%v", types)
		}
		_, cpus, _ := parseStatus(b)
		if strings.ContainsAny(cpus, "\n\" ") {
			t.Errorf("CPUs %q", cpus)
		}
		parseMemlock(b)
		parseNamespace(string(b), "net")
		if !bytes.Equal(b, before) {
			t.Error("the text was written to")
		}
	})
}
