// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"
)

const ifNotChosen = "works (info): The line sets this value only where the caller has not set the variable that it names\n"

// What a template fills in is read or undecided, and a document that is no YAML costs itself alone.
func TestTemplates(t *testing.T) {
	const lines = ": undecided (info): The document that begins here is no YAML or JSON as it stands: lines of it are not judged"
	for _, c := range []struct{ text, want string }{
		{"environment:\n  NCCL_DEBUG: ${LEVEL:-WARN}\n  NCCL_IB_HCA: \"${HCA-mlx5_2,mlx5_3}\"\n", "2 NCCL_DEBUG=WARN: " + ifNotChosen + "3 NCCL_IB_HCA=mlx5_2,mlx5_3: " + ifNotChosen},
		{"environment:\n  - NCCL_DEBUG=${LEVEL:-LOUD}\n", "2 NCCL_DEBUG=LOUD: misread (warning)"},
		{"environment:\n  NCCL_DEBUG: ${LEVEL:-${OTHER}}\n  NCCL_NET: pre${A}\n", "2 NCCL_DEBUG=${LEVEL:-${OTHER}}: undecided (info)"},
		{"command: [mpirun, -x, \"NCCL_DEBUG=${LEVEL:-LOUD}\"]\n", "1 NCCL_DEBUG=LOUD: misread (warning)"},
		{
			"kind: ConfigMap\ndata: {NCCL_DEBUG: LOUD}\n---\nenv:\n- {name: NCCL_NET, value: IB}\nvolumes:\n- claim: { claimName: ${CLAIM} }\n- {name: NCCL_PROTO, value: ${P}}\n",
			"2 NCCL_DEBUG=LOUD: misread (warning): NCCL_DEBUG=\"LOUD\" is ignored by NCCL, which knows VERSION|WARN|INFO|ABORT|TRACE -> correct or remove the line\n5 NCCL_NET=IB: works\n8 NCCL_PROTO=$_P_: undecided (info)",
		},
		{"a: [\n---\nenv:\n- {name: NCCL_DEBUG, value: LOUD}\n", "4 NCCL_DEBUG=LOUD: misread (warning)"},
		{"a: [\n---\nenv:\n- {name: NCCL_DEBUG, value: WARN}\n", "4 NCCL_DEBUG=WARN: works\n1 =" + lines},
		{"env:\n{{- range .x }}\n- {name: NCCL_DEBUG, value: {{ .y }}}\n{{- end }}\n- {name: NCCL_NET, value: IB}\n", "3 NCCL_DEBUG=$___y___: undecided (info): The value is known only when the script or the container runs\n5 NCCL_NET=IB: works\n1 =" + lines},
		{"x: {{ .a }}: {{ .b }}: [\n", "1 =" + lines},
	} {
		if got := lintText(t, c.text, FormatManifest, "2.30.7"); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q:\n%swant\n%s", c.text, got, c.want)
		}
	}
	if _, err := Parse("job", []byte("a: [\n---\nb: [\n"), FormatManifest); err == nil || err.Error() != "job: expected YAML or JSON: line 1 is neither" {
		t.Errorf("no document: %v", err)
	}
	if _, err := Parse("job", []byte(strings.Repeat("---\na: b\n", maxDocuments+1)), FormatManifest); err == nil || !strings.Contains(err.Error(), "1000 documents") {
		t.Errorf("many documents: %v", err)
	}
}

// Objects of a client of Kubernetes set variables too.
func TestClientObjects(t *testing.T) {
	const program = `env = [
    V1EnvVar(name="NCCL_DEBUG", value="LOUD"), client.V1EnvVar("TOKEN", "hunter2"),
    # V1EnvVar(name="NCCL_NET", value="x"),
    client.V1EnvVar(
        name='NCCL_IB_HCA',
        value='mlx5_4',
    ),
    k8s.V1EnvVar(name="NCCL_IB_TC", value=str(tc)),
]
`
	got := lintText(t, program, FormatPython, "2.30.7")
	for _, want := range []string{"2 NCCL_DEBUG=LOUD: misread (warning)", "5 NCCL_IB_HCA=mlx5_4: works\n", "8 NCCL_IB_TC=: undecided"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "hunter2") || strings.Contains(got, "NCCL_NET") {
		t.Errorf("a secret or a comment:\n%s", got)
	}
}
