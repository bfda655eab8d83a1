// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

func TestConfigLinks(t *testing.T) {
	for text, want := range map[string]Links{
		"":         {Runbooks: "https://github.com/gpufabric/gpufabric_exporter/blob/main/alerts/runbooks"},
		"links: {": {},
		"links: {runbooks: 'https://wiki.example/gpu/', grafana: 'http://[fd00::1]:3000/grafana'}": {"https://wiki.example/gpu", "http://[fd00::1]:3000/grafana"},
		"links: {runbooks: /usr/share/doc/gpufabric}":                                              {Runbooks: "/usr/share/doc/gpufabric"},
		"links: {runbooks: 'wiki.example/gpu'}":                                                    {},
		"links: {runbooks: 'javascript:alert(1)'}":                                                 {},
		"links: {runbooks: 'https://wiki.example/a b'}":                                            {},
		"links: {runbooks: '/a\"b'}":                                                               {},
		"links: {runbooks: 'https://wiki.example/{{ $x }}'}":                                       {},
		"links: {runbooks: 'https://'}":                                                            {},
		"links: {grafana: 'https://user:password@grafana.example'}":                                {},
		"links: {grafana: /grafana}":                                                               {},
		"links: {grafana: 'https://grafana.example/?orgId=1'}":                                     {},
		"links: {wiki: x}":                                                                         {},
	} {
		c, err := Parse("f", []byte(text))
		if refused := want == (Links{}); (err != nil) != refused || c.Links != want {
			t.Errorf("%s: %+v, %v; expected %+v", text, c.Links, err, want)
		}
	}
	_, err := Parse("f", []byte("links:\n  grafana: grafana.example"))
	if want := `f:2: grafana: "grafana.example": expected an address such as https://grafana.example`; err == nil || err.Error() != want {
		t.Errorf("got %v, expected %s", err, want)
	}
}
