// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// With few descriptors the exporter shows of a node with 18 RDMA devices what it shows with many: a cloud's
// virtual machine or a container often has a hard limit of 1,024.
func TestFewOpenFiles(t *testing.T) {
	series := map[string]int{}
	for _, limit := range []string{"8192", "1024", "512", "256"} {
		url := startLimited(t, limit)
		var text string
		for range 3 { // the first reading opens files, others find how many are left
			text = get(t, url+"/metrics")
		}
		series[limit] = strings.Count(text, "\ngpufabric_hca_") + strings.Count(text, "\ngpufabric_pcie_")
		if n := strings.Count(text, "\ngpufabric_exporter_source_unknown{"); n > 0 || series[limit] != series["8192"] || series[limit] < 500 {
			t.Errorf("with %s open files %d sources fail and %d series are there, expected none and %d", limit, n, series[limit], series["8192"])
		}
		uncached := regexp.MustCompile(`\ngpufabric_exporter_uncached_reads_total (\S+)\n`).FindStringSubmatch(text)
		if uncached == nil || (uncached[1] == "0") != (limit == "8192") {
			t.Errorf("with %s open files %v were opened for one read", limit, uncached)
		}
	}
}

// startLimited serves a simulated node in a process with so many descriptors and returns its address.
func startLimited(t *testing.T, limit string) string {
	t.Helper()
	program, err := os.Executable() // self would be the shell
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "ulimit -n "+limit+` && exec "$0" "$@"`, program, "demo", "--scenario=healthy-oci-h100", "--web.listen-address=127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text()); url != "" {
			go io.Copy(io.Discard, out)
			until(t, url+"/-/ready")
			return url
		}
	}
	t.Fatalf("with %s open files it does not listen", limit)
	return ""
}

func until(t *testing.T, url string) {
	t.Helper()
	for range 600 {
		if answer, err := http.Get(url); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s: never", url)
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status, strconv.Quote(string(text[:min(len(text), 200)])), err)
	}
	return string(text)
}
