// SPDX-License-Identifier: Apache-2.0

// Package dashboards holds the Grafana dashboards of the exporter: fleet, node, port, roce, jobs, probes and ping.
// The files are generated (make dashboards) and work as they are in Grafana 9.3 and later, without the
// exporter.
//
// The package only returns embedded files: it has no state, no errors, and is safe for concurrent use.
package dashboards

import (
	"embed"
	"io/fs"
)

//go:embed *.json
var files embed.FS

// Files are the dashboards, <name>.json each. The uid of a dashboard is gpufabric-<name>.
func Files() fs.FS { return files }
