// SPDX-License-Identifier: Apache-2.0

package log

import "testing"

// TestStrip has what launchers write before a line, alone and together.
func TestStrip(t *testing.T) {
	none := Origin{Rank: Unknown, PID: Unknown}
	for name, tt := range map[string]struct {
		before string
		want   func(o *Origin)
	}{
		"nothing":             {"", func(*Origin) {}},
		"torchrun":            {"[rank3]:", func(o *Origin) { o.Rank = 3 }},
		"torchrun, elastic":   {"[default5]:", func(*Origin) {}},
		"PyTorch":             {"[rank3]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 3] ", nil},
		"Ray":                 {"(WorkerDict pid=31, ip=10.7.0.3) ", func(o *Origin) { o.PID, o.Host = 31, "10.7.0.3" }},
		"Ray in colours":      {"\x1b[36m(Worker pid=31)\x1b[0m ", func(o *Origin) { o.PID = 31 }},
		"vLLM":                {"(EngineCore_DP0 pid=77) ", func(o *Origin) { o.PID = 77 }},
		"log of vLLM":         {"(Worker_TP1 pid=77) ERROR 02-12 19:57:26 [multiproc.py:572] ", func(o *Origin) { o.PID = 77 }},
		"SkyPilot":            {"(head, rank=0, pid=5) [node-a:3]:", func(o *Origin) { o.Rank, o.PID, o.Host = 0, 5, "node-a" }},
		"srun --label":        {"12: ", func(o *Origin) { o.Rank = 12 }},
		"srun, padded":        {" 2: ", func(o *Origin) { o.Rank = 2 }},
		"mpirun --tag-output": {"[1,9]<stderr>:", func(o *Origin) { o.Rank = 9 }},
		"kubectl --prefix":    {"[pod/job-worker-1/trainer] ", func(o *Origin) { o.Host = "job-worker-1" }},
		"containerd":          {"2026-01-02T03:04:05.600000000Z stdout F ", func(o *Origin) { o.Time = "2026-01-02 03:04:05" }},
		"docker compose":      {"trainer-1  | ", func(o *Origin) { o.Host = "trainer-1" }},
		"Python":              {"2026-01-02 03:04:05,678 ", func(o *Origin) { o.Time = "2026-01-02 03:04:05" }},
		"SGLang":              {"[2026-01-02 03:04:05 TP0] ", func(o *Origin) { o.Time = "2026-01-02 03:04:05" }},
		"dmesg":               {"[ 1203.447281] ", func(*Origin) {}},
		"dmesg -T":            {"[Fri Jan  2 03:04:05 2026] ", func(o *Origin) { o.Time = "2026-01-02 03:04:05" }},
		"syslog":              {"Jan  2 03:04:05 ", func(*Origin) {}},
		"a log of Kubernetes": {"2026-01-02T03:04:05.6Z [pod/a/b] [rank1]: ", func(o *Origin) { o.Time, o.Host, o.Rank = "2026-01-02 03:04:05", "a", 1 }},
		"of Slurm and Ray":    {"3: (Worker pid=9) [rank3]: ", func(o *Origin) { o.Rank, o.PID = 3, 9 }},
		"two times":           {"2026-01-02T03:04:05Z 2027-01-02 03:04:05 ", func(o *Origin) { o.Time = "2026-01-02 03:04:05" }},
		"a zone":              {"2026-01-02T03:04:05.678+01:00 ", func(o *Origin) { o.Time = "2026-01-02 03:04:05" }},
	} {
		t.Run(name, func(t *testing.T) {
			const rest = "ValueError: x"
			got, want := Strip(tt.before+rest), none
			if got.Stream = ""; got.Rest != rest {
				t.Errorf("left %q", got.Rest)
			}
			if tt.want == nil {
				return
			}
			if tt.want(&want); got.Rank != want.Rank || got.Host != want.Host || got.PID != want.PID || got.Time != want.Time {
				t.Errorf("%+v, expected %+v", got, want)
			}
		})
	}
	for _, line := range []string{"ValueError: expected 3 [rank3]", "(a parenthesis) x", "a | b c", "[a list, of] words", "12:30", "[", "(", "1.5 x", "99: "} {
		if o := Strip(line); line != "99: " && o.Rest != line {
			t.Errorf("%q is left of %q", o.Rest, line)
		}
	}
}
