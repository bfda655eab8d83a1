// SPDX-License-Identifier: Apache-2.0

package site

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/observer"
)

// nothing is an observer of a node without devices.
type nothing struct{ Observer }

func (nothing) Observe(context.Context, fabric.Want) *fabric.Node {
	return &fabric.Node{Policy: &fabric.Policy{}}
}

func (nothing) Close() {}

// A command, as in the container of a job, does not log that nothing is recorded there; the exporter does.
func TestNoRecordIsLoggedByTheExporterOnly(t *testing.T) {
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, nil))
	s := &Site{
		Inventory:   filepath.Join(t.TempDir(), "none", "inventory.json"),
		NewObserver: func(observer.Options) (Observer, error) { return nothing{}, nil },
	}
	n, _, err := s.ObserveOnce(t.Context(), nil, 0, 0, log)
	if err != nil {
		t.Fatal(err)
	}
	if said.Len() > 0 || !strings.Contains(n.Unrecorded, "there is no folder") {
		t.Errorf("a command logs %q, and the node has %q", &said, n.Unrecorded)
	}
	ob, err := s.Observe(observer.Options{Log: log}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer ob.Close()
	if strings.Count(said.String(), "what this node has is not recorded") != 1 {
		t.Errorf("the exporter logs %q", &said)
	}
}
