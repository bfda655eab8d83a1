// SPDX-License-Identifier: Apache-2.0

package fabric

import "time"

// InspectorReading is what one look at the files of NCCL Inspector found: the profiler plugin of NCCL that measures the
// collectives of a job.
type InspectorReading struct {
	Files []InspectorFile
	// Refused counts the files that were not read, by the reason.
	Refused map[Refusal]int
	// Shortage is what the look left out: a process without a file here may have one.
	Shortage Shortage
}

// Refusal is why a file of a job is not read, of Inspector or a log. The words are stable: they are label values.
type Refusal string

// Refusals.
const (
	RefusedNotRegular Refusal = "not_regular" // a link, a folder, a FIFO, or a file with several names
	RefusedTooLarge   Refusal = "too_large"   // longer than the reader takes; not of logs
	RefusedMalformed  Refusal = "malformed"   // has lines, none of which Inspector writes; not of logs
	RefusedTooMany    Refusal = "too_many"    // more than the reader takes of one owner
	// the kernel refused, someone has a lease on it, or it is on a mount that might not answer
	RefusedUnreadable Refusal = "unreadable"
	RefusedNoRank     Refusal = "no_rank" // belongs to no running process of a job; not of logs
)

// Refusals returns every refusal.
func Refusals() []Refusal {
	return []Refusal{
		RefusedNotRegular, RefusedTooLarge, RefusedMalformed, RefusedTooMany, RefusedUnreadable,
		RefusedNoRank,
	}
}

// InspectorFile is what one process wrote. Everything in it belongs to a tenant, who may lie.
type InspectorFile struct {
	GPU     string // UUID ("GPU-…") in the name of a file of the Prometheus mode; empty: JSON mode
	PID     int    // in the name of a file of the JSON mode, as the process sees it; 0: Prometheus mode
	Owner   uint32 // user ID that owns the file
	Written time.Time
	Samples []CollectiveSample
	Totals  []CollectiveTotal // of the JSON mode only; the Prometheus mode does not count
}

// CollectiveTotal is what a process did of one operation since its file was read first.
type CollectiveTotal struct {
	Collective string // one of Collectives()
	Nodes      bool   // the communicators have ranks on several nodes
	// Recorded is how many Inspector wrote, and Seconds their time; both are estimated from a sample where it
	// wrote more than is read.
	Recorded, Seconds float64
	// Launched is how many there were by the numbers of the records: Inspector drops some, and leaves out small
	// ones. 0 for sends and receives, which have no numbers of their own.
	Launched float64
}

// CollectiveSample is the mean of what Inspector reports about one kind of collective on one GPU. Inspector's
// rings drop records, so it is a sample of the collectives that ran.
type CollectiveSample struct {
	Collective   string // one of Collectives()
	Size         SizeClass
	Nodes        bool          // the communicator has ranks on several nodes
	BusBandwidth float64       // bytes per second, geometric mean
	Duration     time.Duration // mean
}

// Collectives returns the operations that Inspector distinguishes, by the names that NCCL gives them.
func Collectives() []string {
	return []string{
		"AllGather", "AllGatherV", "AllReduce", "All2All", "Broadcast", "Reduce", "ReduceScatter", "Recv",
		"Send", "SendRecv",
	}
}

// SizeClass is a range of message sizes. Bandwidth depends on the size: only results of one class can be compared.
type SizeClass string

// Size classes.
const (
	SizeTiny   SizeClass = "under_1MiB"
	SizeSmall  SizeClass = "1MiB_to_16MiB"
	SizeMedium SizeClass = "16MiB_to_256MiB"
	SizeLarge  SizeClass = "from_256MiB"
)

// SizeClassOf returns the class of a message of that many bytes.
func SizeClassOf(bytes float64) SizeClass {
	const mib = 1 << 20
	switch {
	case bytes < mib:
		return SizeTiny
	case bytes < 16*mib:
		return SizeSmall
	case bytes < 256*mib:
		return SizeMedium
	}
	return SizeLarge
}
