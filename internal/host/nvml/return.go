// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpufabric_exporter/internal/fabric"
)

// returns are the values of nvmlReturn_t in NVML's words, without NVML_ERROR_.
var returns = map[nvml.Return]string{
	nvml.SUCCESS: "success", nvml.ERROR_UNINITIALIZED: "uninitialized", nvml.ERROR_INVALID_ARGUMENT: "invalid_argument",
	nvml.ERROR_NOT_SUPPORTED: "not_supported", nvml.ERROR_NO_PERMISSION: "no_permission",
	nvml.ERROR_ALREADY_INITIALIZED: "already_initialized", nvml.ERROR_NOT_FOUND: "not_found",
	nvml.ERROR_INSUFFICIENT_SIZE: "insufficient_size", nvml.ERROR_INSUFFICIENT_POWER: "insufficient_power",
	nvml.ERROR_DRIVER_NOT_LOADED: "driver_not_loaded", nvml.ERROR_TIMEOUT: "timeout", nvml.ERROR_IRQ_ISSUE: "irq_issue",
	nvml.ERROR_LIBRARY_NOT_FOUND: "library_not_found", nvml.ERROR_FUNCTION_NOT_FOUND: "function_not_found",
	nvml.ERROR_CORRUPTED_INFOROM: "corrupted_inforom", nvml.ERROR_GPU_IS_LOST: "gpu_is_lost",
	nvml.ERROR_RESET_REQUIRED: "reset_required", nvml.ERROR_OPERATING_SYSTEM: "operating_system",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH: "lib_rm_version_mismatch", nvml.ERROR_IN_USE: "in_use",
	nvml.ERROR_MEMORY:  "memory",
	nvml.ERROR_NO_DATA: "no_data", nvml.ERROR_INSUFFICIENT_RESOURCES: "insufficient_resources",
	nvml.ERROR_ARGUMENT_VERSION_MISMATCH: "argument_version_mismatch", nvml.ERROR_DEPRECATED: "deprecated",
	nvml.ERROR_NOT_READY: "not_ready", nvml.ERROR_GPU_NOT_FOUND: "gpu_not_found",
	nvml.ERROR_INVALID_STATE: "invalid_state",
	nvml.ERROR_UNKNOWN:       "unknown",
}

// nameOf returns NVML's word for an answer. Those that are newer than this binary are one.
func nameOf(ret nvml.Return) string {
	if n, ok := returns[ret]; ok {
		return n
	}
	return "unrecognized"
}

// reasonOf is why a fact is unknown, see the package comment.
func reasonOf(ret nvml.Return) fabric.Reason {
	switch ret {
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_INVALID_ARGUMENT, nvml.ERROR_ARGUMENT_VERSION_MISMATCH,
		nvml.ERROR_DEPRECATED:
		return fabric.ReasonUnsupported
	case nvml.ERROR_NO_PERMISSION:
		return fabric.ReasonPrivilege
	case nvml.ERROR_FUNCTION_NOT_FOUND:
		return fabric.ReasonMissing
	case nvml.ERROR_GPU_IS_LOST:
		return fabric.ReasonGone
	default:
		return fabric.ReasonIO
	}
}

// answers is the error of a function that does not succeed.
func answers(function string, ret nvml.Return) error {
	return fabric.Because(reasonOf(ret), fmt.Sprintf("%s answers %d (%s)", function, int(ret), nameOf(ret)))
}
