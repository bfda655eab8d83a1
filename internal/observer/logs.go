// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/joblog"
	"gpufabric_exporter/internal/host/kmsg"
)

// logsPatience bounds how long a scrape waits for logs of jobs, which may be on a server, and for messages of the kernel.
const logsPatience = 500 * time.Millisecond

// followLogs opens what the site names. What was followed already stays, so that its counts do.
func (ob *Observer) followLogs(before, files NCCLFiles) {
	if !reflect.DeepEqual(before.Logs, files.Logs) {
		ob.joblogs = nil
		if len(files.Logs) > 0 {
			ob.joblogs = joblog.New(files.Logs)
		}
		ob.logs.forget()
	}
	if before.Kernel != files.Kernel {
		ob.retireKernel()
		if files.Kernel != "" {
			ob.messages = kmsg.New(files.Kernel)
		}
		ob.kernel.forget()
	}
}

// retireKernel closes the messages of the kernel. A read of them does not wait for anything.
func (ob *Observer) retireKernel() {
	if ob.messages == nil {
		return
	}
	if err := ob.messages.Close(); err != nil {
		ob.log.Debug("closing the messages of the kernel failed", "err", err)
	}
	ob.messages = nil
}

// observeLogs reads logs and messages, each in a lane of its own.
func (ob *Observer) observeLogs(ctx context.Context, n *fabric.Node, want fabric.Want) {
	if want&fabric.WantLogs == 0 {
		return
	}
	ob.mu.Lock()
	logs, messages := ob.joblogs, ob.messages
	ob.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, logsPatience)
	defer cancel()
	if logs != nil {
		read := func(_ fabric.LogReading, now time.Time) (fabric.LogReading, error) { return logs.Read(now), nil }
		n.Logs = shared(ctx, ob, n, ob.logs, fabric.SourceLogs, read)
		last := &n.Sources[len(n.Sources)-1]
		*last = lowered(*last, n.Logs.Value.Refused)
	}
	if messages != nil {
		read := func(_ fabric.KernelReading, now time.Time) (fabric.KernelReading, error) { return messages.Read(now) }
		n.Kernel = shared(ctx, ob, n, ob.kernel, fabric.SourceKernel, read)
	}
}

// lowered is a source that is down if files were left out because there are more than are read: what was read of the others is used, and
// does not look like all there is.
func lowered(s fabric.Source, refused map[fabric.Refusal]int) fabric.Source {
	if left := refused[fabric.RefusedTooMany]; s.Up && left > 0 {
		s.Up, s.Reason = false, fabric.ReasonMalformed
		s.Err = fabric.Because(s.Reason, fmt.Sprintf("more files than are read: %d are left out", left))
	}
	return s
}

// shared refreshes a reading of a source that is one, and returns it as a fact.
func shared[T any](ctx context.Context, ob *Observer, n *fabric.Node, r *reading[T], source string, read func(T, time.Time) (T, error)) fabric.Fact[T] {
	fresh := since[T](n.At, ob.o.FastInterval)
	r.refresh(ctx, fresh, read)
	v, src := r.get(source, "", fresh)
	n.Sources = append(n.Sources, src)
	if !src.Up {
		return fabric.UnknownFact[T](src.Reason, source, n.At)
	}
	return fabric.Known(v, source, n.At)
}
