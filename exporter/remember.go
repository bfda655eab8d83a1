// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"log/slog"
	"syscall"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/inventory"
)

// remembering is an observer that tells what the node had more of before.
type remembering struct {
	nodeObserver
	had *inventory.Inventory
}

// remember lets an observer of this host remember in a file, if there is a folder for that; an empty name is none.
func remember(ob nodeObserver, file string, log *slog.Logger) nodeObserver {
	return remembering{ob, inventory.Open(file, log)}
}

func (r remembering) Observe(ctx context.Context, want fabric.Want) *fabric.Node {
	return r.had.Update(r.nodeObserver.Observe(ctx, want))
}

func (r remembering) Close() {
	r.nodeObserver.Close()
	r.had.Close()
}

// thisHost tells that the flags name this host's own hardware, and no copy of some sysfs.
func (f *flags) thisHost() bool {
	var st syscall.Statfs_t
	return f.netlink == "" && syscall.Statfs(f.sysfs, &st) == nil && st.Type == sysfsMagic
}
