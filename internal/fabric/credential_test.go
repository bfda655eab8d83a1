// SPDX-License-Identifier: Apache-2.0

package fabric_test

import (
	"testing"

	"gpufabric_exporter/internal/fabric"
)

func TestMaskCredentials(t *testing.T) {
	for was, want := range map[string]string{
		"":    "",
		"106": "106",
		"https://alice:hunter2@metrics.example:443/x":   "https://***@metrics.example:443/x",
		"https://hunter2@metrics.example":               "https://***@metrics.example",
		"grpc+tls://a:p/w:x@h, redis://:hunter2@h":      "grpc+tls://***@h, redis://***@h",
		"alice:hunter2@metrics.example":                 "***@metrics.example",
		"https://h/?token=hunter2&x=1":                  "https://h/?token=***&x=1",
		"a=1;ACCESS_TOKEN=hunter2;b=2":                  "a=1;ACCESS_TOKEN=***;b=2",
		`password = "hunter2 and more", b`:              `password = ***, b`,
		"x-api-key: hunter2":                            "x-api-key: ***",
		"Authorization: Bearer eyJhbGciOi.hunter2":      "Authorization: Bearer ***",
		"=mlx5_0:1,mlx5_1:2":                            "=mlx5_0:1,mlx5_1:2",
		"^docker,lo":                                    "^docker,lo",
		"[2001:db8::1]:80,fe80::1%eth0":                 "[2001:db8::1]:80,fe80::1%eth0",
		"allreduce:tree;broadcast:ring":                 "allreduce:tree;broadcast:ring",
		"tcp://10.0.0.1:80":                             "tcp://10.0.0.1:80",
		"NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth": "NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth",
		"a message of two words":                        "a message of two words",
	} {
		if got := fabric.MaskCredentials(was); got != want {
			t.Errorf("%q became %q, want %q", was, got, want)
		}
		if got := fabric.MaskCredentials(want); got != want {
			t.Errorf("%q became %q", want, got)
		}
	}
	for _, c := range [][3]string{
		{"NCCL_ACME_TOKEN", "hunter2", "***"},
		{"NCCL_ACME_PASSWORD", "", ""},
		{"NCCL_IB_PKEY", "3", "3"},
		{"NCCL_X", "u:hunter2@h", "***@h"},
		{"NCCL_HF", "hf_abcdefghijklmnop", "***"},
		{"NCCL_X", "a,ghp_0123456789abcdef,b", "a***,b"},
		{"NCCL_X", "3f786850e387550fdab836ed7e6dc881de23001b", "***"},
		{"NCCL_X", "kJ8sd7Fh2kLm9Qw3Er5Ty7Ui1Op4As6D", "***"},
		{"NCCL_TOPO_FILE", "/opt/x/ndv5-topology-of-the-machine-0123.xml", "/opt/x/ndv5-topology-of-the-machine-0123.xml"},
		{"NCCL_NET_PLUGIN", "/usr/lib/x86_64-linux-gnu/libnccl-net-ofi.so", "/usr/lib/x86_64-linux-gnu/libnccl-net-ofi.so"},
		{"NCCL_BUFFSIZE", "99999999999999999999999999999999999", "99999999999999999999999999999999999"},
	} {
		if got := fabric.MaskValue(c[0], c[1]); got != c[2] {
			t.Errorf("%s=%s became %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
