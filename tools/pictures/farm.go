// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// landingNode is the node whose dashboard and landing page are shown.
const landingNode = "gpu-04"

// nodes are a small cluster: mostly healthy, and one of each fault that the dashboards are about. The
// exporter of a node without a scenario does not answer. Faults begin after two minutes, so that pictures
// show when.
func nodes() []struct{ instance, scenario string } {
	return []struct{ instance, scenario string }{
		{"gpu-01", "healthy"},
		{"gpu-02", "healthy"},
		{"gpu-03", "pfc-off"},
		{landingNode, "pfc-storm"},
		{"gpu-05", "gid-missing"},
		{"gpu-06", "port-down"},
		{"gpu-07", "probe-tcp-fallback"},
		{"gpu-08", "probe-slow"},
		{"gpu-09", "healthy-efa"},
		{"gpu-10", ""},
		{"gpu-11", "gpu-lost"},
		{"gpu-12", "nvlink-down"},
		{"gpu-13", "healthy-half-cabled"},
		{"gpu-14", "healthy-ib"},
		{"gpu-15", "healthy"},
		{"gpu-16", "job-two"},
	}
}

// subjects are the variables that dashboards are opened with: their names and values, by the name of the dashboard.
func subjects() map[string]map[string]string {
	return map[string]map[string]string{
		"node": {"instance": landingNode},
		"port": {"instance": landingNode, "device": "mlx5_7"}, // of the PFC storm
	}
}

// farm is the simulated cluster and its Prometheus.
type farm struct {
	prometheus string            // URL
	addresses  map[string]string // instance: host:port; without those that do not answer
}

// startFarm returns when Prometheus has data of all nodes.
func startFarm(ctx context.Context, o *options, all *programs) (*farm, error) {
	rules, err := filepath.Abs(filepath.Join(o.rules, "*.rules.yml"))
	if err != nil {
		return nil, err
	}
	f := &farm{addresses: map[string]string{}}
	var config strings.Builder
	fmt.Fprintf(&config,
		"global: {scrape_interval: 15s, scrape_timeout: 14s, evaluation_interval: 15s}\nrule_files: [%s]\n",
		strconv.Quote(rules))
	config.WriteString("scrape_configs:\n  - job_name: gpufabric\n    static_configs:\n")
	for _, n := range nodes() {
		address, err := all.address()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&config, "      - {targets: [%q], labels: {instance: %q, cluster: training}}\n", address, n.instance)
		if n.scenario == "" {
			continue
		}
		args := []string{"demo", "--scenario=" + n.scenario, "--web.listen-address=" + address}
		if !strings.HasPrefix(n.scenario, "healthy") {
			args = append(args, "--break-after=2m")
		}
		if err := all.start(n.instance, []string{"GOMAXPROCS=1"}, o.exporter, args...); err != nil {
			return nil, err
		}
		f.addresses[n.instance] = address
	}
	pings, err := servePings(all.host)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&config, "  - job_name: %s\n    static_configs:\n", pingJob)
	for _, n := range nodes() {
		fmt.Fprintf(&config, "      - {targets: [%q], labels: {instance: %q, cluster: training, __metrics_path__: /%[2]s}}\n", pings, n.instance)
	}
	path := filepath.Join(all.dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	address, err := all.address()
	if err != nil {
		return nil, err
	}
	f.prometheus = "http://" + address
	if err := all.start("prometheus", nil, filepath.Join(o.programs, "prometheus"), "--config.file="+path,
		"--storage.tsdb.path="+filepath.Join(all.dir, "data"), "--web.listen-address="+address); err != nil {
		return nil, err
	}
	return f, all.until(ctx, 5*time.Minute, f.scraped)
}

// scraped returns an error until all nodes that answer have been scraped.
func (f *farm) scraped(ctx context.Context) error {
	body, err := get(ctx, f.prometheus+"/api/v1/query?query="+url.QueryEscape(`up{job!="`+pingJob+`"} == 1`))
	if err != nil {
		return err
	}
	var answer struct {
		Data struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("answer of Prometheus: %w", err)
	}
	if got, want := len(answer.Data.Result), len(f.addresses); got < want {
		return fmt.Errorf("scraped by Prometheus: %d of %d nodes", got, want)
	}
	return nil
}
