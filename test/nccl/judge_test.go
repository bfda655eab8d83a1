// SPDX-License-Identifier: Apache-2.0

//go:build nccl

package nccl

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/cgroup"
	"gpufabric_exporter/internal/host/sockdiag"
	"gpufabric_exporter/internal/jobs/job"
	"gpufabric_exporter/internal/jobs/rank"
	"gpufabric_exporter/internal/nccl/settings"
)

// asJudge is the variable that makes this program one that judges the ranks with these PIDs, as the exporter does. Its
// standard input ends it.
const asJudge = "RIG_JUDGE"

// judge prints the jobs that it sees, reading after reading. The GPU driver is one that lists each rank on a
// busy GPU; with "hca", the node has an RDMA device that carries nothing.
func judge(pids []string, hca bool) error {
	r, err := rank.Open("/proc", rank.Sources{
		Variable: settings.Exposed, Conf: settings.ExposedConf,
		Sockets: func(namespace *os.File) (rank.Sockets, error) {
			if namespace != nil {
				return sockdiag.DialIn(namespace)
			}
			return sockdiag.Dial()
		},
		Cgroup: cgroup.New("/sys/fs/cgroup").ID,
		Verbs:  verbs,
	})
	if err != nil {
		return err
	}
	defer r.Close()
	var tracker job.Tracker
	out := json.NewEncoder(os.Stdout)
	for began := time.Now(); ; {
		now := began.Add(time.Since(began) / slowness())
		n := &fabric.Node{At: now, Policy: &fabric.Policy{}}
		for i, text := range pids {
			pid, _ := strconv.Atoi(text)
			n.GPUDriver.GPUs = append(n.GPUDriver.GPUs, fabric.GPU{
				Index: i, UUID: "GPU-" + strconv.Itoa(i), Utilization: fabric.Known(0.99, "", now),
				Processes: fabric.Known([]fabric.GPUProcess{{PID: pid}}, "", now),
			})
		}
		switch {
		case os.Getenv("RIG_GUEST") != "":
			if n.HCAs, err = guestHCAs(now); err != nil {
				return err
			}
		case hca:
			n.HCAs = []fabric.HCA{{Name: "mlx5_0", Ports: []fabric.Port{{Counters: fabric.PortCounters{
				PMA: fabric.Known([]fabric.Counter{{Name: "port_xmit_data", Value: fabric.Known(uint64(1), "", now)}}, "", now),
			}}}}}
		}
		list, netns, err := r.Read(&n.GPUDriver, now)
		if n.Ranks = fabric.Known(list, "", now); err != nil {
			n.Ranks = fabric.UnknownFact[[]fabric.RankCandidate](fabric.ReasonOf(err), "", now)
		}
		n.Host.NetNS = netns
		if err := out.Encode(tracker.Update(n).List); err != nil {
			return nil // nobody reads any more
		}
		time.Sleep(1050 * time.Millisecond * slowness())
	}
}

// A judgement is the job of ranks after a reading, or the first one.
type judgement struct {
	job.Job
	all   []job.Job
	after time.Duration
}

func (j judgement) String() string {
	v := j.Verdict
	return strings.TrimSpace(v.State() + " " + string(v.Way) + " " + string(v.Cause) + " " + string(v.Reason))
}

// nobody in watch is a judge without privileges.
const nobody = "nobody"

// watch starts a judge of ranks and returns what it says. how is a command that begins it, after nobody or not.
func watch(t *testing.T, ranks []*process, hca string, how ...string) func() judgement {
	t.Helper()
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if len(how) > 0 && how[0] == nobody {
		attributes.Credential, how = &syscall.Credential{Uid: 65534, Gid: 65534}, how[1:]
	}
	args := append(slices.Clone(how), "/proc/self/fd/3") // which whoever has no way to the file can run, too
	for _, p := range ranks {
		args = append(args, strconv.Itoa(p.Pid))
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), asJudge + "=1", "RIG_HCA=" + hca, "RIG_GUEST=" + os.Getenv("RIG_GUEST")}
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{exe}
	cmd.SysProcAttr = attributes
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines, began := bufio.NewScanner(out), time.Now()
	lines.Buffer(nil, 1<<20)
	return func() judgement {
		t.Helper()
		var list []job.Job
		if !lines.Scan() {
			t.Fatalf("the judge ended: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &list); err != nil || len(list) > 1 && !*guest {
			t.Fatalf("the judge says %s: %v", lines.Bytes(), err)
		}
		j := judgement{all: list, after: time.Since(began)}
		if len(list) == 1 || len(list) > 1 && *guest { // there the environment of a rank may take longer to read than it may
			j.Job = list[0]
		}
		return j
	}
}
