// SPDX-License-Identifier: Apache-2.0

// Command dashboards writes the Grafana dashboards of the exporter: one JSON file each, for a provider of
// Grafana or for its import. It builds them with the types of Grafana's foundation SDK, and omits what
// Grafana 9.3 does not support yet. Nothing runs at the same time; an error means that a dashboard is not
// well formed or a file cannot be written.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "../dashboards", "folder that the dashboards are written to")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(folder string) error {
	all, err := boards()
	if err != nil {
		return err
	}
	for _, d := range all {
		text, err := d.encode()
		if err != nil {
			return fmt.Errorf("dashboard %s: %w", d.name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, d.name+".json"), text, 0o644); err != nil {
			return fmt.Errorf("dashboard %s: %w", d.name, err)
		}
	}
	return nil
}
