// SPDX-License-Identifier: Apache-2.0

package log

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Settings count where a line sets or lists them, and not where one speaks of them.
func TestGiven(t *testing.T) {
	for line, want := range map[string][]Setting{
		"export NCCL_ZZZ=7":                             {{Name: "NCCL_ZZZ", Value: "7"}},
		"NCCL_ZZZ=7 NCCL_YYY=9 ./zzz -b 7":              {{Name: "NCCL_ZZZ", Value: "7"}, {Name: "NCCL_YYY", Value: "9"}},
		"mpirun -np 7 -x NCCL_ZZZ=7 -x NCCL_YYY=9 ./zz": {{Name: "NCCL_ZZZ", Value: "7"}, {Name: "NCCL_YYY", Value: "9"}},
		"docker run -e NCCL_ZZZ=7 zzz":                  {{Name: "NCCL_ZZZ", Value: "7"}},
		"try NCCL_ZZZ=7 or NCCL_YYY=9":                  nil,
		"zzz: try export NCCL_ZZZ=7":                    nil,
		"+ export NCCL_ZZZ=7":                           {{Name: "NCCL_ZZZ", Value: "7"}},
		"NCCL_zzz=7":                                    nil,
		"ENV NCCL_ZZZ=7":                                {{Name: "NCCL_ZZZ", Value: "7"}},
		`  NCCL_ZZZ: "7"`:                               {{Name: "NCCL_ZZZ", Value: "7"}},
		"environ({'ZZZ': 'z', 'NCCL_ZZZ': '7'})":        {{Name: "NCCL_ZZZ", Value: "7"}},
		"zzz NCCL_ZZZ: 7":                               nil,
		"#NCCL_ZZZ=7":                                   nil,
		"CUDA_VISIBLE_DEVICES=7,9 ./zzz":                {{Name: "CUDA_VISIBLE_DEVICES", Value: "7,9"}},
	} {
		l := New()
		l.Take(line)
		if !slices.Equal(l.Settings, want) {
			t.Errorf("%q: %v, expected %v", line, l.Settings, want)
		}
	}
}

// What a file lists of limits, GPUs, packages and addresses is kept, by whatever program it is from.
func TestListed(t *testing.T) {
	for lines, want := range map[string]string{
		"$ srun bash -c \"ulimit -l\"\n77":                  "77 0 0 [] []",
		"$ ulimit -l\nunlimited":                            "unlimited 0 0 [] []",
		"max locked memory       (kbytes, -l) 77":           "77 0 0 [] []",
		"Max locked memory         7168      7168    bytes": "7 0 0 [] []",
		"CUDA_VISIBLE_DEVICES=7,9":                          " 2 0 [] []",
		"torchrun --nproc_per_node=7 zzz.py":                " 0 7 [] []",
		"nvidia-nccl-cu77     7.7.7":                        " 0 0 [nvidia-nccl-cu77 7.7.7] []",
		"nvidia-nccl-cu77==7.7.7":                           " 0 0 [nvidia-nccl-cu77 7.7.7] []",
		"    inet6 fd00::7/64 scope global":                 " 0 0 [] [fd00::7]",
	} {
		l := New()
		for line := range strings.SplitSeq(lines, "\n") {
			l.Answer(line)
			l.Take(line)
		}
		g := &l.Given
		if got := fmt.Sprintf("%s %d %d %s %s", g.Memlock, g.Visible, g.PerHost, g.Packages, g.Addresses); got != want {
			t.Errorf("%q: %q, expected %q", lines, got, want)
		}
	}
	l := New()
	for _, line := range []string{"    - name: NCCL_ZZZ", `      value: "7"`} {
		l.Answer(line)
		l.Take(line)
	}
	if want := []Setting{{Name: "NCCL_ZZZ", Value: "7"}}; !slices.Equal(l.Settings, want) {
		t.Errorf("%v, expected %v", l.Settings, want)
	}
}

// A line of NCCL 2.3 and earlier, and a warning that names no process, have what they name.
func TestOldEntries(t *testing.T) {
	if e, ok := parseEntry("gpu7:41:77 [7] INFO Using internal Network Socket"); !ok || e.Host != "gpu7" || e.Level != Info {
		t.Errorf("%+v", e)
	}
	if e, ok := parseEntry("[1,7]<stdout>:gpu7:41:77 [7] INFO Using internal Network Socket"); !ok || e.Host != "gpu7" {
		t.Errorf("%+v", e)
	}
	for _, line := range []string{"[7] INFO zzz", "zzz [7] INFO zzz", "2026-01-02 03:04:05 [77] INFO zzz"} {
		if e, ok := parseEntry(line); ok {
			t.Errorf("%q: %+v", line, e)
		}
	}
	for line, want := range map[string]string{
		"[7] graph/zzz.cc:7 NCCL WARN zzz":                                     "graph/zzz.cc:7",
		"[0007/0077] [misc/zzz.cc:7] [gpu7:pid=7] NCCL WARN zzz":               "misc/zzz.cc:7",
		"10.7.0.7:77 NCCL WARN zzz":                                            "",
		"gpu7:41:77 [7] transport/zzz.cc:7 NCCL WARN zzz misc/yyy.cc:9 failed": "transport/zzz.cc:7",
	} {
		if e, _ := parseEntry(line); e.Place != want {
			t.Errorf("%q: %q, expected %q", line, e.Place, want)
		}
	}
}

// What a file shows of the node is kept, and prose about it is not.
func TestNode(t *testing.T) {
	for lines, want := range map[string]string{
		"0, Exclusive_Process":                                               "true false false 0",
		"zzz of Exclusive_Process mode":                                      "false false false 0",
		"CmaTotal: 0 kB\nCmaFree:    777 kB":                                 "false false true 0",
		"CmaTotal: 777 kB\nCmaFree:    77 kB":                                "false false false 0",
		"CmaFree:    777 kB":                                                 "false false false 0",
		"ls: cannot access '/zzz/memory_peers/amdkfd/version': No such file": "false true false 0",
		"mpirun -np 777 -x NCCL_ZZZ=7 ./zzz":                                 "false false false 777",
		"mpirun -np zzz -np":                                                 "false false false 0",
	} {
		l := New()
		for line := range strings.SplitSeq(lines, "\n") {
			l.Take(line)
		}
		n := &l.Node
		if got := fmt.Sprint(n.Exclusive, n.PeerMemory, n.FreeAboveAll, n.Processes); got != want {
			t.Errorf("%q: %q, expected %q", lines, got, want)
		}
	}
}
