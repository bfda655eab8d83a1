// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/nccl/signature"
)

// Each failure that is only counted is explained without a host, and never for certain; a cause comes before the rest.
func TestCounted(t *testing.T) {
	all := signature.All()
	for i := range all {
		f := Counted([]string{all[i].ID})
		if all[i].Kind == signature.Note && f == nil {
			continue
		}
		if f == nil || len(f.Reasons) == 0 || len(f.Steps()) == 0 || f.Host != "" || f.Seen() != "" {
			t.Errorf("%s: %+v", all[i].ID, f)
			continue
		}
		for _, r := range f.Reasons {
			if r.Certainty == Certain || strings.ContainsAny(r.Cause, "{}") {
				t.Errorf("%s: %+v", all[i].ID, r)
			}
		}
	}
	if f := Counted([]string{"pytorch_watchdog_timeout", "peer_closed", "disk_full"}); f.Signature.ID != "disk_full" {
		t.Errorf("%s comes first", f.Signature.ID)
	}
	if f := Counted([]string{"zzz"}); f != nil {
		t.Errorf("%+v", f)
	}
}
