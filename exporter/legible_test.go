// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gpufabric_exporter/internal/simulator"
)

func TestLegible(t *testing.T) {
	for was, want := range map[string]string{
		"":                              "",
		"mlx5_0: ok, 20 °C é 中\n\tx\n":  "mlx5_0: ok, 20 °C é 中\n\tx\n",
		"\x1b[2J\r\a\x00\x7f":           `\u001b[2J\u000d\u0007\u0000\u007f`,
		"\u009b31m\u0085":               `\u009b31m\u0085`,
		"\x9b31m":                       "\ufffd31m",
		"a\u202eb\u2066c\u200bd\ufeffe": `a\u202eb\u2066c\u200bd\ufeffe`,
		"\u00a0\u2028\u2029\u00ad":      `\u00a0\u2028\u2029\u00ad`,
		"\u3164\u115f\u034f\ufe0f":      `\u3164\u115f\u034f\ufe0f`, // letters and marks of no width
		"\U000e0041":                    `\udb40\udc41`,             // a tag character
	} {
		var b bytes.Buffer
		if n, err := (legible{&b}).Write([]byte(was)); n != len(was) || err != nil || b.String() != want {
			t.Errorf("%q became %q, want %q (%d, %v)", was, b.String(), want, n, err)
		}
		var back string
		if err := json.Unmarshal([]byte(`"`+strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(want)+`"`), &back); err != nil || back != strings.ToValidUTF8(was, "\ufffd") {
			t.Errorf("in JSON %q is %q, %v", want, back, err)
		}
	}
	if got := oneLine("a\nb\tc"); got != `a\u000ab\u0009c` {
		t.Error(got)
	}
}

// hostile is a part of a name or value: it would clear a terminal, set its title, turn the direction of writing and hide.
const hostile = "\x1b[2J\x1b]0;x\a\u009b31m\u202e\u200b\x7f"

// TestOutputIsLegible: device names, firmware, NCCL's settings and names of hosts do nothing to a terminal, whichever
// command prints them, and JSON stays JSON.
func TestOutputIsLegible(t *testing.T) {
	s, err := simulator.Find("pfc-off")
	if err != nil {
		t.Fatal(err)
	}
	n := s.Build()
	n.Host.Name += hostile
	for i := range n.HCAs {
		n.HCAs[i].Name += hostile
		n.HCAs[i].Description = hostile
	}
	n.HCAs[0].Firmware += hostile
	n.HCAs[1].Firmware = "\x9b2J\xff"
	for i := range n.NetDevs { // also those that GIDs name
		n.NetDevs[i].Carrier = i%2 == 0
	}
	n.Files["etc/nccl.conf"] = "NCCL_IB_HCA=" + hostile + "\nNCCL_IB_TC=" + hostile + "\nNCCL_" + hostile + "=1\n\x9b2J\xff=" + hostile + "\nNCCL_NET=\x9b2J\n"
	tree, err := n.Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs()}
	for _, args := range [][]string{
		{"check", "--verbose"},
		{"check", "--output=json"},
		{"topology"},
		{"topology", "--output=json"},
		{"check", "--log.format=json", "--log.level=debug"},
		{"capture", "--output=" + filepath.Join(t.TempDir(), "x"+hostile)},
		{"capture", "--output=" + filepath.Join(t.TempDir(), hostile, "x")},
		{"check", "--only=" + hostile},
	} {
		t.Run(strings.Join(args[:min(2, len(args))], " "), func(t *testing.T) {
			var out, errs output
			Run(t.Context(), append(args, paths...), Options{Stdout: &out, Stderr: &errs})
			all := out.String() + errs.String()
			hidden := func(r rune) bool {
				return r != '\n' && !unicode.IsPrint(r)
			}
			if i := strings.IndexFunc(all, hidden); i >= 0 || !utf8.ValidString(all) {
				t.Errorf("prints %q", all[max(0, i-60):min(len(all), max(i, 0)+60)])
			}
			if len(args) == 2 && args[1] == "--output=json" && !json.Valid([]byte(out.String())) {
				t.Errorf("no JSON: %s", out.String())
			}
			if len(all) < 50 {
				t.Errorf("prints only %q", all)
			}
		})
	}
}

// TestCredentialsAreMasked: what NCCL's files have of passwords is on no page, in no verdict and in no line of the log.
func TestCredentialsAreMasked(t *testing.T) {
	s, err := simulator.Find("healthy")
	if err != nil {
		t.Fatal(err)
	}
	n := s.Build()
	n.Files["etc/nccl.conf"] = `NCCL_IB_HCA=alice:hunter2@mlx5_9
NCCL_IB_TC=https://alice:hunter2@metrics.example/x
NCCL_DEBUG=password=hunter2
NCCL_ACME_TOKEN=hunter2
NCCL_ALGO=https://hunter2@h
NCCL_IB_TC=token=hunter2
NCCL_x://alice:hunter2@h=1
`
	tree, err := n.Materialise(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"--path.sysfs=" + tree.Sysfs(), "--path.procfs=" + tree.Procfs(), "--path.rootfs=" + tree.Rootfs(), "--log.level=debug"}
	for _, args := range [][]string{{"check", "--verbose"}, {"check", "--output=json"}, {"topology"}} {
		var out, errs output
		Run(t.Context(), append(args, paths...), Options{Stdout: &out, Stderr: &errs})
		lacks(t, out.String()+errs.String(), "hunter2", "alice")
		if args[0] == "check" {
			contains(t, out.String(), "NCCL_IB_HCA=***@mlx5_9", "***")
		}
	}
	p := start(t, nil, paths...)
	p.ready()
	_, page, _ := p.get("/")
	contains(t, page, "NCCL_IB_HCA", "***@mlx5_9", "https://***@metrics.example/x", "password=***")
	_, metrics, _ := p.get("/metrics")
	lacks(t, page+metrics+p.stderr.String(), "hunter2", "alice")

	var b bytes.Buffer
	log := newLogger(&b, formatLogfmt, slog.LevelInfo)
	log.With("url", "https://alice:hunter2@h").Info("said", "err", errors.New("token=hunter2 is refused"))
	lacks(t, b.String(), "hunter2")
	contains(t, b.String(), "https://***@h", "token=*** is refused")
}
