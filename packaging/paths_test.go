// SPDX-License-Identifier: Apache-2.0

package packaging_test

import (
	"regexp"
	"strings"
	"testing"
)

// Paths that documents print are of files that packages install, or that the program, systemd or the reader makes.
func TestDocumentedPaths(t *testing.T) {
	packaged := regexp.MustCompile(`dst: ([^,}]+)`).FindAllStringSubmatch(text(t, "nfpm.yml"), -1)
	made := []string{
		"/var/lib/gpufabric_exporter", "/run/gpufabric_exporter", "/var/lib/node_exporter/gpufabric.prom",
		"/var/lib/prometheus/node-exporter/gpufabric.prom", "/etc/default/gpufabric_slurm", "/etc/gpufabric_exporter/manifest.yml",
		"/etc/slurm/prolog.d/gpufabric.sh", "/etc/slurm/gpufabric-health.sh", "/etc/systemd/system/gpufabric", "/etc/prometheus/gpufabric",
		"/etc/gpufabric_exporter/",
	}
	known := func(path string) bool {
		for _, prefix := range made {
			if strings.HasPrefix(path, prefix) {
				return true
			}
		}
		for _, file := range packaged {
			if path == file[1] || strings.HasPrefix(file[1], path+"/") || strings.HasPrefix(path, file[1]+"/") {
				return true
			}
		}
		return false
	}
	for _, document := range []string{"COMMANDS", "INSTALL", "JOBS", "PROBES"} {
		for _, path := range regexp.MustCompile(`/(?:etc|usr|var|run|opt)/[A-Za-z0-9._/-]*gpufabric[A-Za-z0-9._/-]*`).FindAllString(text(t, "../docs/"+document+".md"), -1) {
			if path = strings.TrimRight(path, "./"); !known(path) {
				t.Errorf("docs/%s.md has %s, which nothing makes", document, path)
			}
		}
	}
}
