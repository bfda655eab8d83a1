// SPDX-License-Identifier: Apache-2.0

//go:build lab

package lab

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var pinging = flag.Bool("ping", false, "RDMA ping between eight nodes; it needs a machine of its own (PING=1 of test.sh)")

const (
	pingNodes     = 8
	prometheusURL = "http://127.0.0.1:9090"
)

// A pingFabric is the nodes of guest/ping.sh and their Prometheus, with the rules that are shipped.
type pingFabric struct {
	nodes      [pingNodes]*exec.Cmd
	prometheus *exec.Cmd
	large      map[string]float64 // large messages that rails lost, as last seen
}

func pingNode(n int) string { return fmt.Sprintf("127.0.0.1:%d", 10800+n) }

func pingLeaf(n int) string { return string("aaabbbcc"[n]) }

func startPingFabric(t *testing.T) *pingFabric {
	t.Helper()
	f := startPingNodes(t)
	f.prometheus = f.run(t, "prometheus", "/tmp/prometheus", "--config.file=/tmp/prometheus.yml", "--storage.tsdb.path="+t.TempDir(), "--web.listen-address=127.0.0.1:9090")
	f.await(t)
	if !*pingAsk {
		time.Sleep(35 * time.Second) // rates of what there was before the fault
	}
	return f
}

func startPingNodes(t *testing.T) *pingFabric {
	t.Helper()
	var targets, scraped []string
	for n := range pingNodes {
		targets = append(targets, fmt.Sprintf(`{"targets":["%s"],"labels":{"leaf":"%s"}}`, pingNode(n), pingLeaf(n)))
		scraped = append(scraped, fmt.Sprintf(`{targets: ["%s"], labels: {instance: n%d, cluster: lab}}`, pingNode(n), n))
	}
	shellOutput(t, "cp -u gpufabric_exporter prometheus /tmp") // nothing more is read from the host
	write(t, "/tmp/targets.json", "["+strings.Join(targets, ",")+"]")
	write(t, "/tmp/prometheus.yml", "global: {scrape_interval: 15s, evaluation_interval: 15s}\nrule_files: [/job/hard.rules.yml, /job/ping.rules.yml, /job/ping_small.rules.yml]\n"+
		"scrape_configs: [{job_name: gpufabric, static_configs: ["+strings.Join(scraped, ", ")+"], "+
		"metric_relabel_configs: [{source_labels: [__name__], regex: gpufabric_node_boot_time_seconds, action: drop}]}]\n") // ports of a node that booted may be down
	f := &pingFabric{large: map[string]float64{}}
	for n := range pingNodes {
		f.start(t, n)
	}
	return f
}

// await waits until rails have asked each other twice, and Prometheus answers if there is one.
func (f *pingFabric) await(t *testing.T) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(5 * time.Second) {
		_, err := getBody(prometheusURL + "/-/ready")
		if (err == nil || f.prometheus == nil) && f.counts(t).sent >= 2*pingNodes*(pingNodes-1)*2 {
			return
		}
		if time.Since(begin) > 5*time.Minute {
			t.Fatal("rails do not ping each other")
		}
	}
}

// run starts a program that ends with the test.
func (f *pingFabric) run(t *testing.T, name, program string, args ...string) *exec.Cmd {
	t.Helper()
	path := "/" + name + ".log" // not yet in /job: while the host is slow to write, the clock of the guest runs ahead
	log, err := os.OpenFile("/tmp"+path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		shellOutput(t, "cp /tmp"+path+" /job")
	})
	return cmd
}

func (f *pingFabric) start(t *testing.T, n int) {
	t.Helper()
	config := fmt.Sprintf("/tmp/n%d.yml", n)
	write(t, config, fmt.Sprintf("roles: [{device: 'n%dr.*', role: compute}]\nexpected: {compute_ports: 2}\nrdma_ping: {enabled: true, target_files: [/tmp/targets.json], self: '%s', plain: true}\n",
		n, pingNode(n)))
	f.nodes[n] = f.run(t, fmt.Sprintf("n%d", n), "/tmp/gpufabric_exporter", "serve", "--web.listen-address="+pingNode(n), "--config.file="+config,
		fmt.Sprintf("--collector.device-include=n%dr.*", n), "--collector.disable-defaults", "--collector.ping", "--collector.hca")
}

// kill ends a node and the process that sends for it, as a crash does.
func (f *pingFabric) kill(t *testing.T, n int) {
	t.Helper()
	pid := f.nodes[n].Process.Pid
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well formed
	for _, list := range lists {
		for child := range strings.FieldsSeq(read(list)) {
			command(t, "kill -KILL "+child)
		}
	}
	command(t, fmt.Sprintf("kill -KILL %d", pid))
	_ = f.nodes[n].Wait() // it was killed
}

// stop ends Prometheus, and all nodes: no queue pair of theirs is left.
func (f *pingFabric) stop(t *testing.T) {
	t.Helper()
	_ = f.prometheus.Process.Kill()
	_ = f.prometheus.Wait() // it was killed
	f.end(t)
}

// pingClient spares the emulated processor: it wants nothing compressed.
var pingClient = http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableCompression: true}}

func getBody(url string) ([]byte, error) {
	response, err := pingClient.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// each passes on the samples of some families of all nodes that answer.
func (f *pingFabric) each(t *testing.T, families string, take func(sample)) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^gpufabric_ping_(` + families + `)\{.*\n`)
	for n := range pingNodes {
		body, err := getBody("http://" + pingNode(n) + "/metrics?collect[]=ping")
		if err != nil {
			continue // it was killed
		}
		s, err := parse(string(bytes.Join(line.FindAll(body, -1), nil)))
		if err != nil {
			t.Error(err)
		}
		for _, m := range s {
			take(m)
		}
	}
}

// ask sends a request to Prometheus.
func (f *pingFabric) ask(t *testing.T, path string, answer any) {
	t.Helper()
	body, err := getBody(prometheusURL + "/api/v1/" + path)
	if err == nil {
		err = json.Unmarshal(body, answer)
	}
	if err != nil {
		t.Logf("Prometheus: %v", err)
	}
}

// show prints the answer to a query.
func (f *pingFabric) show(t *testing.T, query string) {
	t.Helper()
	var answer struct {
		Data struct{ Result []struct{ Metric, Value any } }
	}
	f.ask(t, "query?query="+url.QueryEscape(query), &answer)
	for _, r := range answer.Data.Result {
		t.Logf("%s: %v %v", query, r.Metric, r.Value)
	}
}

// alerts are those that fire, with what they are about.
func (f *pingFabric) alerts(t *testing.T) (firing []string) {
	t.Helper()
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	f.ask(t, "alerts", &answer)
	for _, a := range answer.Data.Alerts {
		words := []string{a.Labels["alertname"]}
		if a.State != "firing" {
			continue
		}
		if a.Labels["severity"] == "info" {
			words = append(words, "(info)")
		}
		for _, label := range []string{"leaf", "peer_leaf", "instance", "device"} {
			if value := a.Labels[label]; value != "" && (label != "leaf" || a.Labels["instance"] == "") && (label != "instance" || a.Labels["device"] == "") {
				words = append(words, value)
			}
		}
		firing = append(firing, strings.Join(words, " "))
	}
	return firing
}

// said is what nodes say of themselves and of others, and which alerts fire, each with how many say so.
func (f *pingFabric) said(t *testing.T) map[string]int {
	t.Helper()
	said := map[string]int{}
	f.each(t, "fault|peer_loss_ratio|large_lost_total", func(m sample) {
		switch device := m.labels["device"]; {
		case m.name == "ping_peer_loss_ratio":
			said["others name "+pingRail(m.labels["peer"], m.labels["rail"])]++
		case m.name == "ping_fault" && m.value == 1:
			said[device+" says "+m.labels["fault"]]++
		case m.name == "ping_large_lost_total" && m.value > f.large[device]:
			f.large[device] = m.value
			said[device+" loses large messages"]++
		}
	})
	for _, a := range f.alerts(t) {
		said[a]++
	}
	return said
}

var pingPort = regexp.MustCompile(`1080(\d)$`)

// pingRail is the device of a rail of a peer.
func pingRail(peer, rail string) string {
	return "n" + pingPort.FindStringSubmatch(peer)[1] + "r" + rail
}

// pingCounts are messages of all rails since they started.
type pingCounts struct{ sent, lost, loopback, loopbackLost float64 }

func (c pingCounts) since(old pingCounts) string {
	return fmt.Sprintf("%.0f of %.0f messages lost, %.0f of %.0f by loopback", c.lost-old.lost, c.sent-old.sent,
		c.loopbackLost-old.loopbackLost, c.loopback-old.loopback)
}

func (f *pingFabric) counts(t *testing.T) (c pingCounts) {
	t.Helper()
	sums := map[string]*float64{
		"ping_messages_total": &c.sent, "ping_lost_total": &c.lost,
		"ping_loopback_messages_total": &c.loopback, "ping_loopback_lost_total": &c.loopbackLost,
	}
	f.each(t, "(loopback_)?(messages|lost)_total", func(m sample) { *sums[m.name] += m.value })
	return c
}
