// SPDX-License-Identifier: Apache-2.0

//go:build packages

package packages

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is docs/INSTALL.md.
type page string

func install(t *testing.T) page {
	t.Helper()
	text, err := os.ReadFile(repository + "/docs/INSTALL.md")
	if err != nil {
		t.Fatal(err)
	}
	return page(text)
}

// command is what the table of packages has in a row, for a system.
func (p page) command(t *testing.T, row, system string) string {
	t.Helper()
	column := 0
	for line := range strings.Lines(string(p)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if i := slices.IndexFunc(cells, func(c string) bool { return strings.HasPrefix(c, system) }); i > 0 {
			column = i
		}
		if column > 0 && cells[0] == "| "+row && len(cells) > column {
			return strings.Trim(cells[column], "` |")
		}
	}
	t.Fatalf("docs/INSTALL.md has no %q for %s", row, system)
	return ""
}

// steps are the commands below a heading.
func (p page) steps(t *testing.T, heading string) string {
	t.Helper()
	block := regexp.MustCompile("(?s)\n## " + regexp.QuoteMeta(heading) + "\n.*?\n```sh\n(.*?)```").FindStringSubmatch(string(p))
	if block == nil {
		t.Fatalf("docs/INSTALL.md has no commands below %q", heading)
	}
	return block[1]
}

// follow runs commands as an administrator would, with an answer to each question; empty: there is nobody to answer.
func (c container) follow(commands, answer string) {
	c.t.Helper()
	out, err := c.Run(strings.Repeat(answer, 20), "bash", "-exo", "pipefail", "-c", "cd /root\n"+commands)
	c.t.Log(out)
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestDocument installs, upgrades and removes each package by the commands of docs/INSTALL.md, typed as they are printed.
func TestDocument(t *testing.T) {
	for _, system := range []struct{ name, kind, answer, upgrade, query string }{
		{"Debian", "deb", "\n", "", "dpkg-query -W -f ${Version} gpufabric-exporter"}, // at an upgrade apt asks nothing
		{"RHEL", "rpm", "y\n", "y\n", "rpm -q --qf %{VERSION} gpufabric-exporter"},
	} {
		t.Run(system.name, func(t *testing.T) {
			c, p := booted(t), install(t)
			do := func(row string) {
				t.Helper()
				c.follow(p.command(t, row, system.name), system.answer)
			}
			if system.kind == "rpm" {
				c.rhel()
			}
			first := c.Put(shipped(t, system.kind))
			do("install")
			c.follow(p.steps(t, "2. Choose tiers"), "")
			c.follow(p.steps(t, "3. Start"), "")
			c.serves()
			if drop := c.Property("DropInPaths"); c.Property("UnitFileState") != "enabled" || !strings.Contains(drop, "/gpu.conf") {
				t.Errorf("the service is %s, with %s", c.Property("UnitFileState"), drop)
			}

			const site = "links: {grafana: https://grafana.example}\n"
			c.Write(config, site)
			c.Write(options, "ARGS=\"--web.max-requests=7\"\n")
			c.Write(state+"/kept", "x")
			before := c.PID()
			c.Must("rm", first)
			c.Put(release(t, system.kind, "90.0.0"))
			c.follow(p.command(t, "upgrade", system.name), system.upgrade)
			c.serves()
			if version := c.Must(strings.Fields(system.query)...); version != "90.0.0" || c.PID() == before {
				t.Errorf("version %s, process %s after %s", version, c.PID(), before)
			}
			if c.Read(config) != site || !strings.Contains(c.Read(options), "=7") || !c.Has(state+"/kept") {
				t.Error("an upgrade does not keep what the site changed")
			}

			do("remove")
			if _, err := c.Try("pgrep", "-f", "^"+program); err == nil || c.Has(program) || !c.Has(state+"/kept") {
				t.Error("after a removal the service runs, or its state is lost")
			}
			do("and configuration and state")
			do("and tiers")
			if left := c.left(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// rhel makes the database of rpm name what each RHEL has, and Debian's has not.
func (c container) rhel() {
	c.t.Helper()
	dir := c.t.TempDir()
	described := "name: rhel\narch: amd64\nversion: 8.0.0\nprovides: [glibc = 2.28, shadow-utils = 4.6, /bin/sh]\n"
	if err := os.WriteFile(dir+"/nfpm.yml", []byte(described), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.Must("rpm", "--force-debian", "-i", "--justdb", c.Put(build(c.t, "rpm", dir+"/nfpm.yml", dir, "")))
}
