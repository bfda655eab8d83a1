// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// inspectorPatience bounds how long a scrape waits for files of jobs, which may be on a server.
const inspectorPatience = 500 * time.Millisecond

// observeInspector reads the files of NCCL Inspector in a lane of its own, if the site names their folder.
func (ob *Observer) observeInspector(ctx context.Context, n *fabric.Node, want fabric.Want) {
	ob.mu.Lock()
	folder := ob.files.Inspector
	ob.mu.Unlock()
	if want&fabric.WantRanks == 0 || folder == "" {
		return
	}
	fresh := since[fabric.InspectorReading](n.At, ob.o.FastInterval)
	ctx, cancel := context.WithTimeout(ctx, inspectorPatience)
	defer cancel()
	ob.inspect.refresh(ctx, fresh, ob.readInspector)
	v, src := ob.inspect.get(fabric.SourceInspector, "", fresh)
	n.Sources = append(n.Sources, lowered(src, v.Shortage))
	n.Inspector = fabric.Known(v, folder, n.At)
	if !src.Up {
		n.Inspector = fabric.UnknownFact[fabric.InspectorReading](src.Reason, folder, n.At)
	}
}

// readInspector reads the folder that is configured when it begins.
func (ob *Observer) readInspector(_ fabric.InspectorReading, now time.Time) (fabric.InspectorReading, error) {
	ob.mu.Lock()
	reader := ob.inspector
	ob.mu.Unlock()
	return reader.Read(now)
}
