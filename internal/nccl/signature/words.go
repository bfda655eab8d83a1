// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"strings"
	"sync"
)

// Word is what a word of a line says of it; a line may have several.
type Word uint

// Words.
const (
	OfInformation Word = 1 << iota // a level below warnings, or that nothing is wrong
	OfWarning
	OfError   // a level, or the name of an exception
	OfTrouble // something did not work, without a level
	OfEnd     // the program reached its end, or serves
	OfProgress
	OfStack      // a frame of a stack, or what it was in
	OfGiven      // a setting, a limit, a package or an address
	OfBackground // how far work came, or by what ranks meet
	OfItem       // of what programs list about themselves, and warnings that a debugger gives of what NCCL handles
)

var vocabulary = []struct {
	says Word
	list []string
}{
	{OfInformation, []string{
		" INFO ", "[INFO", "INFO:", " DEBUG ", "0 error", "no error", "errors: 0", "errors=0", "error: 0", "error=0",
	}},
	{OfWarning, []string{"Warning", "WARN", "warning"}},
	{OfError, []string{
		" ERROR ", "[ERROR", "ERROR:", "|ERROR", "CRITICAL", "FATAL", "Fatal", "panic:", "terminate called", "core dumped",
		"Check failed", "Assertion", "Error:", "Exception:", "what():", "Aborted", "Error executing",
	}},
	{OfTrouble, []string{
		"error", "Error", "ailed", "ailure", "annot ", "ould not", "not permitted",
		"denied", "refused", "unreachable", "timed out",
	}},
	{OfEnd, []string{
		"ompleted", "startup complete", "inished", "` reached", "Avg bus bandwidth", "100%|", "Uvicorn running", "successfully",
		" passed in ", "PASSED", " test in ", " tests in ", "All tests passed", "exited with code 0",
	}},
	{OfProgress, []string{"epoch", "Epoch", "loss", "step", "it/s", "iteration", "Iteration", "tokens/s", "throughput"}},
	{OfStack, []string{`File "`, " in 0x", "(+0x", "@ 0x", ".so.", ".so(", " in nccl", "apturing", " in ?? ()", "() from /", "()  /", ".so)"}},
	{OfGiven, []string{
		"NCCL_", "VISIBLE_DEVICES", "GLOO_", "UCX_", "HSA_", "FI_PROVIDER", "ulimit -l", "locked memory",
		"inet ", "inet6 ", "nvidia-nccl", "--nproc", "(UUID: GPU-", "docker run ", "podman run ",
		"CUDA_LAUNCH", "Exclusive_", "CmaTotal", "CmaFree", " -np ", "memory_peers",
	}},
	{OfBackground, []string{
		"--- PASS: ", "--- FAIL: ", "raining time: ", "train_runtime", "uccessfully saved", "saved successfully",
		"s/it", "file://", " passed, ",
	}},
	{OfItem, []string{
		"ProcessGroupNCCL initialized with following options", "NCCL_ASYNC_ERROR_HANDLING: ", "NCCL_BLOCKING_WAIT: ", "TIMEOUT(ms): ",
		"USE_HIGH_PRIORITY_STREAM: ", "NCCL_DEBUG: ", "[New Thread 0x", "[Thread 0x", " Pid ",
		"cudaDeviceEnablePeerAccess returned (0x2c0)", "cudaDeviceEnablePeerAccess returned (0xd9)",
		"cudaGetLastError returned (0x2c0)", "cudaGetLastError returned (0xd9)",
	}},
}

var wordMatcher = sync.OnceValue(func() *matcher {
	rows := make([]Signature, len(vocabulary))
	for i, w := range vocabulary {
		for _, text := range w.list {
			rows[i].Forms = append(rows[i].Forms, Form{Text: text})
		}
	}
	return newMatcher(rows)
})

// Words returns what words of a line say of it.
func Words(line string) (says Word) {
	m := wordMatcher()
	for i := 0; i+keyBytes <= len(line); i++ {
		key := keyAt(line, i)
		if h := hash(key); m.begin[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		for _, a := range m.texts[key] {
			if strings.HasPrefix(line[i:], a.text) {
				says |= vocabulary[a.row].says
			}
		}
	}
	return says
}
