// SPDX-License-Identifier: Apache-2.0

//go:build safety

package safety

import (
	"debug/elf"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// TestProgramIsPIE looks at the program as it is shipped: its addresses are the kernel's to choose, and
// symbols of NVML that the driver lacks still do not keep it from starting.
func TestProgramIsPIE(t *testing.T) {
	const program = "../../bin/gpufabric_exporter"
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, err := f.DynValue(elf.DT_FLAGS)
	flags1, err1 := f.DynValue(elf.DT_FLAGS_1)
	now, err2 := f.DynValue(elf.DT_BIND_NOW)
	if err := errors.Join(err, err1, err2); err != nil {
		t.Fatal(err)
	}
	if f.Type != elf.ET_DYN || len(flags1) != 1 || elf.DynFlag1(flags1[0])&elf.DF_1_PIE == 0 {
		t.Errorf("%s, flags %v, expected a position independent program", f.Type, flags1)
	}
	if len(now) > 0 || len(flags) > 0 && elf.DynFlag(flags[0])&elf.DF_BIND_NOW != 0 || elf.DynFlag1(flags1[0])&elf.DF_1_NOW != 0 {
		t.Error("it binds all symbols when it starts")
	}
	if out, err := exec.CommandContext(t.Context(), program, "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), "gpufabric_exporter") {
		t.Errorf("%v: %s", err, out)
	}
}
