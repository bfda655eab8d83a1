// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpufabric_exporter/internal/fabric"
)

const (
	openModule        = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22-I3-B17-02-5)  Tue Sep 23 09:55:41 UTC 2025\nGCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04.2)\n"
	openARM           = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  595.71.05  Release Build  (root@x)\n"
	proprietaryModule = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
	params            = "ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 1\nGrdmaPciTopoCheckOverride: 0\nCoherentGPUMemoryMode: \"\"\nRegistryDwords: \"PeerMappingOverride=1\"\n"
)

func TestGPUDriver(t *testing.T) {
	set := func(v string) string {
		return strings.Replace(params, "GrdmaPciTopoCheckOverride: 0", "GrdmaPciTopoCheckOverride: "+v, 1)
	}
	for name, c := range map[string]struct {
		files    map[string]string
		version  string // or the reason, or absent
		open     string
		override string
	}{
		"none":                 {nil, "absent", "absent", "absent"},
		"open":                 {map[string]string{nvidiaVersion: openModule, nvidiaParams: params}, "580.95.05", "true", "0"},
		"open on ARM":          {map[string]string{nvidiaVersion: openARM, nvidiaParams: params}, "595.71.05", "true", "0"},
		"proprietary":          {map[string]string{nvidiaVersion: proprietaryModule, nvidiaParams: params}, "535.183.01", "false", "0"},
		"deny":                 {map[string]string{nvidiaVersion: openModule, nvidiaParams: set("2")}, "580.95.05", "true", "2"},
		"before that setting":  {map[string]string{nvidiaVersion: proprietaryModule, nvidiaParams: "ModifyDeviceFiles: 1\nMyGrdmaPciTopoCheckOverride: 2\n"}, "535.183.01", "false", "absent"},
		"no parameters":        {map[string]string{nvidiaVersion: openModule}, "580.95.05", "true", "missing"},
		"empty":                {map[string]string{nvidiaVersion: "", nvidiaParams: ""}, "malformed", "malformed", "malformed"},
		"no version in it":     {map[string]string{nvidiaVersion: "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64\n", nvidiaParams: set("two")}, "malformed", "malformed", "malformed"},
		"another module":       {map[string]string{nvidiaVersion: "version: 1.2.3\n", nvidiaParams: set("3")}, "malformed", "malformed", "malformed"},
		"version on line two":  {map[string]string{nvidiaVersion: "\n" + openModule, nvidiaParams: set("-1")}, "malformed", "malformed", "malformed"},
		"binary":               {map[string]string{nvidiaVersion: "\xff\x00", nvidiaParams: "\xff\x00"}, "malformed", "malformed", "malformed"},
		"huge":                 {map[string]string{nvidiaVersion: openModule + strings.Repeat("x", maxSize), nvidiaParams: strings.Repeat("x: 1\n", maxSize)}, "malformed", "malformed", "malformed"},
		"a number of no end":   {map[string]string{nvidiaVersion: openModule, nvidiaParams: set("99999999999999999999999")}, "580.95.05", "true", "malformed"},
		"words around a value": {map[string]string{nvidiaVersion: openModule, nvidiaParams: set("1 # allow")}, "580.95.05", "true", "malformed"},
	} {
		f, _ := open(t, c.files)
		version, isOpen, override := f.GPUDriver(now)
		for what, got := range map[string][2]string{
			"version": {inWords(version), c.version}, "open": {inWords(isOpen), c.open}, "override": {inWords(override), c.override},
		} {
			if got[0] != got[1] {
				t.Errorf("%s: %s is %s, want %s", name, what, got[0], got[1])
			}
		}
	}
}

// inWords is the value of a fact in words, or why there is none.
func inWords[T any](f fabric.Fact[T]) string {
	switch f.State {
	case fabric.OK:
		return fmt.Sprint(f.Value)
	case fabric.Absent:
		return "absent"
	default:
		return string(f.Reason)
	}
}

func TestGPUDriverOdd(t *testing.T) {
	f, root := open(t, map[string]string{"driver/nvidia/other": ""})
	for _, name := range []string{nvidiaVersion, nvidiaParams} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	version, isOpen, override := f.GPUDriver(now)
	if version.Reason != fabric.ReasonIO || isOpen.Reason != fabric.ReasonIO || override.Reason != fabric.ReasonIO {
		t.Errorf("folders: %+v %+v %+v", version, isOpen, override)
	}
}

func FuzzParseNVRM(f *testing.F) {
	for _, s := range []string{openModule, openARM, proprietaryModule, "", "NVRM version: Kernel Module 1.2", "NVRM version:  Open Kernel Module 1.2.3.4.5"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		version, isOpen, ok := parseNVRM(b)
		if ok != driverVersion().MatchString(version) || !ok && isOpen || len(version) > 23 {
			t.Errorf("%q is %q, open %v, %v", b, version, isOpen, ok)
		}
	})
}

func FuzzParseTopologyOverride(f *testing.F) {
	for _, s := range []string{params, "", "GrdmaPciTopoCheckOverride: 2", "GrdmaPciTopoCheckOverride:", ":", "GrdmaPciTopoCheckOverride: 0x1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, set, ok := parseTopologyOverride(b)
		if ok && (v < 0 || v > 2 || !set && v != 0) {
			t.Errorf("%q is %d", b, v)
		}
	})
}
