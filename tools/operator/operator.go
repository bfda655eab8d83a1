// SPDX-License-Identifier: Apache-2.0

// Package operator wraps rules and dashboards into the objects that the Prometheus Operator and Grafana's
// sidecar read in Kubernetes.
//
// It only adds text around the files: comments of rules stay, and the double braces of templates have no
// meaning in plain YAML. It has no state and is safe for concurrent use. Errors name the file that cannot
// become an object.
package operator

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
)

// What the largest object may hold, in bytes.
const (
	ruleLimit      = 1 << 19 // the operator puts no more into one of the ConfigMaps it makes of rules
	dashboardLimit = 1 << 20 // of a ConfigMap, by the API server (MaxSecretSize)
)

// Objects returns the contents of YAML files by their names: a PrometheusRule for each *.rules.yml of rules, and a
// ConfigMap for each *.json of dashboards.
func Objects(rules, dashboards fs.FS) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, kind := range []struct {
		from    fs.FS
		pattern string
		limit   int
		wrap    func(source, stem string, text []byte) (name string, object []byte)
	}{
		{rules, "*.rules.yml", ruleLimit, rule},
		{dashboards, "*.json", dashboardLimit, dashboard},
	} {
		sources, err := fs.Glob(kind.from, kind.pattern)
		if err != nil {
			return nil, fmt.Errorf("files %s: %w", kind.pattern, err)
		}
		for _, source := range sources {
			text, err := fs.ReadFile(kind.from, source)
			if err != nil {
				return nil, fmt.Errorf("source of an object: %w", err)
			}
			if len(text) > kind.limit {
				return nil, fmt.Errorf("%s has %d bytes, an object holds %d", source, len(text), kind.limit)
			}
			// Names in Kubernetes are DNS names, which have no underscore.
			stem := strings.ReplaceAll(strings.TrimPrefix(strings.TrimSuffix(source, kind.pattern[1:]), "gpufabric-"), "_", "-")
			name, object := kind.wrap(source, stem, text)
			if all[name] != nil {
				return nil, fmt.Errorf("%s: another source has become %s, too", source, name)
			}
			all[name] = object
		}
	}
	return all, nil
}

const head = `# SPDX-License-Identifier: Apache-2.0
#
# Generated from %s (make docs); do not edit.
`

func rule(source, stem string, text []byte) (string, []byte) {
	text = bytes.TrimPrefix(text, []byte("# SPDX-License-Identifier: Apache-2.0\n#\n"))
	return "rules-" + stem + ".yaml", fmt.Appendf(nil, head+`apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gpufabric-rules-%s
  labels:
    app.kubernetes.io/name: gpufabric-exporter
spec:
%s`, "alerts/"+source, stem, indent(text, "  "))
}

func dashboard(source, stem string, text []byte) (string, []byte) {
	return "dashboard-" + stem + ".yaml", fmt.Appendf(nil, head+`apiVersion: v1
kind: ConfigMap
metadata:
  name: gpufabric-dashboard-%s
  labels:
    app.kubernetes.io/name: gpufabric-exporter
    grafana_dashboard: "1" # what Grafana's sidecar looks for
  annotations:
    grafana_folder: GPU fabric # its sidecar.dashboards.folderAnnotation, if the site sets it
data:
  gpufabric-%s.json: | # without the annotation, the sidecar puts the dashboards of all into one folder
%s`, "dashboards/"+source, stem, stem, indent(text, "    "))
}

// indent puts space before each line that has text, and ends the last one.
func indent(text []byte, space string) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(append(bytes.TrimRight(text, "\n"), '\n')) {
		if len(line) > 1 {
			b.WriteString(space)
		}
		b.Write(line)
	}
	return b.Bytes()
}
