// SPDX-License-Identifier: Apache-2.0

package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/netlink"
)

func TestDriver(t *testing.T) {
	k := &fakeKernel{nics: map[string]*nic{"eth0": hca(1, "3")}}
	c := client(t, k)
	want := DriverInfo{Driver: "mlx5_core", Version: "6.1.0", Firmware: "28.39.1002 (MT_0000000838)", Bus: "0000:1a:00.0"}
	if got, err := c.Driver("eth0"); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := c.Driver("eth1"); !errors.Is(err, unix.ENODEV) || got != (DriverInfo{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// What only this package knows of its errors shows in the reason of a fact.
func TestReasons(t *testing.T) {
	for err, want := range map[error]fabric.Reason{
		fmt.Errorf("%w: %w", ErrMissing, unix.ENOENT): fabric.ReasonMissing,
		netlink.ErrMalformed:                          fabric.ReasonMalformed, ErrChanging: fabric.ReasonIO, netlink.ErrBroken: fabric.ReasonIO, errClosed: fabric.ReasonIO,
	} {
		if got := fabric.ReasonOf(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

func TestClose(t *testing.T) {
	k := &fakeKernel{nics: map[string]*nic{"eth0": hca(1, "3")}}
	c := client(t, k)
	asked, answer, ended := make(chan bool), make(chan bool), make(chan error)
	k.before = func(command, string) { asked <- true; <-answer }
	go func() {
		_, err := c.Driver("eth0")
		ended <- err
	}()
	<-asked
	c.Close() // does not wait for a driver, nor take away what it writes to
	if n := c.Commands()[fabric.CommandNetNames]; k.closed != 0 || n != 1 {
		t.Error(k.closed, n)
	}
	close(answer)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	c.Close()
	c.Close()
	if k.closed != 1 {
		t.Error("closed", k.closed, "times")
	}
	_, noDriver := c.Driver("eth0")
	_, noStatistics := c.Statistics("eth0", all, now())
	for _, err := range []error{noDriver, noStatistics, c.Read("eth0", &fabric.QoS{}, now())} {
		if !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	}
}

// The interfaces of the machine that runs the test, which may have no statistics and no netlink.
func TestHost(t *testing.T) {
	c, err := Open()
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if n, err := c.index(i.Name); err != nil || int(n) != i.Index {
			t.Errorf("%s: index %d, %v, want %d", i.Name, n, err, i.Index)
		}
		for range 2 {
			counters, err := c.Statistics(i.Name, all, time.Now())
			if err != nil && !errors.Is(err, errors.ErrUnsupported) {
				t.Error(err)
			}
			t.Log(i.Name, len(counters), "statistics", err)
		}
		d, err := c.Driver(i.Name)
		t.Logf("%s %+v %v", i.Name, d, err)
		var q fabric.QoS
		err = c.Read(i.Name, &q, time.Now())
		t.Logf("%s %+v %+v %v", i.Name, q.Pause, q.FEC, err)
	}
	for _, name := range []string{"no-such-netdev", "", strings.Repeat("x", 16), strings.Repeat("x", 1<<17)} {
		if _, err := c.Statistics(name, all, time.Now()); !errors.Is(err, unix.ENODEV) {
			t.Errorf("%.20s: %v", name, err)
		}
		if _, err := c.Driver(name); !errors.Is(err, unix.ENODEV) {
			t.Errorf("%.20s: %v", name, err)
		}
		var q fabric.QoS
		err := c.Read(name, &q, time.Now())
		if q.Pause.State != fabric.Unknown || q.Pause.Reason == "" || q.FEC.Reason == "" || name == "no-such-netdev" && !errors.Is(err, unix.ENODEV) {
			t.Errorf("%.20s: %+v, %v", name, q, err)
		}
	}
}

// What the kernel says when the request has another length than the list.
func TestHostLength(t *testing.T) {
	c, err := Open()
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		n, err := c.count(i.Name)
		if err != nil {
			continue
		}
		if _, err := c.readValues(i.Name, n); err != nil {
			t.Error(err)
		}
		for _, wrong := range []int{1, n - 1, n + 1, 2 * n} {
			if wrong == n || wrong <= 0 {
				continue
			}
			if _, err := c.readValues(i.Name, wrong); !errors.Is(err, errChanged) {
				t.Errorf("%s: %d values, but %d asked for: %v", i.Name, n, wrong, err)
			}
			t.Logf("%s: %d values, %d asked for, the kernel says %d", i.Name, n, wrong, binary.NativeEndian.Uint32(c.values[4:]))
			if _, err := c.readNames(i.Name, wrong); !errors.Is(err, errChanged) {
				t.Errorf("%s: %d names, but %d asked for: %v", i.Name, n, wrong, err)
			}
		}
	}
}
