// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gpufabric_exporter/internal/ownership"
	"gpufabric_exporter/internal/worker"
	"gpufabric_exporter/probes"
)

// devices are what NVML, CUDA and RDMA open. Those of MIG and of confidential modes belong to root, and nothing here
// needs them.
var devices = []string{
	"dev/nvidia[0-9]*", "dev/nvidiactl", "dev/nvidia-uvm", "dev/infiniband/uverbs*", "dev/nvidia-caps-imex-channels/channel*",
}

// another returns who a worker can run as in place of root, or says why it runs as this process does. public tells
// whether every user may read what the worker loads. root is where the file system begins, "/" but for tests.
func another(root string, uid int, public bool) (*worker.User, error) {
	switch {
	case os.Geteuid() != 0 || uid == 0:
		return nil, nil
	case !public:
		return nil, errors.New("what it loads is not readable for all users")
	}
	user := worker.User{UID: uint32(uid), GID: uint32(uid)}
	if err := worker.CanBe(user); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &st); err != nil {
		return nil, err
	} else if st.Mode&0o005 != 0o005 {
		return nil, fmt.Errorf("this program has mode %04o, expected read and execute for all", st.Mode&0o7777)
	}
	for _, pattern := range devices {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, device := range found {
			if err := unix.Stat(device, &st); err != nil {
				return nil, &fs.PathError{Op: "stat", Path: device, Err: err}
			} else if st.Mode&0o006 != 0o006 {
				return nil, fmt.Errorf("%s has mode %04o, expected read and write for all", device, st.Mode&0o7777)
			}
		}
	}
	return &user, nil
}

// readable tells whether every user may read a library, and all folders that the loader looks for it in first.
func readable(library, libraryPath string) bool {
	paths := strings.FieldsFunc(libraryPath, func(r rune) bool { return r == ':' || r == ';' })
	if strings.Contains(library, "/") {
		paths = append(paths, library)
	}
	for _, path := range paths {
		if found, err := ownership.Check("/", path); !found.Public && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// noUVM says that CUDA would have a module loaded or a device made, which a rank can and shall not do.
func noUVM(root string) *probes.Skipped {
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	if !exists("dev/nvidiactl") || exists("dev/nvidia-uvm") {
		return nil
	}
	return &probes.Skipped{Why: probes.SkipNoGPU, Detail: "/dev/nvidia-uvm does not exist, and a probe makes no devices: nvidia-modprobe -u -c 0"}
}
