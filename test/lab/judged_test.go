// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/test/safety"
)

// judgedWithin is how long a program under judgement may take. All code is emulated, each call that is judged
// stops the program, and the machine may be busy.
const judgedWithin = 4 * time.Minute

// judged runs a program under judgement: it may write only below ./own. While runs beside it and may be nil.
func judged(t *testing.T, while func(p *safety.Process, log string), command ...string) *safety.Record {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	begin := time.Now()
	// The runtime interrupts threads every 10 ms by a signal. Its delivery stops the thread for the tracer,
	// which here can take longer than that: the program would make no progress.
	env := append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	p, err := safety.Start(safety.Rules{Files: []string{here + "/own"}}, command, env, ".", out, out)
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(judgedWithin, func() { _ = syscall.Kill(p.PID, syscall.SIGKILL) })
	defer late.Stop()
	if while != nil {
		while(p, out.Name())
	}
	r, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s (%s)\n%s", strings.Join(command, " "), time.Since(begin).Round(100*time.Millisecond), r)
	if r.Exit < 0 {
		text, _ := os.ReadFile(out.Name())
		t.Errorf("%s was killed after %s\n%s", command[1], judgedWithin, text)
	}
	return r
}

// TestJudged has the exporter and the commands that read a node judged on a kernel with RDMA devices: each
// open, each message of netlink and each request of ioctl reads. The tools that set what the exporter reads
// show that the judge sees a write.
func TestJudged(t *testing.T) {
	if !*full {
		t.Skip("only with FULL=1 (make lab-full): CI has no time for it")
	}
	if err := os.Mkdir("own", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll("own") })
	before := guestState(t)
	t.Run("planted", testPlanted)
	t.Run("exporter", testJudgedExporter)
	for _, args := range [][]string{
		{"check"}, {"preflight"}, {"lint", "--host", "--env"}, {"jobs", "--interval=2s"}, {"report"}, {"capture", "--file=own/capture.tar.gz"},
	} {
		t.Run(args[0], func(t *testing.T) {
			r := judged(t, nil, append([]string{"./gpufabric_exporter"}, args...)...)
			if len(r.Violations) > 0 || r.Exit == 3 {
				t.Errorf("exit status %d, %q", r.Exit, r.Violations)
			}
			if opens := r.Calls["open /dev/infiniband/uverbs"]; opens > 0 && args[0] != "preflight" && args[0] != "lint" {
				t.Errorf("it opened RDMA devices %d times", opens)
			}
		})
	}
	eventually(t, "the guest is as before", func() error { return diff("guest", before, guestState(t)) })
}

// testPlanted sets what is set already, with the tools that sites use.
func testPlanted(t *testing.T) {
	for _, planted := range []struct{ tool, want string }{
		{"rdma dev set fakehca_0 name fakehca_0", fmt.Sprintf("netlink rdma: type %d, command 0", 5<<10|2)},
		{"dcb dcbx set dev hca0 host ieee", "netlink route: type 79"},
		{"dcb pfc set dev hca0 prio-pfc 3:on", "netlink route: type 79"},
		{"ethtool -A hca0 rx on", "netlink generic: type"},
		{"ip link set dev hca0 up", "netlink route: type 16"},
		{"ethtool -W hca0 0", "ioctl SIOCETHTOOL, command"},
		{"busybox ifconfig hca0 up", "ioctl 0x8914"},
		{"busybox env " + asWriter + "=1 " + os.Args[0], "write to /dev/infiniband/uverbs0"},
		{"devlink port set pci/0000:00:00.0/0 type eth", "family other than ethtool"},
	} {
		words := strings.Fields(planted.tool)
		path, err := exec.LookPath(words[0])
		if err != nil {
			t.Error(err)
			continue
		}
		r := judged(t, nil, append([]string{path}, words[1:]...)...)
		if !strings.Contains(strings.Join(r.Violations, "\n"), planted.want) {
			t.Errorf("%s: %q, expected %q", planted.tool, r.Violations, planted.want)
		}
	}
}

// asWriter is the variable that makes this program write to a device for verbs.
const asWriter = "LAB_WRITES"

// writeToDevice leaves errors to the judge, which sees the calls.
func writeToDevice() {
	if fd, err := unix.Open("/dev/infiniband/uverbs0", unix.O_RDWR, 0); err == nil {
		_, _ = unix.Write(fd, []byte{0}) // shorter than a command, so the kernel refuses it
	}
}

func testJudgedExporter(t *testing.T) {
	r := judged(t, func(p *safety.Process, log string) {
		x := &exporter{}
		for end := time.Now().Add(judgedWithin); ; time.Sleep(time.Second) {
			text, _ := os.ReadFile(log)
			if m := listening.FindStringSubmatch(string(text)); m != nil {
				x.url = "http://" + strings.Fields(m[1])[0] // more lines may follow
				if _, err := x.get("/-/ready"); err == nil {
					break
				}
			}
			if time.Now().After(end) {
				t.Fatalf("it is not ready\n%s", text)
			}
		}
		for range 2 {
			for _, path := range []string{"/metrics", "/", "/status.json", "/probes.json"} {
				if _, err := x.get(path); err != nil {
					t.Error(err)
				}
			}
		}
		if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}, "./gpufabric_exporter", "--web.listen-address=127.0.0.1:0", "--observer.fast-interval=1s", "--observer.medium-interval=1s", "--observer.slow-interval=5s", "--collector.cm", "--collector.dcqcn")
	if len(r.Violations) > 0 || r.Exit != 0 {
		t.Errorf("exit status %d, %q", r.Exit, r.Violations)
	}
	asked := []string{
		"netlink RDMA_NLDEV_CMD_GET", "netlink RDMA_NLDEV_CMD_PORT_GET", "netlink RDMA_NLDEV_CMD_SYS_GET", "netlink RDMA_NLDEV_CMD_STAT_GET", "netlink DCB_CMD_IEEE_GET",
		"netlink ETHTOOL_MSG_LINKMODES_GET", "netlink ETHTOOL_MSG_PAUSE_GET", "netlink ETHTOOL_MSG_FEC_GET", "ioctl ETHTOOL_GSTRINGS", "ioctl ETHTOOL_GSTATS", "ioctl ETHTOOL_GSSET_INFO",
	}
	if missing := slices.DeleteFunc(asked, func(a string) bool { return r.Calls[a] > 0 }); len(missing) > 0 {
		t.Errorf("%q were not judged", missing)
	}
}
