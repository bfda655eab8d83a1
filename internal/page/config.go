// SPDX-License-Identifier: Apache-2.0

package page

import (
	"regexp"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/config"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

// configView is the configuration in force.
type configView struct {
	Name, Loaded, Err string
	Rows              []namedValue
}

func configViewOf(s ConfigStatus, devices fabric.Filter) configView {
	p, links := s.Config.Policy, s.Config.Links
	v := configView{Name: s.Config.File, Loaded: stamp(s.Loaded)}
	if s.Err != nil {
		v.Err = s.Err.Error()
	}
	add := func(name, value string) {
		if value != "" {
			v.Rows = append(v.Rows, namedValue{name, value})
		}
	}
	count := func(name string, n *int) {
		if n != nil {
			add(name, strconv.Itoa(*n))
		}
	}
	count("Compute ports", p.ComputePorts)
	count("GPUs", p.GPUs)
	for _, r := range fabric.Roles() {
		if rate, ok := p.PortRates[r]; ok {
			add("Port rate", string(r)+" "+verdict.Gigabits(rate))
		}
	}
	add("RoCE", expectedRoCEText(p.RoCE))
	for _, r := range p.Roles {
		add("Role", pattern(r.Device)+": "+string(r.Role))
	}
	add("Restricted", pattern(p.Restricted))
	add("NCCL environment", s.Config.NCCL.Environment)
	add("NCCL home", s.Config.NCCL.Home)
	if links.Runbooks != config.DefaultLinks().Runbooks {
		add("Runbooks", links.Runbooks)
	}
	add("Grafana", links.Grafana)
	switch d := devices; {
	case d.Include != nil:
		add("Devices read", "only "+pattern(d.Include))
	case d.Exclude != nil:
		add("Devices read", "all but "+pattern(d.Exclude))
	}
	return v
}

// pattern returns an anchored pattern as the user wrote it.
func pattern(re *regexp.Regexp) string {
	if re == nil {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(re.String(), "^(?:"), ")$")
}
