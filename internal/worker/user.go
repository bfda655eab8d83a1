// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// devices are what NVML, CUDA and RDMA open. Those of MIG and of confidential modes belong to root, and nothing here
// needs them.
var devices = []string{
	"dev/nvidia[0-9]*", "dev/nvidiactl", "dev/nvidia-uvm", "dev/infiniband/uverbs*",
	"dev/nvidia-caps-imex-channels/channel*",
}

// InPlaceOfRoot returns who a child can run as in place of root; nil where it is to run as this process does.
// The error says why it cannot run as uid. public means that every user may read what the child loads. root
// is where the file system begins, "/" but for tests.
func InPlaceOfRoot(root string, uid int, public bool) (*User, error) {
	switch {
	case os.Geteuid() != 0 || uid == 0:
		return nil, nil
	case !public:
		return nil, errors.New("what it loads is not readable for all users")
	}
	user := User{UID: uint32(uid), GID: uint32(uid)}
	if err := canBe(user); err != nil {
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
