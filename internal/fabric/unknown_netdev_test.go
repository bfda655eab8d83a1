// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// A fact that is added to NetDev or QoS and forgotten in UnknownNetDev would say that nobody asked for it.
func TestUnknownNetDevForgetsNothing(t *testing.T) {
	d := UnknownNetDev("eth0", ReasonRTNLStuck, time.Unix(1, 0))
	for _, v := range []reflect.Value{reflect.ValueOf(d), reflect.ValueOf(d.QoS)} {
		for f, value := range v.Fields() {
			if !strings.HasPrefix(f.Type.Name(), "Fact[") {
				continue
			}
			if got := value.FieldByName("Reason").String(); got != string(ReasonRTNLStuck) {
				t.Errorf("%s is unknown because of %q, want rtnl_stuck", f.Name, got)
			}
		}
	}
}
