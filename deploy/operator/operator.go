// SPDX-License-Identifier: Apache-2.0

// Package operator holds the objects for the Prometheus Operator and Grafana's sidecar. All but the
// PodMonitor are generated (make docs) and work as they are, without the exporter.
//
// The package only returns embedded files: it has no state, no errors, and is safe for concurrent use.
package operator

import (
	"embed"
	"io/fs"
)

//go:embed *.yaml
var files embed.FS

// Files are the objects, one or more in each <name>.yaml.
func Files() fs.FS { return files }
