// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"gpufabric_exporter/collector"
	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/exposition"
	"gpufabric_exporter/internal/files"
	"gpufabric_exporter/probes"
	"gpufabric_exporter/probes/cluster"
)

// tell prints a report, and has it where it was asked for: in files, and at a Pushgateway. One that cannot be reached
// keeps nothing else back.
func (p *probing) tell(ctx context.Context, c *command.Call, r *cluster.Report) error {
	o := &p.flags.cluster
	var pages, metrics bytes.Buffer
	if err := writeClusterPage(&pages, r); err != nil {
		return err
	}
	if err := exposition.Encode(&metrics, expfmt.FmtText, collector.ClusterFamilies(r), nil); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	for _, f := range []struct {
		flag, path string
		text       []byte
	}{{"html", o.html, pages.Bytes()}, {"textfile", o.textfile, metrics.Bytes()}} {
		if f.path == "" {
			continue
		}
		if err := files.Replace(f.path, f.text); err != nil {
			return command.Unwritable(f.flag, f.path, err)
		}
	}
	if err := printReport(c, &p.flags, r); err != nil || o.push == "" {
		return err
	}
	if err := pushMetrics(ctx, o.push, metrics.Bytes()); err != nil {
		return fmt.Errorf("--push: %w", err)
	}
	return nil
}

func printReport(c *command.Call, o *options, r *cluster.Report) error {
	switch {
	case o.cluster.drainList:
		for _, name := range r.Drain() {
			fmt.Fprintln(c.Stdout, name)
		}
		return nil
	case o.json:
		return command.JSON(c.Stdout, struct {
			*cluster.Report
			Coverage float64  `json:"coverage"`
			Drain    []string `json:"drain"`
			ExitCode int      `json:"exit_code"`
		}{r, r.Coverage(), r.Drain(), clusterCode(r)})
	}
	return writeCluster(c.Stdout, r)
}

// pushLimit is how long a Pushgateway may take.
const pushLimit = 10 * time.Second

// pushJob groups what is pushed: each push replaces the one before, so that a fault goes when a run no longer finds it.
const pushJob = "gpufabric_cluster_probe"

func pushMetrics(ctx context.Context, address string, text []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pushLimit)
	defer cancel()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	byName, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	client := gateway{http.Client{Timeout: pushLimit, CheckRedirect: sameMethod}}
	return push.New(address, pushJob).Client(client).Gatherer(prometheus.GathererFunc(
		func() ([]*dto.MetricFamily, error) {
			var list []*dto.MetricFamily
			for _, f := range byName {
				list = append(list, f)
			}
			return list, nil
		})).PushContext(ctx)
}

// gateway is a Pushgateway, or who answers in its place, which may say anything: no more is read than its first words.
type gateway struct{ client http.Client }

func (g gateway) Do(r *http.Request) (*http.Response, error) {
	answer, err := g.client.Do(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, probes.MaxText), answer.Body}
	}
	return answer, err
}

// sameMethod follows no redirection that forgets what is pushed, as one to a page where people log in.
func sameMethod(r *http.Request, before []*http.Request) error {
	if len(before) >= 10 || r.Method != before[0].Method {
		return http.ErrUseLastResponse
	}
	return nil
}

func readHistory(file string) (*cluster.History, error) {
	if file == "" {
		return nil, nil
	}
	data, err := files.ReadOwn(file, cluster.HistoryMost)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	h, err := cluster.ParseHistory(data)
	if err != nil {
		return nil, fmt.Errorf("--history=%s: %w", file, err)
	}
	return h, nil
}

func writeHistory(file string, h *cluster.History, r *cluster.Report) error {
	h.Add(r)
	var b bytes.Buffer
	if err := command.JSON(&b, h); err != nil {
		return err
	}
	return files.Replace(file, b.Bytes())
}
