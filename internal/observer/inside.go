// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"os"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/inside"
)

// observeInside reads what a job finds here. Until that is read, and where a folder does not answer, nothing of it is known.
func (ob *Observer) observeInside(ctx context.Context, n *fabric.Node, want fabric.Want) {
	if want&fabric.WantInside == 0 {
		return
	}
	r := inside.Reader{Dev: ob.o.Rootfs + "/dev", Sysfs: ob.o.Sysfs, Procfs: ob.o.Procfs, Root: ob.o.Rootfs, LibraryPath: ob.o.LibraryPath, Environment: os.LookupEnv}
	fresh := since[fabric.Inside](n.At, ob.o.FastInterval)
	ob.inside.refresh(ctx, fresh, func(_ fabric.Inside, now time.Time) (fabric.Inside, error) { return r.Read(now), nil })
	in, src := ob.inside.get(fabric.SourceInside, "", fresh)
	n.Sources = append(n.Sources, src)
	n.Inside = &in
}
