// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
)

// logTo makes the observer log into text, each record a line of level, source and reason.
func logTo(text *strings.Builder) func(*Options) {
	return func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.LevelKey, "source", "reason":
				return a
			}
			return slog.Attr{}
		}}))
	}
}

// A lock that is stuck is first an answer that is late: the log says both, each once.
func TestLogsEachReasonOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		var text strings.Builder
		ob := start(t, k, logTo(&text))
		observe(t, ob, all)
		k.mu.Lock()
		k.rtnl = make(chan struct{})
		k.mu.Unlock()
		time.Sleep(2 * time.Minute) // interfaces are read again
		for range 50 {
			observeWithin(t, ob, all, 2*time.Second)
			time.Sleep(time.Second)
		}
		close(k.rtnl)
		time.Sleep(time.Second)
		observe(t, ob, all)
		want := "level=WARN source=netdev reason=timeout\nlevel=WARN source=netdev reason=rtnl_stuck\nlevel=INFO source=netdev\n"
		if text.String() != want {
			t.Errorf("logged:\n%swant:\n%s", text.String(), want)
		}
	})
}

// Reasons that alternate, and scrapes of which only some want the source, do not fill the log.
func TestLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel(1)
		var text strings.Builder
		ob := start(t, k, logTo(&text))
		for i := range 100 {
			err := []error{unix.EIO, unix.EACCES}[i%2]
			k.devices["mlx5_0"].set(func(d *fakeDevice) { d.err = err })
			time.Sleep(2 * time.Minute)
			observe(t, ob, fabric.WantHCA)
			observe(t, ob, fabric.WantNCCL)
		}
		want := "level=WARN source=hca reason=io_error\nlevel=WARN source=hca reason=privilege\n"
		if text.String() != want {
			t.Errorf("logged:\n%swant:\n%s", text.String(), want)
		}
		k.remove("mlx5_0")
		for range 2 { // it is let go with the second
			time.Sleep(2 * time.Minute)
			observe(t, ob, fabric.WantHCA)
		}
		if len(ob.troubled) != 0 {
			t.Errorf("remembers a device that left: %v", ob.troubled)
		}
	})
}
