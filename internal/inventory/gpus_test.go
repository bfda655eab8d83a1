// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// gpuNode is a node with these NICs and GPUs, whose driver names them in order of their first one if it is loaded.
func gpuNode(first, gpus int, driver bool, nics ...int) func(time.Time) *fabric.Node {
	return func(at time.Time) *fabric.Node {
		n := placed(0, nics...)(at)
		n.PCI.Functions = nodeWith(gpus, at).PCI.Functions
		n.GPUs = fabric.Known(gpus, "sysfs", at)
		for i := range gpus {
			if driver {
				n.GPUDriver.GPUs = append(n.GPUDriver.GPUs, fabric.GPU{Index: i, UUID: fmt.Sprint("GPU-", first+i), Address: n.PCI.Functions[i].Address})
			}
		}
		return n
	}
}

// GPUs stay in the record where most cards are exchanged, if they are the same; those of another machine do not.
func TestGPUsOfCardsExchanged(t *testing.T) {
	for name, c := range map[string]struct {
		then, now, last func(time.Time) *fabric.Node
		gone            bool
	}{
		"cards exchanged, a GPU gone":      {gpuNode(0, 8, true, 1, 2, 3), gpuNode(0, 7, true, 11, 12, 13), nil, true},
		"the driver is late":               {gpuNode(0, 8, true, 1, 2, 3), gpuNode(0, 7, false, 11, 12, 13), gpuNode(0, 7, true, 11, 12, 13), true},
		"the driver is not loaded":         {gpuNode(0, 8, true, 1, 2, 3), gpuNode(0, 7, false, 11, 12, 13), nil, false},
		"another machine":                  {gpuNode(0, 8, true, 1, 2, 3), gpuNode(20, 7, true, 11, 12, 13), nil, false},
		"another machine, a late driver":   {gpuNode(0, 8, true, 1, 2, 3), gpuNode(20, 7, false, 11, 12, 13), gpuNode(20, 7, true, 11, 12, 13), false},
		"another machine without NICs":     {gpuNode(0, 8, true), gpuNode(20, 4, true), nil, false},
		"another machine without a driver": {gpuNode(0, 8, false, 1, 2, 3), gpuNode(20, 7, false, 11, 12, 13), nil, false},
		"a GPU gone":                       {gpuNode(0, 8, true, 1, 2, 3), gpuNode(0, 7, true, 1, 2, 3), nil, true},
		"a GPU gone, another exchanged":    {gpuNode(0, 8, true, 1, 2, 3), gpuNode(1, 7, true, 1, 2, 3), nil, true},
		"a GPU gone, without a driver":     {gpuNode(0, 8, true, 1, 2, 3), gpuNode(0, 7, false, 1, 2, 3), nil, true},
		"gone after a driver that is late": {gpuNode(0, 8, true, 1, 2, 3), gpuNode(0, 8, false, 11, 12, 13), gpuNode(0, 7, false, 11, 12, 13), true},
	} {
		t.Run(name, func(t *testing.T) {
			list := []func(time.Time) *fabric.Node{c.then, c.now}
			if c.last != nil {
				list = append(list, c.last)
			}
			n := watched(t, filepath.Join(t.TempDir(), "inventory.json"), list...)
			if gone := len(n.Remembered) > 0; gone != c.gone {
				t.Errorf("got %+v", n.Remembered)
			}
		})
	}
}

// What moves is where it is now in the file at once.
func TestPlacesAreSaved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "inventory.json")
	synctest.Test(t, func(*testing.T) {
		m := Open(file, "", slog.New(slog.DiscardHandler))
		defer m.Close()
		for i, see := range []func(time.Time) *fabric.Node{placed(0, 1, 2, 3, 4), placed(0, 0, 1, 2, 4), placed(0, 0, 1, 2, 4)} {
			m.Update(see(begin.Add(time.Duration(i) * time.Minute)))
			synctest.Wait()
		}
	})
	had, err := readFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range had.Cards {
		if c.PCI == "0000:01:00.0" { // which is empty now
			t.Errorf("%s is at %s", c.GUID, c.PCI)
		}
	}
}
