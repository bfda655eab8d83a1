// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/SIGNATURES.md, and releases.tsv where NCCL_GIT is set")

func judgements() (all []Signature) {
	for _, s := range Judgements() {
		all = append(all, *s)
	}
	return all
}

func TestDocument(t *testing.T) {
	const path = "../../../docs/SIGNATURES.md"
	var b bytes.Buffer
	if err := WriteDocument(&b); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("%s is not of these tables (make docs): %v", path, err)
	}
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range append(All(), judgements()...) {
		if seen[s.ID] || s.ID == "" || s.Cause == "" || s.Remedy == "" || s.Kind == "" || len(s.Forms) == 0 && !IsArea(&s) && s.ID != ProgramError.ID && s.ID != ProgramWarned.ID {
			t.Errorf("%q is there twice or not complete", s.ID)
		}
		seen[s.ID] = true
		if s.Runbook != "" {
			if _, err := os.Stat("../../../alerts/runbooks/" + s.Runbook); err != nil {
				t.Errorf("%s: %v", s.ID, err)
			}
		}
		if strings.ContainsAny(s.Cause+s.Remedy, "|\n\t") {
			t.Errorf("%s: a cell of the document ends early", s.ID)
		}
		for _, f := range s.Forms {
			if len(f.Text) < keyBytes {
				t.Errorf("%s: %q: expected at least %d bytes", s.ID, f.Text, keyBytes)
			}
			if f.File == "" && s.Source != NCCL {
				t.Errorf("%s: %q: expected the source of what is not NCCL's", s.ID, f.Text)
			}
		}
	}
}

// The recorded releases are of the wordings in the table: each is printed by a release, and none is left over.
func TestReleasesAreRecorded(t *testing.T) {
	want := wordings()
	for _, r := range Releases() {
		if !slices.Contains(want, r.In) {
			t.Errorf("releases.tsv has %q, which is no wording", r.In)
		}
		if !regexp.MustCompile(`^2\.[0-9]`).MatchString(r.Tags) || !strings.Contains(r.Source, ":") {
			t.Errorf("releases.tsv: %+v", r)
		}
	}
	for _, in := range want {
		if !slices.ContainsFunc(Releases(), func(r Release) bool { return r.In == in }) {
			t.Errorf("no release is known to print %q", in)
		}
	}
}

// TestReleases searches all tags from 2.18 on.
func TestReleases(t *testing.T) {
	git := os.Getenv("NCCL_GIT")
	if git == "" {
		t.Skip("NCCL_GIT is not set: expected a clone of github.com/NVIDIA/nccl with its tags")
	}
	found := search(t, git)
	var rows strings.Builder
	for _, in := range wordings() {
		rows.WriteString(found[in])
	}
	want := rows.String()
	if *update {
		if err := os.WriteFile("releases.tsv", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if releases != want {
		t.Errorf("releases.tsv is not of these tags (NCCL_GIT=%s go test -run TestReleases -update)\n%s", git, want)
	}
}

// in is the text in the source.
func (f Form) in() string { return cmp.Or(f.In, f.Text) }

func wordings() []string {
	var all []string
	for _, s := range append(nccl(), judgements()...) {
		for _, f := range s.Forms {
			if f.File == "" && !slices.Contains(all, f.in()) {
				all = append(all, f.in())
			}
		}
	}
	return all
}

// search returns the row of each wording.
func search(t *testing.T, git string) map[string]string {
	t.Helper()
	tags := strings.Fields(output(t, "-C", git, "tag", "--list", "--sort=v:refname", "v2.1[89]*", "v2.[23]*"))
	tags = slices.DeleteFunc(tags, func(tag string) bool { return !regexp.MustCompile(`^v2\.\d\d\.\d+-1$`).MatchString(tag) })
	if len(tags) < 20 {
		t.Fatalf("%s has the tags %v: expected all releases from 2.18 on", git, tags)
	}
	wanted := wordings()
	places := make([]map[string]string, len(tags)) // of each tag: wording to file:line
	for i, tag := range tags {
		places[i] = map[string]string{}
		args := []string{"-C", git, "grep", "-nF"}
		for _, in := range wanted {
			args = append(args, "-e", in)
		}
		for line := range strings.Lines(output(t, append(args, tag, "--", "src")...)) {
			parts := strings.SplitN(line, ":", 4)
			for _, in := range wanted {
				if _, known := places[i][in]; !known && strings.Contains(parts[3], in) && !strings.Contains(parts[3], "TRACE(") {
					places[i][in] = parts[1] + ":" + parts[2]
				}
			}
		}
	}
	rows := map[string]string{}
	for _, in := range wanted {
		var runs []string
		newest := ""
		for i := 0; i < len(tags); i++ {
			if places[i][in] == "" {
				continue
			}
			first := i
			for i+1 < len(tags) && places[i+1][in] != "" {
				i++
			}
			run := version(tags[first])
			if i > first {
				run += "-" + version(tags[i])
			}
			runs, newest = append(runs, run), places[i][in]
		}
		if newest != "" {
			rows[in] = fmt.Sprintf("%s\t%s\t%s\n", in, strings.Join(runs, ", "), newest)
		}
	}
	return rows
}

func version(tag string) string { return strings.TrimSuffix(strings.TrimPrefix(tag, "v"), "-1") }

func output(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		source        Source
		message, want string
		code          int
		peer          string
	}{
		{NCCL, "NET/IB : Got completion from peer 10.0.0.2<40123> with error 12, opcode 0, len 0, vendor err 129 (Recv)", "completion_retry_exceeded", 12, "10.0.0.2<40123>"},
		{NCCL, "NET/IB: Got completion from peer 10.0.0.2<40123> with status=5 opcode=0 len=0 vendor err 244 (Recv) hca mlx5_0", "completion_flushed", 5, "10.0.0.2<40123>"},
		{NCCL, "NET/IB: Got completion from peer fe80::1%eth0<4> with status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=81  hca mlx5_0", "completion_local_protection", 4, "fe80::1%eth0<4>"},
		{NCCL, "NET/IB: Got completion from peer 10.0.0.2<1> with status=99999999 opcode=0", "completion_failed", NoCode, "10.0.0.2<1>"},
		{NCCL, "Call to ibv_create_qp failed with error Cannot allocate memory", "qp_create", NoCode, ""},
		{NCCL, "Call to ibv_reg_mr_iova2 failed with error Bad address errno 14", "memory_registration", NoCode, ""},
		{NCCL, "socketProgress: Connection closed by remote peer gpu2<41000>", "peer_closed", NoCode, "gpu2<41000>"},
		{NCCL, "a warning of a release to come", "", NoCode, ""},
		{Kernel, "[1.0] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.", "xid_fallen_off", 79, ""},
		{Kernel, "NVRM: Xid (PCI:0000:3b:00): 149, NETIR_LINK_EVT", "xid_nvlink", 149, ""},
		{Kernel, "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "sxid", 20034, ""},
		{Kernel, "pcieport 0000:16:01.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer", "aer_fatal", NoCode, ""},
		{Kernel, "pcieport 0000:16:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", "aer_corrected", NoCode, ""},
		{PyTorch, "[rank0]:[E1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)", "pytorch_watchdog_timeout", NoCode, ""},
	} {
		s, code := Match(tt.source, tt.message)
		id := ""
		if s != nil {
			id = s.ID
		}
		if id != tt.want || code != tt.code || Peer(tt.message) != tt.peer {
			t.Errorf("%q is %q with code %d of peer %q, expected %q, %d, %q", tt.message, id, code, Peer(tt.message), tt.want, tt.code, tt.peer)
		}
	}
}

// Of lines at the level INFO only notes are known.
func TestMatchInfo(t *testing.T) {
	for message, want := range map[string]string{
		"Failed to open libibverbs.so[.1]":               "ib_library_missing",
		"Count not open libibverbs.so.1":                 "ib_library_missing",
		"Count not open libibverbs.so":                   "", // the next name may lead to it
		"Call to ibv_create_qp failed with error EAGAIN": "", // it is tried again
	} {
		id := ""
		if s := MatchInfo(message); s != nil {
			id = s.ID
		}
		if id != want {
			t.Errorf("%q is %q, expected %q", message, id, want)
		}
	}
}
