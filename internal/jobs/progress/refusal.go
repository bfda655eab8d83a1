// SPDX-License-Identifier: Apache-2.0

package progress

import "fmt"

// Reason is why a job is not asked. The words are stable: they are label values.
type Reason string

// Reasons.
const (
	ProcessesUnknown  Reason = "processes_unknown"  // the processes of the node could not be read
	NoRank            Reason = "no_rank"            // its ranks have ended
	RankElsewhere     Reason = "rank_0_elsewhere"   // another node asks
	NamespaceUnknown  Reason = "namespace_unknown"  // its network namespace is not known
	OtherNamespace    Reason = "other_namespace"    // it is in a pod or container with a network of its own
	NoListener        Reason = "no_listener"        // its RAS is not seen
	ListenersUnknown  Reason = "listeners_unknown"  // others may listen on the same port
	OtherJob          Reason = "other_job"          // another job listens on the same port
	AgeUnknown        Reason = "age_unknown"        // the boot time of the node is not known
	Young             Reason = "young_process"      // a process is younger than 10 minutes
	YoungCommunicator Reason = "young_communicator" // a communicator may be younger than 10 minutes
	VersionUnknown    Reason = "version_unknown"    // the release of NCCL is not known
	VersionRefused    Reason = "version_refused"    // asking that release has crashed jobs
	Waiting           Reason = "waiting"            // it was asked not long ago
	// a process of it ended the connection, and one of its processes of then is left; or processes of three jobs
	// of its owner
	Stopped Reason = "stopped_after_reset"
	// a process with this release of NCCL ended the connection, and then itself
	ReleaseStopped Reason = "release_stopped"
	// processes of jobs of several owners ended the connection: no job is asked until the exporter restarts
	NodeStopped Reason = "node_stopped"
)

// Reasons returns every reason.
func Reasons() []Reason {
	return []Reason{
		ProcessesUnknown, NoRank, RankElsewhere, NamespaceUnknown, OtherNamespace, NoListener, ListenersUnknown, OtherJob,
		AgeUnknown, Young,
		YoungCommunicator, VersionUnknown, VersionRefused, Waiting, Stopped, ReleaseStopped, NodeStopped,
	}
}

// Refusal is the error of a job that is not asked.
type Refusal struct {
	Why  Reason
	Text string
}

func (r *Refusal) Error() string { return r.Text }

func refuse(why Reason, format string, args ...any) error {
	return &Refusal{Why: why, Text: fmt.Sprintf(format, args...)}
}
