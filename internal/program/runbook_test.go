// SPDX-License-Identifier: Apache-2.0

package program

import (
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/simulator/simulatortest"
)

// printed is a command line of a page.
type printed struct{ page, line string }

var inline = regexp.MustCompile("`(gpufabric_exporter [^`]+)`")

// printedCommands returns the lines of all blocks of shell in the runbooks, and the commands of this program in their text.
func printedCommands(t *testing.T) []printed {
	t.Helper()
	pages, err := filepath.Glob("../../alerts/runbooks/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	var all []printed
	for _, file := range pages {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page, shell := filepath.Base(file), false
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "```"):
				shell = line == "```sh"
			case shell:
				all = append(all, printed{page, line})
			default:
				for _, m := range inline.FindAllStringSubmatch(line, -1) {
					all = append(all, printed{page, m[1]})
				}
			}
		}
	}
	return all
}

// Every line parses in the shells of operators, has no word in capitals that the first page does not explain, and asks the
// exporter in the one way that works with TLS and passwords.
func TestRunbookCommandsParse(t *testing.T) {
	first, err := os.ReadFile("../../alerts/runbooks/README.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]int{}
	for line := range strings.Lines(string(first)) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			for _, m := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(cells[1], -1) {
				explained[m[1]] = 0
			}
		}
	}
	var whole strings.Builder
	capitals := regexp.MustCompile(`(?:^|[ /=:])([A-Z][A-Z_]*[A-Z])\b`)
	quoted := regexp.MustCompile(`"[^"]*"|'[^']*'|#.*$`)
	own := []string{"TOTAL", "PERFORMANCE", "ECC", "EXPORTER"} // words of the tools themselves
	commands := printedCommands(t)
	for _, c := range commands {
		fmt.Fprintln(&whole, c.line)
		for _, m := range capitals.FindAllStringSubmatch(quoted.ReplaceAllString(c.line, ""), -1) {
			if _, known := explained[m[1]]; !known && !slices.Contains(own, m[1]) {
				t.Errorf("%s: %s stands in %q and not in README.md", c.page, m[1], c.line)
			}
		}
		if strings.Contains(c.line, "curl ") && !regexp.MustCompile(`curl -sSf "\$\{EXPORTER:-http://(localhost|NODE):10791\}/`).MatchString(c.line) {
			t.Errorf("%s: %q does not ask $EXPORTER", c.page, c.line)
		}
		for _, sh := range [][]string{{"bash", "-n"}, {"dash", "-n"}, {"zsh", "-n"}} {
			if _, err := exec.LookPath(sh[0]); err != nil {
				continue
			}
			cmd := exec.CommandContext(t.Context(), sh[0], sh[1:]...)
			cmd.Stdin = strings.NewReader(c.line + "\n")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %q: %v %s", c.page, sh[0], c.line, err, out)
			}
		}
	}
	pages, _ := filepath.Glob("../../alerts/runbooks/*.md")
	for _, p := range pages {
		text, _ := os.ReadFile(p)
		whole.Write(text)
	}
	for word := range explained {
		if n := len(regexp.MustCompile(`\b`+word+`\b`).FindAllString(whole.String(), -1)); n < 2 {
			t.Errorf("README.md explains %s, which no page has", word)
		}
	}
	t.Logf("%d commands", len(commands))
}

// Metrics that runbooks search for exist: with a name that changed, a search would look like a node without findings.
func TestRunbookMetrics(t *testing.T) {
	pattern := regexp.MustCompile(`/metrics" \| grep (?:-E )?(?:"([^"]+)"|'([^']+)'|(\S+))`)
	n := 0
	for _, c := range printedCommands(t) {
		m := pattern.FindStringSubmatch(c.line)
		if m == nil {
			continue
		}
		for _, one := range alternatives(m[1] + m[2] + m[3]) {
			n++
			re := regexp.MustCompile(one)
			if !slices.ContainsFunc(collector.Catalogue(), func(f *collector.Family) bool { return re.MatchString(f.FullName()) }) {
				t.Errorf("%s: no metric is like %q", c.page, one)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d patterns", n)
	}
}

// alternatives takes "a_(b|c)|d" apart: a_b, a_c, d.
func alternatives(s string) []string {
	if before, rest, found := strings.Cut(s, "("); found {
		middle, after, _ := strings.Cut(rest, ")")
		if i := strings.LastIndex(before, "|"); i >= 0 {
			return append(alternatives(before[:i]), alternatives(before[i+1:]+"("+rest)...)
		}
		tail, others, more := strings.Cut(after, "|")
		var all []string
		for one := range strings.SplitSeq(middle, "|") {
			all = append(all, before+one+tail)
		}
		if more {
			all = append(all, alternatives(others)...)
		}
		return all
	}
	return strings.Split(s, "|")
}

// Every command of this program, and every question to the exporter, runs as it is printed: on a node, against an exporter with
// TLS and a password, which curl knows from its own file as README.md says.
func TestRunbookCommandsRun(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("skipped: no curl here")
	}
	dir := t.TempDir()
	host := simulatortest.Host(t, "healthy")
	ca := commandtest.NewAuthority(t)
	ca.Issue("localhost", x509.ExtKeyUsageServerAuth)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	web := ca.Config("tls_server_config: {cert_file: localhost.crt, key_file: localhost.key}", "basic_auth_users: {prometheus: '"+string(hash)+"'}")
	p := start(t, Options{}, append(host, web, "--config.file=none")...)
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write(".curlrc", "cacert = \""+ca.Dir+"/ca.crt\"\nnetrc\n", 0o600)
	write(".netrc", "machine 127.0.0.1 login prometheus password secret\n", 0o600)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Stand-ins in front of the real programs write down how these end. That of this program makes the simulated node its host,
	// and stands where its configuration would be.
	site := write("site.yml", "expected: {compute_ports: 8, gpus: 8}\n", 0o600)
	write("gpufabric_exporter", fmt.Sprintf("#!/bin/sh\ncase \"$*\" in explain*) ;; *--config.check*) set -- \"$@\" --config.file=%s ;; *) set -- \"$@\" %s --config.file=%s ;; esac\n%s=1 %s \"$@\"\ncode=$?\necho \"gpufabric_exporter $code\" >>%s/codes\nexit $code\n",
		site, strings.Join(host, " "), site, asProgram, program, dir), 0o755)
	write("curl", fmt.Sprintf("#!/bin/sh\n%s \"$@\"\ncode=$?\necho \"curl $code\" >>%s/codes\nexit $code\n", curl, dir), 0o755)
	write("srun", "#!/bin/sh\nwhile [ \"$1\" != gpufabric_exporter ]; do shift; done\nexec \"$@\"\n", 0o755) // outside of an allocation
	for _, other := range []string{"ssh", "ping", "journalctl", "systemctl", "nvidia-smi", "dmesg", "rdma", "lsmod", "modinfo", "lspci", "ethtool", "mlxlink", "ip"} {
		write(other, "#!/bin/sh\nexit 0\n", 0o755)
	}
	run := func(line string) (codes []string, said string) {
		t.Helper()
		_ = os.Remove(dir + "/codes")
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.TempDir(), "EXPORTER=https://" + p.Addrs[0].String()}
		out, _ := cmd.CombinedOutput() // what counts is how each of its programs ended
		text, _ := os.ReadFile(dir + "/codes")
		return strings.Split(strings.TrimSpace(string(text)), "\n"), string(out)
	}
	fill := strings.NewReplacer("CHECK", "port_active", "PARTNER", "localhost", "NODE", "localhost", "NETDEV", "eth0", "JOB_LOG", write("job.log", "gpu-01:101:101 [0] NCCL INFO NCCL version 2.27.3+cuda12.8\n", 0o600), "FILE", dir+"/manifest.yml", ":PORT", ":1", "DEV", "mlx5_0")
	run("gpufabric_exporter check --write-manifest " + dir + "/manifest.yml")
	done, ran := map[string]bool{}, 0
	for _, c := range printedCommands(t) {
		ours := strings.Contains(c.line, "gpufabric_exporter ") && !strings.HasPrefix(c.line, "ps ") && !strings.Contains(c.line, "systemctl ") && !strings.Contains(c.line, "journalctl ")
		if !ours && !strings.Contains(c.line, "curl ") || done[c.line] {
			continue
		}
		done[c.line] = true
		codes, said := run(fill.Replace(c.line))
		if codes[0] == "" {
			t.Errorf("%s: %q ran nothing:\n%s", c.page, c.line, said)
		}
		for _, code := range codes {
			ran++
			allowed := []string{"curl 0", "gpufabric_exporter 0"}
			if strings.Contains(c.line, "gpufabric_exporter check") || strings.Contains(c.line, "gpufabric_exporter jobs") || strings.Contains(c.line, "gpufabric_exporter explain") || strings.Contains(c.line, "gpufabric_exporter lint") || strings.Contains(c.line, "gpufabric_exporter probe") { // 1, 2: what they find, here without a GPU driver
				allowed = append(allowed, "gpufabric_exporter 1", "gpufabric_exporter 2")
			}
			if strings.Contains(c.line, "check --accept=") && strings.Contains(said, "the paths are those of a copy, which has no record") {
				allowed = append(allowed, "gpufabric_exporter 3")
			}
			if strings.Contains(c.line, "gpufabric_exporter ping") { // 2: nobody answers here
				allowed = append(allowed, "gpufabric_exporter 2")
			}
			if strings.Contains(c.line, "/jobs.json") { // 404: without a GPU driver jobs are not looked for
				allowed = append(allowed, "curl 22")
			}
			if !slices.Contains(allowed, code) {
				t.Errorf("%s: %q ends with %s:\n%s", c.page, c.line, code, said)
			}
		}
	}
	t.Logf("%d commands ran", ran)
	if ran < 30 {
		t.Errorf("only %d commands ran", ran)
	}

	// Without the password the pages show an error, and no empty answer.
	if err := os.Remove(dir + "/.netrc"); err != nil {
		t.Fatal(err)
	}
	if codes, said := run(`curl -sSf "${EXPORTER:-http://localhost:10791}/metrics" | grep gpufabric_probe_failing`); codes[0] == "curl 0" || !strings.Contains(said, "401") {
		t.Errorf("without the password: %v %s", codes, said)
	}
}
