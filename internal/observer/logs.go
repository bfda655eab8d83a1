// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/kmsg"
	"gpufabric_exporter/internal/jobs/joblog"
	"gpufabric_exporter/internal/jobs/owned"
)

// logsPatience bounds how long a scrape waits for logs of jobs, which may be on a server, and for messages of the kernel.
const logsPatience = 500 * time.Millisecond

// followLogs opens what the site names. What was followed already stays, so that its counts do.
func (ob *Observer) followLogs(before, files NCCLFiles) {
	if !reflect.DeepEqual(before.Logs, files.Logs) {
		ob.joblogs = nil
		if len(files.Logs) > 0 {
			ob.joblogs = joblog.New(files.Logs).WithUsers(owned.UsersOf(ob.o.Rootfs))
		}
		ob.logs.forget()
	}
	if before.Kernel != files.Kernel {
		ob.releaseKernel()
		if files.Kernel != "" {
			ob.messages = kmsg.New(files.Kernel)
		}
		ob.kernel.forget()
	}
}

// releaseKernel closes the messages of the kernel in the lane that reads them. It needs ob.mu.
func (ob *Observer) releaseKernel() {
	if ob.messages != nil {
		ob.kernel.lane.release(ob.closing("the messages of the kernel", ob.messages.Close))
		ob.messages = nil
	}
}

// observeLogs reads logs and messages, each in a lane of its own.
func (ob *Observer) observeLogs(ctx context.Context, n *fabric.Node, want fabric.Want) {
	if want&fabric.WantLogs == 0 {
		return
	}
	ob.mu.Lock()
	logs, messages := ob.joblogs != nil, ob.messages != nil
	ob.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, logsPatience)
	defer cancel()
	if logs {
		n.Logs = ob.logFacts(ctx, n)
	}
	if messages {
		n.Kernel = shared(ctx, ob, n, ob.kernel, fabric.SourceKernel, ob.readKernel)
	}
}

// logFacts reads logs. A folder of the site that cannot be read takes nothing from the others.
func (ob *Observer) logFacts(ctx context.Context, n *fabric.Node) fabric.Fact[fabric.LogReading] {
	fresh := since[fabric.LogReading](n.At, ob.o.FastInterval)
	ob.logs.refresh(ctx, fresh, ob.readLogs)
	v, src := ob.logs.get(fabric.SourceLogs, "", fresh)
	up := src.Up
	if src = lowered(src, v.Shortage); src.Up && v.Unread != nil {
		src.Up, src.Reason, src.Err = false, fabric.ReasonOf(v.Unread), v.Unread
	}
	n.Sources = append(n.Sources, src)
	if !up {
		return fabric.UnknownFact[fabric.LogReading](src.Reason, fabric.SourceLogs, n.At)
	}
	return fabric.Known(v, fabric.SourceLogs, n.At)
}

// lowered is a source that is down if files were left out because of a bound: what was read of the others is used, and does not look like
// all there is. The error names who has most of what was left out.
func lowered(s fabric.Source, left fabric.Shortage) fabric.Source {
	if !s.Up || !left.Any() {
		return s
	}
	s.Up, s.Reason = false, fabric.ReasonMalformed
	text := fmt.Sprintf("files were left out because their owners have more than is read of one: %d times of %s", left.Lost, left.Most)
	if left.Owners > 1 {
		text += fmt.Sprintf(", and of %d others", left.Owners-1)
	}
	s.Err = fabric.Because(s.Reason, text)
	return s
}

// readLogs and readKernel read what is configured when they begin.
func (ob *Observer) readLogs(last fabric.LogReading, now time.Time) (fabric.LogReading, error) {
	ob.mu.Lock()
	logs := ob.joblogs
	ob.mu.Unlock()
	if logs == nil {
		return last, errPending
	}
	v, err := logs.Read(now)
	v.Unread = err
	return v, nil
}

func (ob *Observer) readKernel(last fabric.KernelReading, now time.Time) (fabric.KernelReading, error) {
	ob.mu.Lock()
	messages := ob.messages
	ob.mu.Unlock()
	if messages == nil {
		return last, errPending
	}
	return messages.Read(now)
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
