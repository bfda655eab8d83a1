// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A flood of connections that fail is some lines in the log, which say how many there were.
func TestRation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := slog.NewLogLogger(newRation(slog.NewTextHandler(&log, nil)), slog.LevelWarn)
		const seconds, each = 60, 120
		for range seconds {
			for range each {
				l.Print("http: TLS handshake error from 192.0.2.1:1: tls: client didn't provide a certificate")
			}
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "\n"); n > rationBurst+int(seconds*time.Second/rationEvery) || n < rationBurst {
			t.Errorf("%d lines in %d s", n, seconds)
		}
		if !strings.Contains(log.String(), "left_out_before=1") {
			t.Errorf("nothing says how many:\n%s", log.String())
		}
	})
}
