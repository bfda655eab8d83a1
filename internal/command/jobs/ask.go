// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/job"
	"gpufabric_exporter/internal/library"
	"gpufabric_exporter/internal/progress"
)

const (
	dialPatience    = 2 * time.Second
	libraryPatience = 5 * time.Second // a library may be on the file system of a server that is gone
)

// inquiry asks RAS about jobs.
type inquiry struct {
	look func(ctx context.Context) (*fabric.Node, job.Jobs, error)
	whom progress.Asker
	ask  func(ctx context.Context, conn net.Conn, version fabric.NCCLVersion) (fabric.RASAnswer, error)
	dial func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	says io.Writer // that it is asking
}

// told is what RAS told about a job.
type told struct {
	job     string
	refused error // why it was not asked
	failure error // why it was not asked again
	answers []fabric.RASAnswer
	report  progress.Report
}

// inquire returns what asks on this host.
func (k *looking) inquire(c *command.Call, look func(ctx context.Context) (*fabric.Node, job.Jobs, error)) *inquiry {
	versions := map[int]string{} // by PID: a library is read once
	return &inquiry{
		look: look, ask: k.site.RAS, says: c.Stderr,
		whom: progress.Asker{NetNS: ownNamespace(), Version: func(c *fabric.RankCandidate) string {
			if v := c.Maps.Or(fabric.MappedFiles{}).Version; v != "" {
				return v
			}
			if _, read := versions[c.PID]; !read {
				versions[c.PID] = mappedVersion(k.site.Paths.Procfs, c.PID)
			}
			return versions[c.PID]
		}},
		dial: func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
			d := net.Dialer{Timeout: dialPatience}
			return d.DialContext(ctx, "tcp", addr.String())
		},
	}
}

// mappedVersion reads the version in a library whose name does not tell it. A read that hangs is left behind.
func mappedVersion(procfs string, pid int) string {
	found := make(chan string, 1)
	go func() { found <- library.MappedNCCL(procfs, pid) }()
	select {
	case v := <-found:
		return v
	case <-time.After(libraryPatience):
		return ""
	}
}

// ownNamespace is the inode of the network namespace of this process, 0 if it is not known.
func ownNamespace() uint64 {
	link, _ := os.Readlink("/proc/self/ns/net") // net:[4026531840]
	n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(link, "net:["), "]"), 10, 64)
	return n
}

// about asks about a job until there are enough answers. Before each time it looks again whom: the process may have ended, and another one
// may have its port.
func (q *inquiry) about(ctx context.Context, name string) told {
	t := told{job: name}
	var pace progress.Pace
	var target progress.Target
	activity := progress.ActivityUnknown
	for first := true; ; first = false {
		now, gpus, err := q.target(ctx, name)
		switch {
		case err != nil && first:
			t.refused = err
			return t
		case err == nil && !first && (now.PID != target.PID || now.Start != target.Start):
			err = errors.New("another process is the lowest rank now")
		case err == nil && first:
			fmt.Fprintf(q.says, "Asking RAS of %s (PID %d, NCCL %s) %d times within %s.\n", name, now.PID, now.Version, progress.Polls, (progress.Polls-1)*progress.Interval)
		}
		if err != nil {
			t.failure = err
			break
		}
		if target = now; first {
			activity = gpus
		} else if gpus != activity {
			activity = progress.ActivityUnknown
		}
		answer, err := q.once(ctx, target)
		if t.failure = err; err == nil {
			t.answers = append(t.answers, answer)
		}
		wait, again := pace.After(err)
		if len(t.answers) == progress.Polls || !again || !sleep(ctx, wait) {
			break
		}
	}
	t.report = progress.Judge(t.answers, activity)
	return t
}

func (q *inquiry) target(ctx context.Context, name string) (progress.Target, progress.Activity, error) {
	n, jobs, err := q.look(ctx)
	if err != nil {
		return progress.Target{}, progress.ActivityUnknown, err
	}
	i := slices.IndexFunc(jobs.List, func(j job.Job) bool { return j.Name == name })
	if i < 0 {
		return progress.Target{}, progress.ActivityUnknown, errors.New("the job has ended")
	}
	target, err := q.whom.Whom(n, &jobs.List[i])
	return target, progress.ActivityOf(n, &jobs.List[i]), err
}

func (q *inquiry) once(ctx context.Context, target progress.Target) (fabric.RASAnswer, error) {
	conn, err := q.dial(ctx, target.Addr)
	if err != nil {
		return fabric.RASAnswer{}, fmt.Errorf("connection to RAS: %w", err)
	}
	defer func() { _ = conn.Close() }()
	return q.ask(ctx, conn, target.Version)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// rasDocument is what RAS told as JSON.
type rasDocument struct {
	Job           string        `json:"job"`
	Refused       string        `json:"refused,omitempty"`
	Failure       string        `json:"failure,omitempty"`
	Version       string        `json:"nccl_version,omitempty"`
	Answers       int           `json:"answers"`
	State         string        `json:"state"`
	Confirmed     bool          `json:"confirmed"`
	Communicators int           `json:"communicators"`
	Bad           []badDocument `json:"bad"`
}

type badDocument struct {
	ID    string          `json:"communicator"`
	Size  int             `json:"size"`
	State string          `json:"state"`
	Gap   uint64          `json:"collectives_apart"`
	Count int             `json:"ranks_count"`
	Ranks []placeDocument `json:"ranks"`
}

type placeDocument struct {
	Rank int    `json:"rank"`
	Host string `json:"host,omitempty"`
	PID  int    `json:"pid,omitempty"`
	GPU  *int   `json:"gpu"` // index of CUDA, null: not told
}

func (t *told) document() rasDocument {
	d := rasDocument{Job: t.job, Answers: len(t.answers), State: string(progress.Unknown), Bad: []badDocument{}}
	if t.refused != nil {
		d.Refused = t.refused.Error()
		return d
	}
	if t.failure != nil {
		d.Failure = t.failure.Error()
	}
	if n := len(t.answers); n > 0 {
		d.Version, d.State, d.Confirmed, d.Communicators = t.answers[n-1].Version, string(t.report.State), t.report.Confirmed, t.report.Communicators
	}
	for _, c := range t.report.Bad {
		b := badDocument{c.ID, c.Size, string(c.State), c.Gap, c.Count, []placeDocument{}}
		for _, r := range c.Ranks {
			p := placeDocument{Rank: r.Rank, PID: r.PID}
			if r.Host.IsValid() {
				p.Host = r.Host.String()
			}
			if r.GPU >= 0 {
				p.GPU = &r.GPU
			}
			b.Ranks = append(b.Ranks, p)
		}
		d.Bad = append(d.Bad, b)
	}
	return d
}

// maxShown is how many communicators with a bad state the text names.
const maxShown = 8

// write writes what RAS told as text.
func (t *told) write(w io.Writer) {
	fmt.Fprintf(w, "\nRAS of %s\n", t.job)
	d := t.document()
	if d.Refused != "" {
		fmt.Fprintf(w, "  not asked: %s\n", command.OneLine(d.Refused))
		return
	}
	if d.Failure != "" {
		fmt.Fprintf(w, "  not asked again: %s\n", command.OneLine(d.Failure))
		if errors.Is(t.failure, fabric.ErrRASEnded) {
			fmt.Fprintln(w, "  The process may have crashed of it: look at the job, and do not ask again.")
		}
	}
	confirmed := ""
	if t.report.State == progress.Hang {
		confirmed = ", suspected: its GPUs are busy"
		if d.Confirmed {
			confirmed = ", confirmed: its ranks are apart"
		}
	}
	fmt.Fprintf(w, "  %s%s (%d answers, %d communicators)\n", d.State, confirmed, d.Answers, d.Communicators)
	for _, c := range d.Bad[:min(len(d.Bad), maxShown)] {
		fmt.Fprintf(w, "  communicator %s of %d ranks: %s, %d ranks, collectives apart: %d\n", c.ID, c.Size, c.State, c.Count, c.Gap)
		for _, r := range c.Ranks {
			fmt.Fprintf(w, "    rank %d%s\n", r.Rank, r.where())
		}
	}
	if more := len(d.Bad) - maxShown; more > 0 {
		fmt.Fprintf(w, "  and %d more communicators\n", more)
	}
}

func (p *placeDocument) where() string {
	if p.Host == "" {
		return ""
	}
	s := fmt.Sprintf(": PID %d on %s", p.PID, p.Host)
	if p.GPU != nil {
		s += fmt.Sprintf(", GPU %d", *p.GPU)
	}
	return s
}

// exitOfAnswers is the exit code with what RAS told: bad progress is a failure, and what was not told is undecided.
func exitOfAnswers(code int, all []told) int {
	for i := range all {
		switch s := all[i].document().State; {
		case progress.State(s).Bad():
			return exitFailed
		case code == exitGood && s == string(progress.Unknown):
			code = exitUndecided
		}
	}
	return code
}
