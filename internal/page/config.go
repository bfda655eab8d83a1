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
	Name              string
	Loaded            string
	Err               string
	Roles             []string
	Restricted        string
	Ports             string
	GPUs              string
	Rates             []string
	RoCE              string
	Environment       string
	Home              string
	Devices           string
	Runbooks, Grafana string
}

func configViewOf(s ConfigStatus, devices fabric.Filter) configView {
	p := s.Config.Policy
	v := configView{
		Name: s.Config.File, Loaded: s.Loaded.UTC().Format("2006-01-02 15:04:05 UTC"),
		Restricted: pattern(p.Restricted), Environment: s.Config.NCCL.Environment, Home: s.Config.NCCL.Home,
		Grafana: s.Config.Links.Grafana,
	}
	if l := s.Config.Links.Runbooks; l != config.DefaultLinks().Runbooks {
		v.Runbooks = l
	}
	if s.Err != nil {
		v.Err = s.Err.Error()
	}
	for _, r := range p.Roles {
		v.Roles = append(v.Roles, pattern(r.Device)+": "+string(r.Role))
	}
	if p.ComputePorts != nil {
		v.Ports = strconv.Itoa(*p.ComputePorts)
	}
	if p.GPUs != nil {
		v.GPUs = strconv.Itoa(*p.GPUs)
	}
	for _, r := range fabric.Roles() {
		if rate, ok := p.PortRates[r]; ok {
			v.Rates = append(v.Rates, string(r)+" "+verdict.Gigabits(rate))
		}
	}
	v.RoCE = expectedRoCEText(p.RoCE)
	switch d := devices; {
	case d.Include != nil:
		v.Devices = "only " + pattern(d.Include)
	case d.Exclude != nil:
		v.Devices = "all but " + pattern(d.Exclude)
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
