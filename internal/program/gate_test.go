// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
)

// shells are those that may be /bin/sh on a node, as far as they are here: Debian's, Red Hat's, and that of
// small images.
func shells(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{"dash": {"dash"}, "bash": {"bash", "--posix"}, "busybox": {"busybox", "sh"}}
	for name, command := range all {
		path, err := exec.LookPath(command[0])
		if err != nil {
			t.Logf("%s is not here", name)
			delete(all, name)
			continue
		}
		command[0] = path
	}
	if len(all) == 0 {
		t.Fatal("no shell to try scripts with")
	}
	return all
}

// script writes a program in shell.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	return executable(t, filepath.Join(dir, name), "#!/bin/sh\n"+text+"\n")
}

// executable writes a program. No process of a test beside this one starts meanwhile: it would hold the file
// open for writing until its own exec, and to start the file would fail with ETXTBSY.
func executable(t *testing.T, path, text string) string {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// ran runs a script of packaging/slurm with only these variables in its environment, and returns its exit
// code and standard error.
func ran(t *testing.T, shell []string, file string, env ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), shell[0], append(shell[1:], "../../packaging/slurm/"+file)...)
	cmd.Env = append([]string{}, env...)
	cmd.WaitDelay = time.Minute // a process that is left behind must not hold its output open
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); errors.Is(err, exec.ErrWaitDelay) {
		t.Error("something that the script started holds its output open")
	}
	if out.Len() > 0 {
		t.Errorf("on standard output: %s", out.String())
	}
	return cmd.ProcessState.ExitCode(), errs.String()
}

// The prolog has a word and a decision for each way in which check can end. Only what failed drains by itself.
func TestSlurmProlog(t *testing.T) {
	const verdicts, unknown = "echo 'FAILED   critical  port_active  mlx5_3: down'; echo '1 failed, 0 unknown, 3 checks passed'", "echo '0 failed, 1 unknown, 3 checks passed'"
	for shellName, shell := range shells(t) {
		for _, c := range []struct {
			name, check string
			code        int    // as shipped
			onError     int    // with ON_ERROR=drain
			onUnknown   int    // with ON_UNKNOWN=drain
			says        string // to standard error and to the log; empty: nothing at all
		}{
			{"0", "echo '0 failed, 0 unknown, 4 checks passed'", 0, 0, 0, ""},
			{"0 without a word", "exit 0", 0, 1, 0, "it ended with 0 and without verdicts"},
			{"1", verdicts + "; exit 1", 1, 1, 1, "a critical check failed, and the node drains\nFAILED   critical  port_active"},
			{"1 without a word", "exit 1", 1, 1, 1, "a critical check failed"},
			{"2", unknown + "; exit 2", 0, 0, 1, "not everything could be checked"},
			{"2 of a crash", "echo 'panic: runtime error' >&2; exit 2", 0, 1, 0, "without verdicts: it crashed\npanic: runtime error"},
			{"2 of no check", "echo 'error: no check applies to this node' >&2; exit 2", 0, 0, 1, "not everything could be checked"},
			{"3", "echo 'config.yml:1: unknown key' >&2; exit 3", 0, 1, 0, "its command line or its configuration is wrong, or its report could not be written\nconfig.yml:1"},
			{"124", "exit 124", 0, 1, 0, "it took more than"},
			{"126", "exit 126", 0, 1, 0, "cannot be run"},
			{"127", "exit 127", 0, 1, 0, "is not there"},
			{"134", "exit 134", 0, 1, 0, "it ended with 134"},
			{"137", "kill -KILL $$", 0, 1, 0, "it ended with 137"},
			{"139", "kill -SEGV $$", 0, 1, 0, "it ended with 139"},
			{"77", "exit 77", 0, 1, 0, "it ended with 77"},
		} {
			t.Run(shellName+" "+c.name, func(t *testing.T) {
				dir := commandtest.Memory(t)
				env := []string{
					"CHECK=" + script(t, dir, "check", "echo \"$@\" >"+dir+"/args\n"+c.check),
					"LOGGER=" + script(t, dir, "logger", "{ echo \"$@\"; cat; } >"+dir+"/log"), "TMPDIR=" + dir,
				}
				for setting, want := range map[string]int{"": c.code, "ON_ERROR=drain": c.onError, "ON_UNKNOWN=drain": c.onUnknown, "ON_ERROR=Drain": c.code} {
					os.Remove(dir + "/log")
					code, errs := ran(t, shell, "slurm-prolog.sh", append(env, setting)...)
					if code != want || !strings.Contains(errs, c.says) || (errs == "") != (c.says == "") {
						t.Errorf("%s: exit code %d, want %d\n%s", setting, code, want, errs)
					}
					log, err := os.ReadFile(dir + "/log")
					if !strings.Contains(string(log), c.says) || (err == nil) != (c.says != "") || err == nil && !strings.HasPrefix(string(log), "-t gpufabric_check -p daemon.") {
						t.Errorf("%s: the log has %q", setting, log)
					}
				}
				if args, _ := os.ReadFile(dir + "/args"); string(args) != "check --severity=critical --log.level=error\n" {
					t.Errorf("check was asked %q", args)
				}
				if left, _ := filepath.Glob(dir + "/tmp*"); len(left) > 0 {
					t.Errorf("leaves %v", left)
				}
			})
		}
	}
}

// What is missing on a node, or hangs, changes no decision and is not silent.
func TestSlurmPrologOnBrokenNodes(t *testing.T) {
	for shellName, shell := range shells(t) {
		for _, c := range []struct {
			name string
			env  func(dir string) []string
			code int
			says string
		}{
			{"no program", func(dir string) []string { return []string{"CHECK=" + dir + "/nosuch"} }, 0, "is not there"},
			{"no program, strict", func(dir string) []string { return []string{"CHECK=" + dir + "/nosuch", "ON_ERROR=drain"} }, 1, "is not there"},
			{"not executable", func(dir string) []string {
				p := script(t, dir, "check", "exit 0")
				_ = os.Chmod(p, 0o644)
				return []string{"CHECK=" + p}
			}, 0, "cannot be run"},
			{"a program of another processor", func(dir string) []string {
				return []string{"CHECK=" + executable(t, filepath.Join(dir, "check"), "\x7fELF\x02\x01\x01\x00(((\x00\xf7\x00")}
			}, 0, "not checked, and the job starts"},
			{"a program of which the disk kept nothing", func(dir string) []string {
				return []string{"CHECK=" + executable(t, filepath.Join(dir, "check"), "")}
			}, 0, "not checked, and the job starts: it ended with 0 and without verdicts"},
			{"a user's programs in front of those of the system", func(dir string) []string {
				for _, name := range []string{"mktemp", "sleep", "head", "grep", "touch", "rm"} {
					script(t, dir, name, "echo theirs >&2; exit 1")
				}
				return []string{"CHECK=" + script(t, dir, "check", "exit 1"), "PATH=" + dir}
			}, 1, "a critical check failed"},
			{"a report without end", func(dir string) []string {
				return []string{
					"CHECK=" + script(t, dir, "check", "echo 'FAILED   critical  gpu_lost  GPU1: lost'; head -c 50000000 /dev/zero | tr '\\0' x; exit 1"),
					"LOGGER=" + script(t, dir, "logger", "cat >"+dir+"/log"),
				}
			}, 1, "the node drains\nFAILED   critical  gpu_lost"},
			{"no logger", func(dir string) []string {
				return []string{"CHECK=" + script(t, dir, "check", "exit 1"), "LOGGER=" + dir + "/nosuch"}
			}, 1, "a critical check failed"},
			{"a logger that hangs", func(dir string) []string {
				return []string{"CHECK=" + script(t, dir, "check", "exit 1"), "LOGGER=" + script(t, dir, "logger", "exec sleep 600")}
			}, 1, "a critical check failed"},
			{"no place for a report", func(dir string) []string {
				return []string{"CHECK=" + script(t, dir, "check", "exit 1"), "TMPDIR=" + dir + "/nosuch"}
			}, 1, "a critical check failed"},
			{"no place for a report, unknown", func(dir string) []string {
				return []string{"CHECK=" + script(t, dir, "check", "exit 2"), "TMPDIR=" + dir + "/nosuch", "ON_ERROR=drain"}
			}, 0, "not everything could be checked"},
			{"a hang", func(dir string) []string {
				return []string{"CHECK=" + script(t, dir, "check", "exec sleep 600"), "LIMIT=1"}
			}, 0, "it took more than 1 seconds"},
			{"a limit that is no number", func(dir string) []string {
				return []string{"CHECK=" + script(t, dir, "check", "exec sleep 600"), "LIMIT=soon"}
			}, 0, "it took more than soon seconds"},
			{"a setting of another spelling", func(dir string) []string {
				return []string{"CHECK=" + script(t, dir, "check", "exit 2"), "TMPDIR=" + dir + "/nosuch", "ON_UNKNOWN=Drain"}
			}, 0, "(ON_UNKNOWN=Drain is neither start nor drain)"},
			{"a hang that does not end when asked, strict", func(dir string) []string {
				return []string{"CHECK=" + script(t, dir, "check", "trap '' TERM; while :; do sleep 1; done"), "LIMIT=1", "ON_ERROR=drain"}
			}, 1, "it took more than 1 seconds"},
			{"a configuration of its own", func(dir string) []string {
				return []string{"CHECK=" + script(t, dir, "check", "case $* in *'--config.file=/a b.yml'*) exit 1;; esac; exit 0"), "CONFIG=/a b.yml"}
			}, 1, "a critical check failed"},
		} {
			t.Run(shellName+" "+c.name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				begin := time.Now()
				code, errs := ran(t, shell, "slurm-prolog.sh", append([]string{"LOGGER=true", "TMPDIR=" + dir}, c.env(dir)...)...)
				if code != c.code || !strings.Contains(errs, c.says) {
					t.Errorf("exit code %d, want %d\n%s", code, c.code, errs)
				}
				if strings.Contains(errs, "theirs") {
					t.Error(errs)
				}
				if log, _ := os.ReadFile(dir + "/log"); len(log)+len(errs) > 200_000 {
					t.Errorf("%d bytes logged, %d on standard error", len(log), len(errs))
				}
				if took := time.Since(begin); took > 5*time.Minute { // what hangs does so for 10
					t.Errorf("it took %s", took)
				}
			})
		}
	}
}

// slurmstepd, which runs prologs with PrologFlags=RunInJob, blocks signals, and a service manager may ignore
// them: the limit holds nevertheless.
func TestSlurmPrologWithoutSignals(t *testing.T) {
	for shellName, shell := range shells(t) {
		for name, env := range map[string][]string{"ignore": {"--ignore-signal"}, "block": {"--block-signal=USR1", "--block-signal=USR2", "--block-signal=TERM", "--block-signal=INT", "--block-signal=ALRM", "--block-signal=HUP", "--block-signal=PIPE"}} {
			t.Run(shellName+" "+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				under := append(append([]string{"env"}, env...), shell...)
				check := script(t, dir, "check", "exec sleep 120")
				if code, errs := ran(t, under, "slurm-prolog.sh", "CHECK="+check, "LOGGER=true", "LIMIT=1", "TMPDIR="+dir); code != 0 || !strings.Contains(errs, "it took more than 1 seconds") {
					t.Errorf("exit code %d\n%s", code, errs)
				}
				begin := time.Now()
				check = script(t, dir, "check", "echo '1 failed, 0 unknown, 0 checks passed'; exit 1")
				if code, errs := ran(t, under, "slurm-prolog.sh", "CHECK="+check, "LOGGER=true", "LIMIT=300", "TMPDIR="+dir); code != 1 {
					t.Errorf("exit code %d\n%s", code, errs)
				}
				if took := time.Since(begin); took > 2*time.Minute {
					t.Errorf("it waits for its own limit: %s", took)
				}
			})
		}
	}
}

// A disk without room costs the report, not the message.
func TestSlurmPrologOnAFullDisk(t *testing.T) {
	for shellName, shell := range shells(t) {
		t.Run(shellName, func(t *testing.T) {
			tools, full := commandtest.Memory(t), commandtest.Memory(t)
			if err := syscall.Mount("tmpfs", full, "tmpfs", 0, "size=4k"); err != nil {
				t.Skipf("a file system cannot be mounted here: %v", err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(full, 0); err != nil {
					t.Error(err)
				}
			})
			if err := os.WriteFile(full+"/job", make([]byte, 4096), 0o644); err != nil {
				t.Fatal(err)
			}
			for code, says := range map[int]string{1: "a critical check failed", 3: "its report could not be written"} {
				check := script(t, tools, "check", fmt.Sprintf("echo verdicts; exit %d", code))
				logger := script(t, tools, "logger", "{ echo \"$@\"; cat; } >"+tools+"/log")
				got, errs := ran(t, shell, "slurm-prolog.sh", "CHECK="+check, "LOGGER="+logger, "TMPDIR="+full)
				if got != map[int]int{1: 1, 3: 0}[code] || !strings.Contains(errs, says) {
					t.Errorf("%d: exit code %d\n%s", code, got, errs)
				}
				if log, _ := os.ReadFile(tools + "/log"); !strings.Contains(string(log), says) {
					t.Errorf("%d: the log has %q", code, log)
				}
			}
		})
	}
}

// The real program behind the prolog: verdicts drain, a configuration that is wrong is reported.
func TestSlurmPrologAndCheck(t *testing.T) {
	dir := commandtest.Memory(t)
	for name, c := range map[string]struct {
		args string
		code int
		says string
	}{
		"port down":     {"--scenario=port-down", 1, "FAILED   critical  port_active"},
		"healthy":       {"--scenario=healthy", 0, ""},
		"configuration": {"--config.file=/nosuch.yml", 0, "--config.file=\"/nosuch.yml\": no such file or directory"},
	} {
		var out commandtest.Output
		args := []string{"check", "--severity=critical", "--log.level=error", c.args}
		code := run(t, Options{}, &out, &out, args...)
		if err := os.WriteFile(dir+"/said", []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		check := script(t, dir, "check", fmt.Sprintf("cat %s/said; exit %d", dir, code))
		got, errs := ran(t, []string{"sh"}, "slurm-prolog.sh", "CHECK="+check, "LOGGER=true")
		if got != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit code %d, want %d\n%s", name, got, c.code, errs)
		}
	}
}

// slurmd passes no environment: settings are in a file, which is read and never run, and only if no user
// could have written it.
func TestSlurmSettings(t *testing.T) {
	for shellName, shell := range shells(t) {
		dir := commandtest.Memory(t)
		check := script(t, dir, "check", "echo '0 failed, 1 unknown, 3 checks passed'; exit 2")
		settings := dir + "/settings"
		text := "# ON_UNKNOWN=start\nON_UNKNOWN=\"drain\"\nPATH=/nosuch\nCONFIG=$(touch " + dir + "/run)\nx;touch " + dir + "/run\nLIMIT=4"
		for mode, want := range map[os.FileMode]int{0o644: 1, 0o600: 1, 0o666: 0, 0o664: 0} {
			if err := errors.Join(os.WriteFile(settings, []byte(text), 0o600), os.Chmod(settings, mode)); err != nil {
				t.Fatal(err)
			}
			code, errs := ran(t, shell, "slurm-prolog.sh", "CHECK="+check, "LOGGER=true", "TMPDIR="+dir, "SETTINGS="+settings)
			if code != want || strings.Contains(errs, "is not read") != (want == 0) {
				t.Errorf("%s, mode %o: exit code %d, want %d\n%s", shellName, mode, code, want, errs)
			}
		}
		if _, err := os.Stat(dir + "/run"); err == nil {
			t.Errorf("%s: the settings were run", shellName)
		}
		if err := errors.Join(os.Chmod(settings, 0o600), os.Symlink(settings, dir+"/link")); err != nil {
			t.Fatal(err)
		}
		for file, says := range map[string]string{"/link": "/link is not read: it is a symbolic link", "": " is not read: it has to be a file of root"} {
			code, errs := ran(t, shell, "slurm-prolog.sh", "CHECK="+check, "LOGGER=true", "TMPDIR="+dir, "SETTINGS="+dir+file)
			if code != 0 || !strings.Contains(errs, says) {
				t.Errorf("%s, %q: exit code %d, want 0 and %q\n%s", shellName, file, code, says, errs)
			}
		}
	}
}

// People write settings as shells, systemd and other systems have it. What is not understood changes nothing,
// and drains no node.
func TestSlurmSettingsAsWritten(t *testing.T) {
	for shellName, shell := range shells(t) {
		dir := commandtest.Memory(t)
		check := script(t, dir, "check", "echo '0 failed, 1 unknown, 3 checks passed'; exit 2")
		settings := dir + "/settings"
		for text, want := range map[string]int{
			"ON_UNKNOWN=drain\r\n": 1, "ON_UNKNOWN='drain'\n": 1, "ON_UNKNOWN=drain # as on all nodes\n": 1, "export ON_UNKNOWN=drain\n": 1,
			"  ON_UNKNOWN = \"drain\" \n": 1, "ON_ERROR ON_UNKNOWN=drain\n": 0, "=drain\n\n": 0,
		} {
			if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			code, errs := ran(t, shell, "slurm-prolog.sh", "CHECK="+check, "LOGGER=true", "TMPDIR="+dir, "SETTINGS="+settings)
			if code != want {
				t.Errorf("%s, %q: exit code %d, want %d\n%s", shellName, text, code, want, errs)
			}
		}
	}
}

// As an epilog it does not say that a job starts.
func TestSlurmEpilog(t *testing.T) {
	for shellName, shell := range shells(t) {
		dir := commandtest.Memory(t)
		code, errs := ran(t, shell, "slurm-prolog.sh", "CHECK="+script(t, dir, "check", "exit 77"), "LOGGER=true", "SLURM_SCRIPT_CONTEXT=epilog_slurmd")
		if code != 0 || !strings.Contains(errs, "the node stays in service: it ended with 77") {
			t.Errorf("%s: exit code %d\n%s", shellName, code, errs)
		}
	}
}

// The health check drains a node for its own reason alone: not twice, not over the reason of another program,
// not without an answer.
func TestSlurmHealth(t *testing.T) {
	const failed = "echo 'gpufabric: a critical check failed, and the node drains' >&2; echo 'FAILED   critical  port_active  mlx5_3: the port \"is\" $(down)' >&2; exit 1"
	for shellName, shell := range shells(t) {
		for _, c := range []struct {
			name, gate, state string
			code              int
			drains            string // the arguments of scontrol; empty: it is not called
		}{
			{"healthy", "exit 0", "echo idle", 0, ""},
			{"logged and let through", "echo 'gpufabric: not everything could be checked' >&2; exit 0", "echo idle", 0, ""},
			{"failed", failed, "echo allocated", 0, "update NodeName=gpu-05 State=DRAIN Reason=gpufabric: port_active mlx5_3: the port is (down)"},
			{"failed, in two partitions", failed, "echo mixed; echo mixed", 0, "update NodeName=gpu-05 State=DRAIN Reason=gpufabric: port_active mlx5_3: the port is (down)"},
			{"no verdict, strict", "echo 'gpufabric: it took more than 20 seconds' >&2; exit 1", "echo idle", 0, "update NodeName=gpu-05 State=DRAIN Reason=gpufabric: it took more than 20 seconds"},
			{"drained already", failed, "echo drained", 0, ""},
			{"drained by the prolog", failed, "echo drained Prolog error", 0, "update NodeName=gpu-05 Reason=gpufabric: port_active mlx5_3: the port is (down)"},
			{"drained by others", failed, "echo drained bad disk", 0, ""},
			{"one node is drained", failed, "case $* in *'-t drain'*) echo a gpufabric: x; echo a gpufabric: x; echo b bad disk;; *) echo idle;; esac", 0, "update NodeName=gpu-05 State=DRAIN Reason=gpufabric: port_active mlx5_3: the port is (down)"},
			{"two nodes are drained", failed, "case $* in *'-t drain'*) echo a gpufabric: x; echo b Prolog error;; *) echo idle;; esac", 1, ""},
			{"drained nodes are unknown", failed, "case $* in *'-t drain'*) exit 1;; *) echo idle;; esac", 1, ""},
			{"draining already", failed, "echo 'draining*'", 0, ""},
			{"down", failed, "echo 'down*'", 0, ""},
			{"maintenance", failed, "echo maint", 0, ""},
			{"no controller", failed, "exit 1", 1, ""},
			{"the prolog is broken", "exit 127", "echo idle", 1, ""},
			{"the controller refuses", failed, "echo idle; touch $DIR/refuse", 1, "update"},
		} {
			t.Run(shellName+" "+c.name, func(t *testing.T) {
				dir := commandtest.Memory(t)
				script(t, dir, "sinfo", "echo \"$@\" >$DIR/asked\n"+c.state)
				script(t, dir, "scontrol", "echo \"$@\" >>$DIR/drained; test ! -e $DIR/refuse")
				code, errs := ran(t, shell, "slurm-health.sh", "JITTER=0", "LOGGER=true", "PATH="+dir, "DIR="+dir, "SLURMD_NODENAME=gpu-05", "GATE="+script(t, dir, "gate", c.gate))
				called, _ := os.ReadFile(dir + "/drained")
				if code != c.code || !strings.HasPrefix(string(called), c.drains) || (c.drains == "") != (len(called) == 0) || strings.Count(string(called), "\n") > 1 {
					t.Errorf("exit code %d, want %d; scontrol %q\n%s", code, c.code, called, errs)
				}
				if (code != 0) != (errs != "") {
					t.Errorf("exit code %d says %q", code, errs)
				}
				if asked, err := os.ReadFile(dir + "/asked"); err == nil && c.drains == "" && c.code == 0 && !strings.Contains(string(asked), "-n gpu-05 ") {
					t.Errorf("sinfo %s", asked)
				}
			})
		}
	}
}

// The health check ends before slurmd kills it, whatever the prolog may take: it has its own limit, and
// leaves time to drain.
func TestSlurmHealthInTime(t *testing.T) {
	for shellName, shell := range shells(t) {
		for _, c := range []struct{ settings, limit, says string }{
			{"", "10", ""},
			{"LIMIT=120", "10", ""},
			{"JITTER=0\nHEALTH_LIMIT=25", "25", ""},
			{"HEALTH_LIMIT=25", "10", "JITTER=20 and HEALTH_LIMIT=25 are not used"},
			{"HEALTH_LIMIT=1m", "10", "HEALTH_LIMIT=1m are not used"},
			{"JITTER=99999999999999999999", "10", "are not used"},
			{"JITTER=08", "10", "JITTER=08 and HEALTH_LIMIT=10 are not used"},
		} {
			dir := commandtest.Memory(t)
			if err := os.WriteFile(dir+"/settings", []byte(c.settings), 0o600); err != nil {
				t.Fatal(err)
			}
			code, errs := ran(t, shell, "slurm-health.sh", "LOGGER=true", "DIR="+dir, "SETTINGS="+dir+"/settings", "GATE="+script(t, dir, "gate", "echo $LIMIT >$DIR/limit"))
			limit, _ := os.ReadFile(dir + "/limit")
			if code != 0 || strings.TrimSpace(string(limit)) != c.limit || !strings.Contains(errs, c.says) || (errs == "") != (c.says == "") {
				t.Errorf("%s, %q: exit code %d, limit %q, want %s\n%s", shellName, c.settings, code, limit, c.limit, errs)
			}
		}
	}
}

// The timer's unit takes what failed or is unknown for a success, because the file has it, and nothing else.
func TestTimerUnit(t *testing.T) {
	text, err := os.ReadFile("../../packaging/systemd/gpufabric-check.service")
	if err != nil {
		t.Fatal(err)
	}
	commandtest.Contains(t, string(text), fmt.Sprintf("\nSuccessExitStatus=%d 2\n", command.Failure), "\nLimitNOFILE=65536\n") // room for the files of all devices
	_, line, _ := strings.Cut(string(text), "ExecStart=/usr/bin/gpufabric_exporter ")
	line, _, _ = strings.Cut(line, "\n")
	file := filepath.Join(commandtest.Memory(t), "gpufabric.prom")
	args := strings.Fields(strings.Replace(line, "/var/lib/node_exporter/gpufabric.prom", file, 1))
	var out commandtest.Output
	if code := run(t, Options{}, &out, &out, append(args, "--scenario=port-down")...); code != command.Failure {
		t.Errorf("%s: exit code %d\n%s", line, code, out.String())
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
