// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gpufabric_exporter/internal/nccl/settings"
)

func ExampleReader_Read() {
	root, err := os.MkdirTemp("", "rootfs")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	write := func(name, data string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			fmt.Println(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(data), 0o644); err != nil {
			fmt.Println(err)
		}
	}
	write("etc/default/jobs", "export NCCL_DEBUG=WARN\nAPI_TOKEN=secret\n")
	write("etc/nccl.conf", "NCCL_DEBUG=INFO\nNCCL_IB_DISABLE=true\nNCCL_BUFFSIZE=8M\n")

	config, err := settings.New(root, "/etc/default/jobs", "").Read(time.Now())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range config.Variables {
		fmt.Printf("%s: %s=%s\n", v.Source, v.Name, v.Value)
	}
	for _, f := range config.Findings {
		fmt.Printf("%s: %s: %s\n", f.Source, f.Rule, f.Text)
	}
	fmt.Println("NCCL_IB_DISABLE is", config.Number("NCCL_IB_DISABLE", 0))
	// Output:
	// /etc/nccl.conf:3: NCCL_BUFFSIZE=8M
	// /etc/default/jobs:1: NCCL_DEBUG=WARN
	// /etc/nccl.conf:2: NCCL_IB_DISABLE=true
	// /etc/nccl.conf:1: overridden: NCCL_DEBUG="INFO" has no effect: /etc/default/jobs:1 sets "WARN"
	// /etc/nccl.conf:2: not_a_number: NCCL_IB_DISABLE="true" is not a number: NCCL reads 0
	// /etc/nccl.conf:3: trailing_garbage: NCCL_BUFFSIZE="8M": NCCL reads 8 and ignores the rest, which is out of range (bytes, >= 4096): NCCL does not check it, and jobs fail or hang
	// NCCL_IB_DISABLE is 0
}

func ExampleParseNumber() {
	for _, value := range []string{"106", "0x6a", "0152", "106 # DSCP 26", "8M", "true", ""} {
		number, ok := settings.ParseNumber(value)
		fmt.Printf("%q: %d %v\n", value, number, ok)
	}
	// Output:
	// "106": 106 true
	// "0x6a": 106 true
	// "0152": 106 true
	// "106 # DSCP 26": 106 true
	// "8M": 8 true
	// "true": 0 true
	// "": 0 false
}
