// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"flag"
	"regexp"
	"slices"
	"testing"
	"time"

	"gpufabric_exporter/alerts"
)

// fault is what happens to healthy nodes while they are watched.
type fault struct {
	scenario string // what happens to the node, or, of an outage, what it is called
	ofJob    bool   // the alert names a job and no node
	past     bool   // Prometheus has a past of its job, with which the alert compares
	outages  int    // how often the exporter is stopped and started again, while its node is healthy
	alert    string // empty: none may come
	device   string // that is broken; empty: alerts name none
	nodes    int
	within   time.Duration // from the fault to the webhook, for nine of ten
	mend     time.Duration // how long it lasts, or each outage
	// Parts of the worst case, beside the scrape interval and the duration in the rule: how old facts may be when they
	// are scraped, how long the fault lasts before a rule can see it, and how long Alertmanager waits for more alerts of
	// the group.
	age, builds, wait time.Duration
	// stays says why the alert does not go within this test; empty: it does.
	stays string
	// watched says that the test waits until the alert is gone from Prometheus, because the webhook is notified too late
	// for it.
	watched bool
	also    []string // alerts that are true too, on that device or on the node
	// everywhere are alerts that may name any device of the node.
	everywhere []string
}

var only = flag.String("only", "", "scenarios to run, a regular expression; empty: all")

func chosen(scenario string) bool { return regexp.MustCompile(*only).MatchString(scenario) }

// Limits of issue and design: at a scrape interval of 15 s.
const (
	hard  = 60 * time.Second
	storm = 90 * time.Second
	slow  = 150 * time.Second
)

// Slow facts are read with the scrape that finds them older than a minute: the fifth.
const slowAge = 4 * scrape

// How long the example for Alertmanager waits, by severity.
const (
	page    = 10 * time.Second
	jobPage = 30 * time.Second
	ticket  = 2 * time.Minute
)

// worst is how long it may take in theory until the webhook is notified, on a machine that is not busy.
func (f *fault) worst(t *testing.T) time.Duration {
	t.Helper()
	groups, err := alerts.Groups()
	if err != nil {
		t.Fatal(err)
	}
	duration := func(s string) time.Duration {
		d, err := time.ParseDuration(cmp.Or(s, "0s"))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Alert == f.alert {
				every, lasts := duration(g.Interval), duration(r.For)
				return f.builds + f.age + scrape + every + (lasts+every-1)/every*every + f.wait
			}
		}
	}
	t.Fatalf("no alert %s", f.alert)
	return 0
}

// rasBuilds is how long a scenario takes until RAS has answered: 45 s without a fault, a minute and three
// readings of 15 s for the sign, a minute for three answers.
const rasBuilds = 45*time.Second + time.Minute + 3*15*time.Second + time.Minute

// between is how long an exporter answers between two outages.
const between = time.Minute

// When the probes of a simulated node see what happened to it: all run at once, a while after a change.
const probed = 15 * time.Second

const (
	checkFailed = "GpuFabricCheckFailed"
	collapsed   = "GpuFabricProbeBandwidthCollapsed" // true of a rail whose link or bus is slow
)

// faults are those that -only leaves.
func faults() []fault {
	return slices.DeleteFunc(allFaults(), func(f fault) bool { return !chosen(f.scenario) })
}

func allFaults() []fault {
	return []fault{
		{
			scenario: "port-down", alert: "GpuFabricPortDown", device: "mlx5_3", nodes: 4, within: hard, mend: 90 * time.Second,
			wait: page,
		},
		{
			scenario: "device-gone", alert: "GpuFabricDeviceGone", device: "mlx5_5", nodes: 4, within: hard, mend: 90 * time.Second,
			wait: page,
		},
		{
			scenario: "gid-missing", alert: "GpuFabricGidLost", device: "mlx5_2", nodes: 4, within: hard, mend: 90 * time.Second,
			wait: page,
		},
		{
			scenario: "gpu-lost", alert: "GpuFabricGpuLost", nodes: 2, within: hard, mend: 90 * time.Second,
			wait: page,
		},
		{
			// Queue pairs fail half a minute after the scenario begins, and the failures of five minutes are reported.
			// All failures in a cluster are one message.
			scenario: "qp-death", alert: "GpuFabricQpDeath", device: "mlx5_3", nodes: 2, within: hard + 30*time.Second, mend: 105 * time.Second,
			builds: 30 * time.Second, wait: 30 * time.Second, stays: "looks 3 min back",
		},
		{
			// A port that pauses 90 % of the time has paused for more than half of a minute after 34 s.
			scenario: "pfc-storm", alert: "GpuFabricPfcStorm", device: "mlx5_7", nodes: 2, within: storm, mend: 105 * time.Second,
			builds: 34 * time.Second, wait: page, stays: "kept firing for 2 min",
		},
		{
			scenario: "pfc-off", alert: checkFailed, device: "mlx5_2", nodes: 2, within: slow, mend: 165 * time.Second,
			age: slowAge, wait: page, stays: "kept firing for 1 min",
		},
		{
			scenario: "rate-degraded", alert: "GpuFabricRateDegraded", device: "mlx5_6", nodes: 2, within: slow, mend: 165 * time.Second,
			age: slowAge, wait: page,
		},
		{
			scenario: "pcie-nic-x8", alert: checkFailed, device: "mlx5_2", nodes: 1, within: slow + ticket, mend: slow + ticket,
			age: slowAge, wait: ticket, stays: "kept firing for 30 min",
		},
		{
			scenario: "gpu-power-brake", alert: checkFailed, nodes: 1, within: slow + ticket, mend: slow + ticket,
			age: slowAge, wait: ticket, stays: "kept firing for 9 min",
		},
		{
			scenario: "nvlink-down", alert: "GpuFabricNvlinkDown", nodes: 1, within: slow, mend: 150 * time.Second,
			wait: page,
		},
		{
			scenario: "probe-tcp-fallback", alert: "GpuFabricProbeTransportSocket", nodes: 1, within: slow, mend: 150 * time.Second,
			age: probed, wait: page, everywhere: []string{"GpuFabricProbeTransportSocket"}, // of a rail that was probed first
		},
		{
			scenario: "probe-wrong-result", alert: "GpuFabricProbeWrongResult", nodes: 1, within: slow, mend: 150 * time.Second,
			age: probed, wait: page, stays: "kept firing for 24 h",
		},
		{
			scenario: "probe-gdr-lost", alert: "GpuFabricProbeGpuDirectLost", nodes: 1, within: 240 * time.Second, mend: 250 * time.Second,
			age: probed, wait: ticket, stays: "reported within 15 min", everywhere: []string{"GpuFabricProbeGpuDirectLost"},
		},
		{
			// A result that is too slow is measured again after a minute, and the third comes with the next interval
			// or a bit later.
			scenario: "probe-slow", alert: collapsed, device: "mlx5_6", nodes: 1, within: 480 * time.Second, mend: 480 * time.Second,
			age: probed, builds: 195 * time.Second, wait: ticket, stays: "mended late",
		},
		{
			scenario: "lossless-drops", alert: "GpuFabricLosslessDrops", device: "mlx5_2", nodes: 1, within: 300 * time.Second, mend: 300 * time.Second,
			age: scrape, builds: scrape, wait: ticket, stays: "looks 5 min back",
		},
		{
			// The rule needs twenty errors, which occur within half a minute.
			scenario: "post-fec-errors", alert: "GpuFabricPostFecErrors", device: "mlx5_0", nodes: 1, within: 310 * time.Second, mend: 310 * time.Second,
			age: scrape, builds: 30 * time.Second, wait: ticket, stays: "looks 10 min back",
		},
		{
			// The rule needs five errors, but NVLinks count slowly, and their counters are read once a minute.
			scenario: "nvlink-errors", alert: "GpuFabricNvlinkErrors", nodes: 1, within: 300 * time.Second, mend: 300 * time.Second,
			age: slowAge, builds: time.Minute, wait: ticket, stays: "looks 10 min back",
		},
		{
			scenario: "exporter-down", outages: 1, alert: "GpuFabricExporterDown", nodes: 1, within: 320 * time.Second, mend: 340 * time.Second,
			wait: ticket, stays: "reported within 15 min",
		},
		{
			// It answers again after the second outage, each of which is long enough to be seen.
			scenario: "exporter-restarts", outages: 2, alert: "GpuFabricExporterUnstable", nodes: 1, within: 300 * time.Second, mend: 35 * time.Second,
			builds: 2*35*time.Second + between, wait: ticket, stays: "looks 20 min back",
		},
		{
			// A verdict takes two readings. It explains the traffic of the node, of which no second notification is sent.
			scenario: "job-tcp", alert: "GpuFabricJobOnTcp", nodes: 2, within: hard + 20*time.Second, mend: 130 * time.Second,
			builds: scrape, wait: jobPage, stays: "kept firing for 2 min",
		},
		{
			scenario: "job-mpi-holds-verbs", alert: "GpuFabricJobOnTcpSuspected", nodes: 1, within: 6 * time.Minute, mend: 6 * time.Minute,
			builds: scrape, wait: jobPage, stays: "reported within 5 min",
		},
		{
			// The log that the ranks hold open says verbs: what the kernel shows counts.
			scenario: "job-log-lies", alert: "GpuFabricJobOnTcp", nodes: 1, within: hard + 20*time.Second, mend: 130 * time.Second,
			builds: scrape, wait: jobPage, stays: "kept firing for 2 min",
		},
		{
			scenario: "job-tcp-unprivileged", alert: "GpuFabricJobOnTcpSuspected", nodes: 1, within: 6 * time.Minute, mend: 6 * time.Minute,
			builds: scrape, wait: ticket, stays: "reported within 15 min",
		},
		{
			scenario: "job-tcp-no-devices", alert: "GpuFabricJobOnTcp", nodes: 1, within: 3 * time.Minute, mend: 5 * time.Minute,
			builds: scrape, wait: jobPage, stays: "kept firing for 2 min",
		},
		{
			scenario: "job-misaligned", alert: "GpuFabricJobNicsFar", nodes: 1, within: 8 * time.Minute, mend: 465 * time.Second,
			wait: ticket, stays: "reported within 15 min", also: []string{"GpuFabricJobMisconfigured"},
		},
		{
			// The job is healthy for 45 s; the sign must last for a minute, and three answers take another one.
			scenario: "job-hang", alert: "GpuFabricJobHang", ofJob: true, nodes: 1, within: 330 * time.Second, mend: 330 * time.Second,
			builds: rasBuilds, wait: jobPage,
		},
		{
			scenario: "job-rank-dead", alert: "GpuFabricJobRankLost", ofJob: true, nodes: 1, within: 330 * time.Second, mend: 330 * time.Second,
			builds: rasBuilds, wait: jobPage,
		},
		{
			scenario: "job-straggler", alert: "GpuFabricJobStraggler", ofJob: true, nodes: 1, within: 390 * time.Second, mend: 390 * time.Second,
			builds: rasBuilds, wait: ticket, stays: "reported within 15 min", watched: true,
		},
		{
			// The bandwidth falls after 2 min, Inspector writes each minute, and the mean of 10 min is below 70% after
			// less than 5 min of a third. The alert goes when the mean is above it again, and 10 min later.
			scenario: "job-bandwidth-falls", past: true, alert: "GpuFabricJobBandwidthRegression", nodes: 1, within: 23 * time.Minute, mend: 22 * time.Minute,
			builds: 8 * time.Minute, wait: ticket, stays: "kept firing for 10 min",
		},
		{
			// The line comes 20 s after the scenario begins.
			scenario: "job-log-retries", alert: "GpuFabricFailureLogged", nodes: 1, within: 4 * time.Minute, mend: 4 * time.Minute,
			builds: 20 * time.Second, wait: ticket, stays: "looks 10 min back",
		},
		{
			scenario: "kernel-mlx5-health", alert: "GpuFabricDeviceFailureLogged", nodes: 1, within: hard + 20*time.Second, mend: 105 * time.Second,
			builds: 20 * time.Second, wait: page, stays: "looks 15 min back",
		},
		{
			// Errors are counted over ten minutes, and must be many for five, in which a burst may end.
			scenario: "pcie-errors", alert: "GpuFabricPcieErrors", device: "mlx5_1", nodes: 1, within: 10 * time.Minute, mend: 120 * time.Second,
			age: scrape, builds: 45 * time.Second, wait: ticket, stays: "looks 10 min back",
		},
		// A fault that ends after two minutes causes no notification: it must last for five, of which the windows of the
		// rates cover some.
		{scenario: "retransmissions", nodes: 1, device: "mlx5_5", mend: 120 * time.Second, also: []string{"GpuFabricRetransmissions", "GpuFabricRailImbalance"}},
		{scenario: "statistics-refused", nodes: 1, mend: 120 * time.Second},
		// Intended events: no notification may be sent.
		{scenario: "exporter-restart", outages: 1, nodes: 1, mend: 20 * time.Second},
		{scenario: "no-rdma", nodes: 1, mend: 10 * time.Second, also: []string{"GpuFabricGidChanged"}}, // the driver is loaded again
	}
}

// healthy are scenarios of which no alert may come, those that -only leaves. The first one stays.
func healthy() []string {
	all := []string{
		"healthy", "healthy-ib", "healthy-efa", "lossy-design", "healthy-sriov-vf", "healthy-vm-flat", "healthy-bnxt-roce", "healthy-gb200",
		"healthy-roce-bond", "healthy-roce-vlan",
		"vf-qos-unknown", // some of it stays unknown
		"brief-pauses",   // as on any busy fabric
		"job-slurm", "job-kubernetes", "job-data-loading", "job-checkpoint", "job-checkpoint-local", "job-tcpx", "job-log-healthy", "job-inspector",
		"job-moved-log", "job-slingshot", // some of their facts stay unknown
	}
	return append(all[:1:1], slices.DeleteFunc(all[1:], func(name string) bool { return !chosen(name) })...)
}
