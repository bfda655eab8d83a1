// SPDX-License-Identifier: Apache-2.0

package check

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpufabric_exporter/alerts"
)

// forbidden are commands that no text may advise: they stop every card of a kind, that of the management network among them.
var forbidden = regexp.MustCompile(`(modprobe -r|rmmod) +(mlx5|mlx4|bnxt|ice\b|irdma|ionic|ib_core|ib_uverbs|nvidia\b)|(openibd|network|networking|NetworkManager) +restart|` +
	`restart +(openibd|network|networking|NetworkManager|systemd-networkd|sshd|kubelet|containerd)\b|mlxfwreset +-d|tc qdisc (replace|del)|iptables -F|kill -9 -1|scontrol reconfigure|nmcli networking off`)

// guarded are commands that harm in some place, each with words that have to stand before it in the same step.
var guarded = map[*regexp.Regexp]*regexp.Regexp{
	regexp.MustCompile(`ip link set (dev )?\S+ down`):                    regexp.MustCompile(`default`),
	regexp.MustCompile(`ethtool -A|mlxfwmanager -d|dev (NETDEV|%s) mtu`): regexp.MustCompile(`(?i)drain`),
	regexp.MustCompile(`devlink dev reload`):                             regexp.MustCompile(`default route|management|on purpose`),
	regexp.MustCompile(`/unbind`):                                        regexp.MustCompile(`default`),
	regexp.MustCompile(`setpci -s`):                                      regexp.MustCompile(`guests|virtual machines`),
	regexp.MustCompile(`--gpu-reset`):                                    regexp.MustCompile(`(?i)drain`),
	regexp.MustCompile(`rmmod `):                                         regexp.MustCompile(`(?i)no job|drain`),
	regexp.MustCompile(`restart nvidia-(fabricmanager|imex)`):            regexp.MustCompile(`(?i)drain`),
	regexp.MustCompile(`mlnx_qos -i NETDEV -|dcb pfc set dev NETDEV`):    regexp.MustCompile(`(?i)drain|NVIDIA:|Broadcom`),
}

// Nobody loses a node or the way to it by following a runbook, a document or a remedy.
func TestAdviceDoesNotHarm(t *testing.T) {
	texts := map[string]string{}
	err := fs.WalkDir(alerts.Files(), "runbooks", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			var text []byte
			text, err = fs.ReadFile(alerts.Files(), path)
			texts[path] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"../../../docs/*.md", "../../diagnose/*.go", "../../signature/*.go", "../../../README.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") {
				texts[name] = string(text)
			}
		}
	}
	seen := map[*regexp.Regexp]bool{}
	for name, text := range texts {
		for i, line := range strings.Split(text, "\n") {
			if found := forbidden.FindString(line); found != "" {
				t.Errorf("%s:%d: %q is never advised", name, i+1, found)
			}
			for command, words := range guarded {
				if at := command.FindStringIndex(line); at != nil {
					seen[command] = true
					if !words.MatchString(line[:at[0]]) {
						t.Errorf("%s:%d: says %q before it says when not (%s)", name, i+1, line[at[0]:at[1]], words)
					}
				}
			}
		}
	}
	for command := range guarded {
		if !seen[command] {
			t.Errorf("no text has %s: the list is out of date", command)
		}
	}
	if !forbidden.MatchString("`modprobe -r mlx5_ib mlx5_core; modprobe mlx5_ib`") {
		t.Error("the command that cut an operator off is not forbidden")
	}
}
