// SPDX-License-Identifier: Apache-2.0

package ncclprobetest

import (
	"os"
	"regexp"
	"testing"
)

// A line holds where its process runs, with whom and over what.
func TestPlacesOfFaults(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"host " + host + " rank 0 lie sum":                 `^wrong 1 of 1000`,
		"host " + host + " peer " + host + " lie sum":      `^wrong 1 of 1000`,
		"host " + host + " peer elsewhere lie sum":         `^ok`,
		"host elsewhere lie sum":                           `^ok`,
		"hca mlx5_1 host " + host + " rank 0 lie sum":      `^wrong 1 of 1000`,
		"hca mlx5_2 lie sum":                               `^ok`,
		"hca mlx5_1 host " + host + " gpu 0 hang cuInit 9": `^ok`, // no HCA is known to the other library
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			j := job{ranks: 2, env: []string{"NCCL_IB_HCA==mlx5_1:1", "NCCL_SOCKET_IFNAME==lo"}}
			if said := j.run(t, place(t, line))[0].said; !regexp.MustCompile(want).MatchString(said) {
				t.Errorf("%q, expected %s", said, want)
			}
		})
	}
}
