// SPDX-License-Identifier: Apache-2.0

package stability

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/command/commandtest"
	"gpufabric_exporter/internal/program"
	"gpufabric_exporter/internal/simulator"
)

// A call is a command line and its exit code, of which docs/COMMANDS.md has the meaning.
type call struct {
	args string
	code int
}

// calls together print each field of the JSON of a command, and end with each of its exit codes. NODE has the files of a
// simulated node.
var calls = map[string][]call{
	"check":     {{"--scenario=healthy", 0}, {"--scenario=pfc-off", 1}, {"--scenario=vf-qos-unknown", 2}, {"--no-such-flag", 3}},
	"preflight": {{"--config.file=../../packaging/config.yml --path.sysfs=NODE/sys --path.procfs=NODE/proc --path.rootfs=NODE/root", 1}, {"--no-such-flag", 3}},
	"topology":  {{"--scenario=gpu-lost", 0}, {"--scenario=pfc-off", 0}, {"--no-such-flag", 3}},
	"profiles":  {{"--scenario=healthy-efa", 0}, {"--scenario=healthy-oci-h100", 0}, {"--no-such-flag", 3}},
	"report":    {{"--scenario=probe-gdr-lost", 0}, {"--scenario=job-slurm", 0}, {"--no-such-flag", 3}},
	"jobs":      {{"--scenario=job-slurm", 0}, {"--scenario=job-tcp", 1}, {"--scenario=job-hidden", 2}, {"--no-such-flag", 3}},
	"lint":      {{"--scenario=pfc-off", 0}, {"--scenario=gdr-level-loc", 1}, {"--no-such-flag", 3}},
	"advise":    {{"--scenario=pfc-off --nodes=4", 0}, {"--no-such-flag", 3}},
	"explain":   {{"../../internal/command/explain/testdata/tcp.log", 1}, {"../../internal/command/explain/testdata/gdr_disabled.log", 2}, {"--no-such-flag", 3}},
}

// pages are those of the exporter that have JSON, but for /status.json, which has a schema. Scenarios print each field.
var pages = map[string][]string{
	"/jobs.json":   {"job-hang"},
	"/probes.json": {"probe-gdr-lost"},
}

// keyed are objects whose keys are data. What is later is in the document only after some runs: failed
// results, changes, and comparisons. fullProbes, the golden file of the page, has all of it.
var (
	keyed = regexp.MustCompile(`\.(failures|skips)\.[^.]+$`)
	later = regexp.MustCompile(`^probes\[\]\.(kept|changed)|\.baseline\.`)
)

const fullProbes = root + "/internal/page/testdata/probes.json"

// jsonFields has the type of each field of JSON, by the command or page and the path in its document. Lists
// are "[]". It checks exit codes on the way.
func jsonFields(t *testing.T) map[string]string {
	t.Helper()
	t.Setenv("TMPDIR", commandtest.Memory(t))
	scenario, err := simulator.Find("pfc-off")
	if err != nil {
		t.Fatal(err)
	}
	node := t.TempDir()
	if _, err := scenario.Build().MaterialiseContext(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for name, list := range calls {
		for _, c := range list {
			var out bytes.Buffer
			args := append([]string{name, "--output=json"}, strings.Fields(strings.ReplaceAll(c.args, "NODE", node))...)
			if code := program.New(&program.Options{}).Run(t.Context(), args, &out, io.Discard); code != c.code {
				t.Errorf("%s: exit code %d, expected %d", args, code, c.code)
			}
			if c.code != 3 {
				addFields(t, all, name, out.Bytes(), later)
			}
		}
	}
	for path, scenarios := range pages {
		for _, scenario := range scenarios {
			demo := commandtest.Start(t, func(ctx context.Context, stdout, stderr io.Writer, onListen func([]net.Addr)) int {
				o := program.Options{}
				o.Exporter.OnListen = onListen
				return program.New(&o).Run(ctx, []string{"demo", "--scenario=" + scenario, "--web.listen-address=127.0.0.1:0"}, stdout, stderr)
			})
			demo.Ready()
			for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { // probes run after the first reading
				status, body, _ := demo.Get(path)
				if status != http.StatusOK || time.Now().After(end) {
					t.Fatalf("%s of %s: %d %s", path, scenario, status, body)
				}
				if path != "/probes.json" || regexp.MustCompile(`"last_good": *{`).MatchString(body) {
					addFields(t, all, path, []byte(body), later)
					break
				}
			}
			demo.Stop()
		}
	}
	full, err := os.ReadFile(fullProbes)
	if err != nil {
		t.Fatal(err)
	}
	addFields(t, all, "/probes.json", full, nil)
	schema, err := os.ReadFile(root + "/docs/status.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		schemaNode
		Defs map[string]schemaNode `json:"$defs"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	s.fields("/status.json ", func(path, kind string) { all[path] = kind })
	for name, d := range s.Defs {
		d.fields("/status.json "+name, func(path, kind string) { all[path] = kind })
	}
	return all
}

// addFields adds the fields of a document, but for those that match without. What is null or an empty list
// has no type: another scenario shows it.
func addFields(t *testing.T, all map[string]string, name string, text []byte, without *regexp.Regexp) {
	t.Helper()
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatalf("%s: %v: %.200s", name, err, text)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		kind := ""
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(strings.TrimPrefix(path+"."+k, "."), v[k])
			}
			return
		case []any:
			for _, e := range v {
				walk(path+"[]", e)
			}
			return
		case string:
			kind = "string"
		case bool:
			kind = "boolean"
		case float64:
			kind = "number"
		case nil:
			return
		}
		if without != nil && without.MatchString(path) {
			return
		}
		path = name + " " + keyed.ReplaceAllString(path, ".$1.*")
		if before := all[path]; before != "" && before != kind {
			t.Errorf("%s is %s and %s", path, before, kind)
		}
		all[path] = kind
	}
	walk("", document)
}

// schemaNode is what a JSON schema requires of a value.
type schemaNode struct {
	Type       any                   `json:"type"`
	Ref        string                `json:"$ref"`
	Properties map[string]schemaNode `json:"properties"`
	Items      *schemaNode           `json:"items"`
}

// fields calls add for each value that is neither an object nor a list.
func (n *schemaNode) fields(path string, add func(path, kind string)) {
	switch {
	case n.Items != nil:
		n.Items.fields(path+"[]", add)
	case len(n.Properties) > 0:
		for k, p := range n.Properties {
			p.fields(strings.Replace(path+"."+k, " .", " ", 1), add)
		}
	}
	if kind, ok := n.Type.(string); ok && kind != "object" && kind != "array" {
		add(path, kind)
	}
}
