// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"gpufabric_exporter/internal/simulator"
	"gpufabric_exporter/probes"
)

// The status document of each scenario, with jobs and probes, is as docs/status.schema.json says.
func TestStatusSchema(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	schema, err := compiler.Compile("../../docs/status.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(body string) error {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(document)
	}
	var body string
	for i, s := range simulator.Scenarios() {
		if testing.Short() && i%10 != 0 && s.Name != "job-tcp" {
			continue
		}
		t.Run(s.Name, func(t *testing.T) { // which removes the files of its node
			c := probes.DefaultConfig()
			l := pageAt(t, t, s.Name, 0)
			l.Probes = pagesOf(probedStatus(), &c)
			w := httptest.NewRecorder()
			l.ServeJSON(w, httptest.NewRequest(http.MethodGet, "/status.json", nil))
			body = w.Body.String()
			if err := valid(body); err != nil {
				t.Error(err)
			}
		})
	}
	for _, wrong := range [][2]string{{`"version":1`, `"version":2`}, {`"findings":[`, `"findings":null,"x":[`}, {`"state":"ok","value":`, `"state":"absent","value":`}, {`"verdict":`, `"judgement":`}} {
		if changed := strings.Replace(body, wrong[0], wrong[1], 1); changed == body || valid(changed) == nil {
			t.Errorf("%s instead of %s is valid", wrong[1], wrong[0])
		}
	}
	if strings.Contains(body, `"probes":[]`) {
		t.Error("no document has probes")
	}
}
