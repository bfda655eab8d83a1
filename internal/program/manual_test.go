// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/command/commandtest"
)

// The manual page has every command and every flag of --help, and none that is not for users.
func TestManual(t *testing.T) {
	var page, errs commandtest.Output
	if code := run(t, Options{}, &page, &errs, "--help-man"); code != command.OK || errs.String() != "" {
		t.Fatalf("exit code %d, %s", code, errs.String())
	}
	text := strings.NewReplacer(`\-`, "-", `\fB`, "", `\fR`, "", `\fI`, "").Replace(page.String())
	option := regexp.MustCompile(`(?m)^ {2,6}(?:-., )?--((?:\[no-\])?[a-z.-]+)`)
	commands := append([]string{""}, candidatesFor(t, "")...)
	seen := 0
	for _, name := range commands {
		if name == "help" {
			continue
		}
		var help commandtest.Output
		if code := run(t, Options{}, &help, &help, strings.Fields("help "+name)...); code != command.OK {
			t.Fatalf("help %s: exit code %d", name, code)
		}
		if name != "" && !strings.Contains(text, "\n.SS "+name+"\n") {
			t.Errorf("the command %s is not there", name)
		}
		for _, m := range option.FindAllStringSubmatch(help.String(), -1) {
			flag := m[1]
			if flag == "[no-]help" || flag == "[no-]version" {
				flag = strings.TrimPrefix(flag, "[no-]")
			}
			seen++
			if !strings.Contains(text, "--"+flag+"\n") && !strings.Contains(text, "--"+flag+"=") {
				t.Errorf("--%s of %q is not there", flag, name)
			}
		}
	}
	if seen < 100 {
		t.Errorf("%d flags are found in --help", seen)
	}
	for _, hidden := range []string{"gpu-worker", "probe-rank", "ping-worker", "--completion", "--help-long"} {
		if strings.Contains(strings.ReplaceAll(text, "--help-long and", ""), hidden) {
			t.Errorf("%s is not for users", hidden)
		}
	}
	// A flag that is shared says which commands take it.
	if !regexp.MustCompile(`--config\.file=[^\n]*\n[^\n]*\n\.br\nTaken by: serve, `).MatchString(text) {
		t.Error("--config.file does not say which commands take it")
	}

	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed: the page is not formatted")
	}
	format := exec.CommandContext(t.Context(), groff, "-man", "-ww", "-Tascii", "-P-cbou")
	format.Stdin = strings.NewReader(page.String())
	var warnings strings.Builder
	format.Stderr = &warnings
	if out, err := format.Output(); err != nil || warnings.Len() > 0 || !strings.Contains(string(out), "COMMANDS") {
		t.Errorf("groff: %v\n%s", err, warnings.String())
	}
}
