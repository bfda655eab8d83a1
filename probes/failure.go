// SPDX-License-Identifier: Apache-2.0

package probes

// Failure is why a probe failed or was aborted.
type Failure string

// Failures.
const (
	FailureLibrary  Failure = "library"      // NCCL or CUDA could not be loaded, or lack a symbol
	FailureInit     Failure = "init"         // a communicator was not made
	FailureHang     Failure = "hang"         // a deadline passed
	FailureCrash    Failure = "crash"        // a rank ended
	FailureNCCL     Failure = "nccl"         // NCCL reported an error in or after a collective
	FailureCUDA     Failure = "cuda"         // CUDA did
	FailureWrong    Failure = "wrong_result" // the data is not what the operation gives
	FailureProtocol Failure = "protocol"     // a rank sent something that is not an answer
	FailureSettings Failure = "settings"     // what the site configured cannot be used
	FailureVersions Failure = "versions"     // ranks have different versions of NCCL
	FailureIntruder Failure = "intruder"     // another process came to the GPUs (Aborted)
	// the exporter ends, maintenance began, or the users of the GPUs could not be read (Aborted)
	FailureStopped Failure = "stopped"
)

// failures are all failures, and where to look; nowhere where the error says it all.
var failures = []struct {
	failure Failure
	advice  string
}{
	{FailureLibrary, "--library names NCCL; the driver's libcuda.so.1 must be where the loader looks"},
	{FailureInit, "NCCL's log shows the cause; often NCCL_SOCKET_IFNAME matches no interface, or /dev/shm is too small"},
	{
		FailureHang,
		"with large messages over a slow network try smaller --bytes or fewer --iterations; else check which transport NCCL's log names last",
	},
	{FailureCrash, "see NCCL's log and dmesg (Xid, oom-killer)"},
	{FailureNCCL, "see NCCL's log and dmesg (Xid)"},
	{FailureCUDA, "see NCCL's log and dmesg (Xid)"},
	{
		FailureWrong,
		"do not train on these GPUs: compare with --ranks and rail to find which GPU or NIC it is, then dcgmi diag -r 3",
	},
	{FailureProtocol, ""},
	{FailureSettings, ""},
	{FailureVersions, "ranks must load the same library: --library names it"},
	{FailureIntruder, "try again when the GPUs are idle"},
	{FailureStopped, ""},
}

// Failures returns all failures.
func Failures() []Failure {
	var all []Failure
	for _, f := range failures {
		all = append(all, f.failure)
	}
	return all
}

// Advice says where to look when a run failed; empty: its error says it all.
func (f Failure) Advice() string {
	for _, known := range failures {
		if known.failure == f {
			return known.advice
		}
	}
	return ""
}
