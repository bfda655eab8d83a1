// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"strconv"
	"strings"
)

// codeOf finds the number of a completion status, an Xid or an error of CUDA: "with error 12,", "status=12 ",
// "status=IBV_WC_RETRY_EXC_ERR(12)", "Xid (PCI:0000:3b:00): 79, ", "Cuda failure 101 'invalid device ordinal'",
// "Cuda failure 'out of memory'".
func codeOf(message string) int {
	for _, before := range []string{
		"Cuda failure ", "HIP failure", "CUDA error ", " with error ", " status=", "Xid (PCI",
	} {
		_, rest, found := strings.Cut(message, before)
		if !found {
			continue
		}
		if _, first, follows := strings.Cut(rest, "caused by previous Xid "); follows {
			return leading(first) // of an Xid 45
		}
		switch before {
		case " status=":
			word, _, _ := strings.Cut(rest, " ")
			if _, number, named := strings.Cut(word, "("); named {
				rest = number
			}
		case "Xid (PCI":
			_, rest, _ = strings.Cut(rest, "): ")
		case "Cuda failure ", "HIP failure":
			if _, text, quoted := strings.Cut(rest, "'"); quoted && leading(rest) == NoCode {
				text, _, _ = strings.Cut(text, "'")
				if n, known := cudaErrors[text]; known {
					return n
				}
			}
		}
		return leading(rest)
	}
	return NoCode
}

// cudaErrors are texts of cudaGetErrorString, which NCCL logs without the number in calls of the runtime.
var cudaErrors = map[string]int{
	"invalid argument": 1, "out of memory": 2, "initialization error": 3, "driver shutting down": 4,
	"CUDA driver version is insufficient for CUDA runtime version": 35, "all CUDA-capable devices are busy or unavailable": 46,
	"no CUDA-capable device is detected": 100, "invalid device ordinal": 101, "mapping of buffer object failed": 205,
	"no kernel image is available for execution on the device": 209, "invalid device function": 98,
	"the provided PTX was compiled with an unsupported toolchain.": 222, "CUDA driver is a stub library": 34,
	"API call is not supported in the installed CUDA driver": 36,
	"operation not permitted when stream is capturing":       900, "operation failed due to a previous error during capture": 901, "uncorrectable ECC error encountered": 214,
	"device kernel image is invalid": 200, "invalid device context": 201, "a PTX JIT compilation failed": 218,
	"file not found": 301, "shared object symbol not found": 302, "shared object initialization failed": 303,
	"named symbol not found": 500,
	"context is destroyed":   709, "peer mapping resources exhausted": 711, "too many blocks in cooperative launch": 720,
	"peer access is not supported between these two devices": 217, "OS call failed or operation not supported on this OS": 304,
	"invalid resource handle": 400, "an illegal memory access was encountered": 700,
	"the launch timed out and was terminated": 702,
	"an illegal instruction was encountered":  715, "misaligned address": 716, "unspecified launch failure": 719,
	"operation not permitted": 800, "operation not supported": 801, "system not yet initialized": 802,
	"system has unsupported display driver / cuda driver combination": 803,
	"forward compatibility was attempted on non supported HW":         804, "unknown error": 999,
}

// leading is the number that a text begins with.
func leading(s string) int {
	const digits = 6
	end := 0
	for end < len(s) && end <= digits && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	if n, err := strconv.Atoi(s[:end]); err == nil && end <= digits {
		return n
	}
	return NoCode
}
