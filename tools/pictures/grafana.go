// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// server returns the command that starts the Grafana of a home folder: "grafana server" from 9.4 on,
// "grafana-server" before.
func server(home string) ([]string, error) {
	if home == "" {
		return nil,
			errors.New("-grafana is missing: want Grafana's home folder, with bin/grafana or bin/grafana-server (make pictures GRAFANA=PATH); " +
				"https://grafana.com/grafana/download has archives to unpack")
	}
	if _, err := os.Stat(home); err != nil {
		return nil, fmt.Errorf("-grafana: %w", err)
	}
	for _, part := range []string{"conf/defaults.ini", "public"} {
		if _, err := os.Stat(filepath.Join(home, part)); err != nil {
			return nil, fmt.Errorf("-grafana: %s is not Grafana's home folder: it has no %s", home, part)
		}
	}
	for _, command := range [][]string{{"bin/grafana", "server"}, {"bin/grafana-server"}} {
		if program := filepath.Join(home, command[0]); executable(program) == nil {
			return append([]string{program}, command[1:]...), nil
		}
	}
	return nil, fmt.Errorf("-grafana: %s has neither bin/grafana nor bin/grafana-server", home)
}

// settings is grafana.ini. All users are viewers, and Grafana sends nothing to the internet. It ignores
// settings that its version does not have.
const settings = `[server]
protocol = http
http_addr = %[1]s
http_port = %[2]s
[paths]
data = %[3]s
logs = %[3]s/log
plugins = %[3]s/plugins
provisioning = %[3]s/provisioning
[auth]
disable_login_form = true
[auth.anonymous]
enabled = true
org_role = Viewer
[analytics]
reporting_enabled = false
check_for_updates = false
check_for_plugin_updates = false
feedback_links_enabled = false
[plugins]
preinstall_disabled = true
public_key_retrieval_disabled = true
[security]
angular_support_enabled = false
[news]
news_feed_enabled = false
[log]
mode = console
level = warn
`

// configure writes Grafana's configuration into dir and returns the path of grafana.ini.
func configure(dir, address, dashboards, prometheus string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	files := map[string]string{
		"grafana.ini": fmt.Sprintf(settings, host, port, dir),
		"provisioning/datasources/prometheus.yml": "apiVersion: 1\ndatasources:\n  - {name: Prometheus, uid: prometheus, type: prometheus, access: proxy, url: " + strconv.Quote(prometheus) +
			", isDefault: true, jsonData: {httpMethod: POST, timeInterval: 15s}}\n",
		"provisioning/dashboards/gpufabric.yml": "apiVersion: 1\nproviders:\n  - {name: gpufabric, type: file, options: {path: " + strconv.Quote(dashboards) + "}}\n",
	}
	for _, empty := range []string{
		"plugins", "provisioning/plugins", "provisioning/notifiers", "provisioning/alerting",
		"provisioning/access-control",
	} {
		// Grafana logs an error for each that is missing
		if err := os.MkdirAll(filepath.Join(dir, empty), 0o700); err != nil {
			return "", err
		}
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "grafana.ini"), nil
}

// startGrafana returns the URL of a Grafana that has all dashboards.
func startGrafana(ctx context.Context, home, dashboards, prometheus string, boards []board, all *programs) (string,
	error,
) {
	command, err := server(home)
	if err != nil {
		return "", err
	}
	paths := []string{home, dashboards, command[0]}
	for i, path := range paths {
		if paths[i], err = filepath.Abs(path); err != nil {
			return "", err
		}
	}
	address, err := all.address()
	if err != nil {
		return "", err
	}
	ini, err := configure(filepath.Join(all.dir, "grafana"), address, paths[1], prometheus)
	if err != nil {
		return "", err
	}
	args := append(command[1:], "--homepath="+paths[0], "--config="+ini)
	if err := all.start("grafana", withoutSettings(os.Environ()), paths[2], args...); err != nil {
		return "", err
	}
	err = all.until(ctx, 3*time.Minute, func(ctx context.Context) error {
		for _, b := range boards {
			if _, err := get(ctx, "http://"+address+"/api/dashboards/uid/"+b.uid); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("the Grafana in %s does not serve the dashboards: %w\n%s", home, err, all.log("grafana"))
	}
	return "http://" + address, nil
}

// withoutSettings returns assignments that empty Grafana's variables of the environment, which would win over the file.
func withoutSettings(environ []string) (empty []string) {
	for _, assignment := range environ {
		if name, _, _ := strings.Cut(assignment, "="); strings.HasPrefix(name, "GF_") {
			empty = append(empty, name+"=")
		}
	}
	return empty
}
