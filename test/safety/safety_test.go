// SPDX-License-Identifier: Apache-2.0

//go:build safety && linux && amd64

package safety

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/program"
)

// start has the program judged from its start on.
func (n *node) start(output *os.File, args ...string) *Process {
	n.t.Helper()
	env := append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") }), "TMPDIR="+n.own)
	p, err := Start(Rules{Files: []string{n.own, strings.TrimPrefix(n.library, "--gpu.nvml-library=") + ".calls"}}, append([]string{n.binary}, args...), env, ".", output, output)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
		_, _ = p.Wait()
	})
	return p
}

// run runs a command to its end.
func (n *node) run(args ...string) *Record {
	n.t.Helper()
	out := n.file()
	r, err := n.start(out, args...).Wait()
	if err != nil {
		n.t.Fatal(err)
	}
	n.judged(strings.Join(args, " "), r)
	if text := read(n.t, out.Name()); r.Exit < 0 || r.Exit == 3 || strings.Contains(text, "panic:") {
		n.t.Errorf("exit status %d\n%s", r.Exit, text)
	}
	return r
}

func (n *node) judged(what string, r *Record) {
	n.t.Helper()
	n.t.Logf("%s\n%s", what, r)
	for _, v := range r.Violations {
		n.t.Error(v)
	}
	if len(r.Calls) == 0 {
		n.t.Error("it was not judged")
	}
}

// TestJudge: a shell does what the program must not do, and the judge reports it.
func TestJudge(t *testing.T) {
	n := layOut(t)
	n.binary = "/bin/sh"
	other := t.TempDir()
	touched := filepath.Join(other, "touched")
	if err := os.Symlink(other, filepath.Join(n.own, "out")); err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		"echo x >" + touched:                      touched + ": expected a file of its own",
		"cd " + other + "; echo x >there":         "there: expected a file of its own",
		"echo x >" + n.own + "/out/there":         "there: expected a file of its own", // by a link
		"echo x >>" + n.own + "/../x":             "/x: expected a file of its own",
		": <>/proc/self/coredump_filter":          "coredump_filter: expected a file of its own",
		fmt.Sprintf("kill -CONT %d", os.Getpid()): fmt.Sprintf("signal 18 to process %d", os.Getpid()),
		"exec /bin/true":                          "execve /bin/true: expected itself",
	} {
		r, err := n.start(n.file(), "-c", script).Wait()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(r.Violations, "\n"), want) {
			t.Errorf("%s: %q, expected %q", script, r.Violations, want)
		}
	}
	r, err := n.start(n.file(), "-c", "echo x >"+n.own+"/x; echo x >/dev/null; cat <"+n.own+"/x >/dev/null; true").Wait()
	if err != nil || len(r.Violations) > 1 || r.Calls["open own file to write"] != 1 {
		t.Errorf("its own file: %v %v", r, err)
	}
	if _, err := os.Lstat(touched); err != nil {
		t.Error("the judge keeps what it sees from happening")
	}
}

// message is a request of netlink.
func message(kind uint16, body ...byte) []byte {
	m := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	return append(append(m, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0), body...)
}

// TestMessages: the judge reports netlink messages that write.
func TestMessages(t *testing.T) {
	for name, test := range map[string]struct {
		protocol int
		messages []byte
		fine     bool
	}{
		"RTM_GETLINK":                    {unix.NETLINK_ROUTE, message(unix.RTM_GETLINK), true},
		"RTM_SETLINK":                    {unix.NETLINK_ROUTE, message(unix.RTM_SETLINK), false},
		"RTM_NEWQDISC after RTM_GETLINK": {unix.NETLINK_ROUTE, append(message(unix.RTM_GETLINK), message(unix.RTM_NEWQDISC)...), false},
		"DCB_CMD_IEEE_GET":               {unix.NETLINK_ROUTE, message(unix.RTM_GETDCB, 0, 21, 0, 0), true},
		"DCB_CMD_IEEE_SET in RTM_GETDCB": {unix.NETLINK_ROUTE, message(unix.RTM_GETDCB, 0, 20, 0, 0), false},
		"RDMA_NLDEV_CMD_GET":             {unix.NETLINK_RDMA, message(5<<10 | 1), true},
		"RDMA_NLDEV_CMD_SET":             {unix.NETLINK_RDMA, message(5<<10 | 2), false},
		"SOCK_DESTROY":                   {unix.NETLINK_SOCK_DIAG, message(unix.SOCK_DESTROY), false},
		"ethtool":                        {unix.NETLINK_GENERIC, message(unix.GENL_ID_CTRL, append([]byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0, 12, 0, unix.CTRL_ATTR_FAMILY_NAME, 0}, "ethtool\x00"...)...), true},
		"devlink":                        {unix.NETLINK_GENERIC, message(unix.GENL_ID_CTRL, append([]byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0, 12, 0, unix.CTRL_ATTR_FAMILY_NAME, 0}, "devlink\x00"...)...), false},
		"ETHTOOL_MSG_PAUSE_GET":          {unix.NETLINK_GENERIC, message(21, unix.ETHTOOL_MSG_PAUSE_GET, 1, 0, 0), true},
		"ETHTOOL_MSG_PAUSE_SET":          {unix.NETLINK_GENERIC, message(21, unix.ETHTOOL_MSG_PAUSE_SET, 1, 0, 0), false},
		"half a message":                 {unix.NETLINK_ROUTE, message(unix.RTM_GETLINK)[:7], false},
	} {
		if what, err := asks(test.protocol, test.messages); (err == nil) != test.fine {
			t.Errorf("%s: %q, %v", name, what, err)
		}
	}
}

// commands has what each command is run with, besides a node. Each command of the program is here.
func commands(n *node) map[string][][]string {
	own := func(name string) string { return filepath.Join(n.own, name) }
	return map[string][][]string{
		"check":       {{}, {"--verbose", "--output=json", "--interval=2s"}, {"--textfile=" + own("verdicts.prom")}, {"--write-manifest=" + own("manifest.yml")}, {"--scenario=port-down"}},
		"preflight":   {{}},
		"lint":        {{n.log}, {"--host", "--env"}, {"--suggest=shell"}},
		"advise":      {{"--nodes=4"}},
		"explain":     {{n.log}},
		"topology":    {{}, {"--output=json"}},
		"profiles":    {{}, {"--output=json"}, {"--write"}},
		"probe":       {{"transport"}, {}},
		"ping":        {{"127.0.0.1:9"}},
		"report":      {{}, {"--output=html"}},
		"capture":     {{"--file=" + own("capture.tar.gz")}},
		"rules":       {{"--directory=" + own("rules")}},
		"healthcheck": {{"--url=http://127.0.0.1:9/-/healthy"}},
		"install-to":  {{n.own}},
		"jobs":        {{}, {"--interval=2s"}},
		"help":        {{}, {"check"}},
		"--help-man":  {{}}, "--version": {{}}, "--completion-script-bash": {{}}, "--completion-bash": {{"ch"}},
		"--config.check": {{}},
	}
}

// TestCommands judges each command over the node in files, and over this machine.
func TestCommands(t *testing.T) {
	n := layOut(t)
	table := commands(n)
	for _, c := range program.New(&program.Options{}).Commands {
		if table[c.Name] == nil && !slices.Contains([]string{"serve", "demo", "gpu-worker", "probe-rank", "ping-worker"}, c.Name) { // TestServe, TestDemo; their children
			t.Errorf("command %s: expected in the table", c.Name)
		}
	}
	for name, calls := range table {
		for _, args := range calls {
			t.Run(strings.Join(append([]string{name}, args...), " "), func(t *testing.T) {
				n := *n
				n.t = t
				call := append([]string{name}, args...)
				switch line := strings.Join(call, " "); {
				case name == "--config.check":
					n.run(name, n.site)
				case strings.HasPrefix(name, "-") || strings.Contains(line, "--scenario") || slices.Contains([]string{"help", "explain", "healthcheck", "rules", "install-to"}, name):
					n.run(call...) // it reads no node
				case name == "capture" || name == "ping": // no GPU is asked
					n.run(slices.Concat(call, n.paths)...)
				default:
					n.run(slices.Concat(call, n.paths, []string{n.library})...)
					if !strings.Contains(line, n.own) { // that file is there now
						n.run(slices.Concat(call, []string{n.site})...)
					}
				}
			})
		}
	}
}

// TestServe judges the exporter over the node in files, over this machine with a stand-in for NVML and with
// probes, and as demo: every page, a new configuration, and its end.
func TestServe(t *testing.T) {
	n := layOut(t)
	listen := "--web.listen-address=127.0.0.1:0"
	all := []string{"--observer.fast-interval=10ms", "--observer.medium-interval=10ms", "--observer.slow-interval=1s", "--collector.cm", "--collector.dcqcn", "--collector.nvlink_links", "--web.enable-pprof", "--log.level=debug", listen}
	driver := filepath.Join(t.TempDir(), "proc/driver/nvidia") // as if NVIDIA's driver was loaded
	if err := os.MkdirAll(driver, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(driver, "version"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"gpus":    slices.Concat([]string{"serve", n.library, "--config.file=none", "--path.procfs=" + filepath.Dir(filepath.Dir(driver))}, all),
		"files":   slices.Concat([]string{"serve", n.library}, n.paths, all),
		"machine": slices.Concat([]string{"serve", n.library, n.site}, all),
		"demo":    {"demo", "--scenario=pfc-off", listen, "--break-after=1s", "--mend-after=3s"},
	} {
		t.Run(name, func(t *testing.T) {
			n := *n
			n.t = t
			out := n.file()
			p := n.start(out, args...)
			url := n.listening(p.ended, out.Name())
			for range 3 {
				for _, path := range []string{"/metrics", "/", "/probes", "/probes.json", "/status.json", "/jobs.json", "/-/healthy", "/-/ready", "/debug/pprof/goroutine"} {
					get(t, http.MethodGet, url+path)
				}
				get(t, http.MethodPost, url+"/-/reload")
				time.Sleep(1200 * time.Millisecond) // slow facts are read anew
			}
			for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR1} {
				if name == "demo" && s == syscall.SIGUSR1 {
					continue // it has no GPUs to release
				}
				if err := syscall.Kill(p.PID, s); err != nil {
					t.Fatal(err)
				}
				get(t, http.MethodGet, url+"/metrics")
			}
			if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			r, err := p.Wait()
			if err != nil {
				t.Fatal(err)
			}
			n.judged(strings.Join(args, " "), r)
			if r.Exit != 0 {
				t.Errorf("exit status %d\n%s", r.Exit, read(t, out.Name()))
			}
			if name == "gpus" && r.Calls["execve exe"] == 0 {
				t.Error("no worker for GPUs was judged")
			}
		})
	}
}

func get(t *testing.T, method, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: eventually, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); err != nil || n == 0 || answer.StatusCode >= 500 && !strings.HasSuffix(url, "/-/ready") {
		t.Errorf("%s: %s, %d bytes, %v", url, answer.Status, n, err)
	}
}
