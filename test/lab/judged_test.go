// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/test/safety"
)

// judged runs the program under judgement: it may write only below ./own.
func judged(t *testing.T, while func(p *safety.Process, log string), args ...string) *safety.Record {
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
	p, err := safety.Start(safety.Rules{Files: []string{here + "/own"}}, append([]string{"./gpufabric_exporter"}, args...), os.Environ(), ".", out, out)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(p.PID, syscall.SIGKILL)
	while(p, out.Name())
	r, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s\n%s", strings.Join(args, " "), r)
	for _, v := range r.Violations {
		t.Error(v)
	}
	if r.Exit < 0 || r.Exit == 3 {
		t.Errorf("exit status %d\n%s", r.Exit, read(out.Name()))
	}
	return r
}

// The exporter and the commands that read a node change nothing: each system call is judged, with what netlink and ioctl ask of
// the real kernel.
func testReadOnly(t *testing.T, _ *exporter) {
	if err := os.Mkdir("own", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll("own") })
	r := judged(t, func(p *safety.Process, log string) {
		x := &exporter{}
		for end := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) { // all code is emulated, and stops at each call
			if m := listening.FindStringSubmatch(read(log)); m != nil {
				x.url = "http://" + strings.Fields(m[1])[0] // more lines may follow
				if _, err := x.get("/-/ready"); err == nil {
					break
				}
			}
			if time.Now().After(end) {
				t.Fatalf("it is not ready\n%s", read(log))
			}
		}
		for range 5 {
			for _, path := range []string{"/metrics", "/", "/status.json", "/probes"} {
				if _, err := x.get(path); err != nil {
					t.Error(err)
				}
			}
		}
		if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}, "--web.listen-address=127.0.0.1:0", "--observer.fast-interval=1s", "--observer.medium-interval=1s", "--observer.slow-interval=5s", "--collector.cm", "--collector.dcqcn")
	for _, asked := range []string{
		"netlink RDMA_NLDEV_CMD_GET", "netlink RDMA_NLDEV_CMD_SYS_GET", "netlink RDMA_NLDEV_CMD_STAT_GET", "netlink DCB_CMD_IEEE_GET",
		"netlink ETHTOOL_MSG_PAUSE_GET", "netlink ETHTOOL_MSG_FEC_GET", "ioctl ETHTOOL_GSTATS", "ioctl ETHTOOL_GDRVINFO",
	} {
		if r.Calls[asked] == 0 {
			t.Errorf("%s was not judged", asked)
		}
	}
	for _, args := range [][]string{{"check"}, {"topology"}, {"report"}, {"jobs", "--interval=2s"}, {"advise", "--nodes=2"}, {"lint", "--host", "--env"}, {"capture", "--file=own/capture.tar.gz"}} {
		judged(t, func(*safety.Process, string) {}, args...)
	}
}
