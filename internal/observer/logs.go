// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"time"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/host/kmsg"
	"gpufabric_exporter/internal/jobs/joblog"
)

// filesPatience bounds how long a scrape waits for files of jobs, which may be on a server, and for messages
// of the kernel.
const filesPatience = 500 * time.Millisecond

// followLogs has other logs of jobs be followed, or none. It needs ob.mu.
func (ob *Observer) followLogs(patterns []LogPattern) {
	if len(patterns) == 0 {
		ob.logs.replace(nil, nil)
		return
	}
	r := joblog.New(patterns, &ob.logOwners)
	ob.logs.replace(func(_ fabric.LogReading, now time.Time) (fabric.LogReading, error) {
		v, err := r.Read(now)
		v.Unread = err // of a folder, which takes nothing from the others
		return v, nil
	}, nil)
}

// followKernel has messages of the kernel be read from another file, or not at all. It needs ob.mu.
func (ob *Observer) followKernel(file string) {
	if file == "" {
		ob.kernel.replace(nil, nil)
		return
	}
	r := kmsg.New(file)
	ob.kernel.replace(func(_ fabric.KernelReading, now time.Time) (fabric.KernelReading, error) { return r.Read(now) },
		ob.closing("the messages of the kernel", r.Close))
}

// configured are the files that the site names now.
func (ob *Observer) configured() NCCLFiles {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	return ob.files
}

// observeLogs reads logs and messages, each in a lane of its own.
func (l *look) observeLogs() {
	files := l.configured()
	ctx, cancel := context.WithTimeout(l.ctx, filesPatience)
	defer cancel()
	if len(files.Logs) > 0 {
		l.n.Logs = named(ctx, l, l.logs, fabric.SourceLogs, fabric.SourceLogs,
			func(v fabric.LogReading, s fabric.Source) fabric.Source {
				if s = lowered(s, v.Shortage); s.Up && v.Unread != nil {
					s.Up, s.Reason, s.Err = false, fabric.ReasonOf(v.Unread), v.Unread
				}
				return s
			})
	}
	if files.Kernel != "" {
		l.n.Kernel = named(ctx, l, l.kernel, fabric.SourceKernel, fabric.SourceKernel, nil)
	}
}

// observeInspector reads the files of NCCL Inspector in a lane of its own.
func (l *look) observeInspector() {
	folder := l.configured().Inspector
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, filesPatience)
	defer cancel()
	l.n.Inspector = named(ctx, l, l.inspect, fabric.SourceInspector, folder,
		func(v fabric.InspectorReading, s fabric.Source) fabric.Source {
			return lowered(s, v.Shortage)
		})
}

// named refreshes the reading of files that the site names, and returns it as a fact from there. What was
// read is used also where lower, unless that is nil, has the source be down because it is not all.
func named[T any](ctx context.Context, l *look, r *reading[T], source, from string,
	lower func(T, fabric.Source) fabric.Source,
) fabric.Fact[T] {
	fresh := since[T](l.now, l.o.FastInterval)
	r.refresh(ctx, fresh, nil)
	v, src := r.get(source, "", fresh)
	fact := fabric.Known(v, from, l.now)
	if !src.Up {
		fact = fabric.UnknownFact[T](src.Reason, from, l.now)
	} else if lower != nil {
		src = lower(v, src)
	}
	l.n.Sources = append(l.n.Sources, src)
	return fact
}

// lowered is a source that is down if files were left out because of a bound: what was read of the others is
// used, and does not look like all there is. The error names who has most of what was left out.
func lowered(s fabric.Source, left fabric.Shortage) fabric.Source {
	if !left.Any() {
		return s
	}
	s.Up, s.Reason = false, fabric.ReasonMalformed
	text := fmt.Sprintf("files were left out because their owners have more than is read of one: %d times of %s",
		left.Lost, left.Most)
	if left.Owners > 1 {
		text += fmt.Sprintf(", and of %d others", left.Owners-1)
	}
	s.Err = fabric.Because(s.Reason, text)
	return s
}
