// SPDX-License-Identifier: Apache-2.0

package fabric

import "testing"

// What is not known must not hide a failure, and what is good must not hide either.
func TestStatusOrder(t *testing.T) {
	order := []Status{StatusFailed, StatusUnknown, StatusOK, StatusNotApplicable, ""}
	for i, s := range order {
		for k, o := range order {
			if s.Worse(o) != (i < k) {
				t.Errorf("%q is worse than %q: %v", s, o, s.Worse(o))
			}
		}
	}
}
