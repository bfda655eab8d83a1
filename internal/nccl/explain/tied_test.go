// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"
)

// TestOfKernel: what the kernel writes is of all jobs of a host, so that it is certain only where something ties it to
// the job, and never fails work that ended.
func TestOfKernel(t *testing.T) {
	job := strings.ReplaceAll(complete, "gpu1:41:", "2026-07-07 07:07:07 gpu1:41:")
	const progress = "2026-07-07 07:17:07 step 7: loss 7\n2026-07-07 07:27:07 step 8: loss 7\n2026-07-07 07:37:07 step 9: loss 7\n"
	const ended = "{'train_runtime': 7.7}\n"
	oom := func(before, pid string) string {
		return before + "zzz invoked oom-killer: gfp_mask=0x7\n" + before + "Memory cgroup out of memory: Killed process " + pid + " (zzz) total-vm:7kB\n"
	}
	const uptime, early, now, later = "[ 777.777777] ", "[Thu Jul  2 07:07:07 2026] ", "[Tue Jul  7 07:17:07 2026] ", "2026-07-07T07:17:07 "
	const xid = "NVRM: Xid (PCI:0000:07:00): 79, pid=777, name=zzz, GPU has fallen off the bus.\n"
	for name, tt := range map[string]struct{ log, want string }{
		"a process of the job":       {job + oom(uptime, "41"), "FAILED certain host_out_of_memory"},
		"it comes first":             {oom(uptime, "41") + job, "FAILED certain host_out_of_memory"},
		"its host and time":          {job + progress + oom(later+"gpu1.zzz kernel: ", "777"), "FAILED certain host_out_of_memory"},
		"the job says it, too":       {job + oom(uptime, "777") + "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n", "FAILED certain host_out_of_memory"},
		"a rank was killed":          {job + oom(uptime, "777") + "exitcode: -9 (pid: 7)\n", "FAILED certain host_out_of_memory"},
		"the kernel alone":           {oom(uptime, "777"), "FAILED certain host_out_of_memory"},
		"of an unknown time":         {job + oom(uptime, "777"), "UNKNOWN possible host_out_of_memory"},
		"of an unknown process":      {job + progress + oom(now, "777"), "UNKNOWN possible host_out_of_memory"},
		"of days before":             {job + progress + oom(early, "777"), "OK"},
		"of another host":            {job + progress + oom(later+"zzz kernel: ", "777"), "UNKNOWN possible host_out_of_memory"},
		"of work that ended":         {job + progress + ended + oom(uptime, "777"), "OK"},
		"beside a failure":           {warn("transport/net_ib.cc:7", "NET/IB : mlx5_7:1 Got async event : port error") + warn("zzz:7", "Connect to 10.7.0.9<7> failed : Connection refused") + oom(early, "777"), "FAILED likely port_error"},
		"a GPU":                      {job + progress + now + xid, "FAILED likely xid_fallen_off"},
		"a GPU at a time not known":  {job + progress + uptime + xid, "FAILED likely xid_fallen_off"},
		"a GPU days before":          {job + progress + early + xid, "OK"},
		"a GPU after the end":        {job + progress + ended + uptime + xid, "OK"},
		"a GPU of a node, of a pod":  {job + progress + later + "zzz kernel: " + xid, "FAILED likely xid_fallen_off"},
		"a GPU of another host":      {complete + "zzz kernel: " + xid, "UNKNOWN possible xid_fallen_off"},
		"a GPU alone":                {early + xid, "FAILED likely xid_fallen_off"},
		"a GPU of the host, by name": {complete + "gpu1 kernel: " + xid, "FAILED likely xid_fallen_off"},
	} {
		if got := printed(read(t, tt.log)); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, expected %q\n%s", name, got, tt.want, tt.log)
		}
	}
}
