// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpufabric_exporter/alerts"
)

// forbidden are commands that no text may advise: they stop every card of a kind, that of the management
// network among them.
var forbidden = regexp.MustCompile(`(modprobe -r|rmmod) +(mlx5|mlx4|bnxt|ice\b|irdma|ionic|ib_core|ib_uverbs|nvidia\b)|(openibd|network|networking|NetworkManager) +restart|` +
	`restart +(openibd|network|networking|NetworkManager|systemd-networkd|sshd|kubelet|containerd)\b|mlxfwreset +-d|tc qdisc (replace|del)|iptables -F|kill -9 -1|scontrol reconfigure|nmcli networking off`)

// guarded are kinds of commands that harm in some place: running jobs, the operator's own connection, guests,
// hardware of other vendors. Each has words that have to stand before it in the same step, and an example.
var guarded = []struct {
	command, words *regexp.Regexp
	example        string
	composed       bool // the source has the command in pieces: what it makes of them is judged
}{
	{command: regexp.MustCompile(`ip link set (dev )?\S+ down`), words: regexp.MustCompile(`default`), example: "ip link set eth0 down"},
	{command: regexp.MustCompile(`ethtool (-A|-s|--set-\S+) |ip link set (dev )?\S+ mtu`), words: drains, example: "ip link set dev <interface> mtu 9000"},
	{command: regexp.MustCompile(`mlxfwmanager -|mlxconfig (-\S+ \S+ )*(set|reset) `), words: drains, example: "mlxconfig -d <address> set A=1"},
	{command: regexp.MustCompile(`devlink dev reload|mlxfwreset `), words: regexp.MustCompile(`default route|management|storage|on purpose`), example: "devlink dev reload pci/0000:1a:00.0"},
	{command: regexp.MustCompile(`devlink dev reload|mlxfwreset `), words: regexp.MustCompile(`(?i)drain|no job|reset|on purpose`), example: "mlxfwreset -d mlx5_0 reset"},
	{command: regexp.MustCompile(`/(unbind|remove)\b`), words: regexp.MustCompile(`default`), example: "echo 1 > /sys/bus/pci/devices/0000:1a:00.0/remove"},
	{command: regexp.MustCompile(`bus/pci/rescan`), words: regexp.MustCompile(`(?i)drain|out of (jobs|service)`), example: "echo 1 > /sys/bus/pci/rescan"},
	{command: regexp.MustCompile(`setpci -s`), words: regexp.MustCompile(`guests|virtual machines`), example: "setpci -s 0000:15:01.0 ECAP_ACS+0x6.w=0000"},
	{command: regexp.MustCompile(`--gpu-reset|nvidia-smi (-i \S+ )?(-r\b|-mig [01])`), words: drains, example: "nvidia-smi -i 0 -r"},
	{command: regexp.MustCompile(`rmmod |modprobe -r `), words: drains, example: "rmmod nvidia_peermem"},
	{command: regexp.MustCompile(`restart nvidia-(fabricmanager|imex)`), words: drains, example: "systemctl restart nvidia-imex"},
	{command: regexp.MustCompile(`rdma (system set|dev set \S+ name)`), words: drains, example: "rdma system set netns shared"},
	{
		command: regexp.MustCompile(`mlnx_qos -i \S+ -|dcb (pfc|app|ets|buffer) (set|replace|add|del) |niccli -dev \S+ (pfc|apptlv|ets) `), words: drains,
		example: "mlnx_qos -i <interface> --pfc 0,0,0,1,0,0,0,0", composed: true,
	},
}

var drains = regexp.MustCompile(`(?i)drain|no job|without jobs`)

// harm is what is wrong with the commands of a step; empty: nothing.
func harm(step string, source bool) string {
	if found := forbidden.FindString(step); found != "" {
		return fmt.Sprintf("%q is never advised", found)
	}
	for _, g := range guarded {
		if at := g.command.FindStringIndex(step); at != nil && !g.words.MatchString(step[:at[0]]) && (!source || !g.composed) {
			return fmt.Sprintf("says %q before it says when not (%s)", step[at[0]:at[1]], g.words)
		}
	}
	return ""
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
	for _, pattern := range []string{"../../../docs/*.md", "../../../README.md", "../../diagnose/*.go", "../../diagnose/*/*.go", "../../verdict/*.go", "../../nccl/*/*.go", "../../jobs/*/*.go", "../../report/*.go"} {
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
	for name, text := range texts {
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			if wrong := harm(line, strings.HasSuffix(name, ".go")); wrong != "" {
				t.Errorf("%s:%d: %s", name, i+1, wrong)
			}
		}
	}
	for _, g := range guarded {
		if !g.command.MatchString(g.example) || harm(g.example, false) == "" {
			t.Errorf("%q is not guarded by %s", g.example, g.command)
		}
	}
	if !forbidden.MatchString("`modprobe -r mlx5_ib mlx5_core; modprobe mlx5_ib`") {
		t.Error("the command that cut an operator off is not forbidden")
	}
}
