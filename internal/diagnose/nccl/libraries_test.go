// SPDX-License-Identifier: Apache-2.0

package nccl_test

import (
	"strings"
	"testing"

	"gpufabric_exporter/internal/diagnose/diagnosetest"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/verdict"
)

func TestNCCLVersion(t *testing.T) {
	library := func(path, version string) fabric.Fact[fabric.Library] {
		return fabric.Known(fabric.Library{Path: path, Version: version}, path, diagnosetest.At)
	}
	least := &fabric.NCCLVersion{}
	*least, _ = fabric.ParseNCCLVersion("2.21.5")
	for _, c := range []struct {
		name        string
		least       *fabric.NCCLVersion
		host, probe fabric.Fact[fabric.Library]
		want        []verdict.Status
		says        string
	}{
		{"not asked for", nil, library("/a", "2.10.3"), fabric.Fact[fabric.Library]{}, nil, ""},
		{"the same", least, library("/a", "2.21.5"), fabric.AbsentFact[fabric.Library]("", diagnosetest.At), []verdict.Status{verdict.OK}, ""},
		{"newer", least, library("/a", "2.30.7"), fabric.AbsentFact[fabric.Library]("", diagnosetest.At), []verdict.Status{verdict.OK}, ""},
		{"older", least, library("/a", "2.9.9"), fabric.AbsentFact[fabric.Library]("", diagnosetest.At), []verdict.Status{verdict.Failed}, "It is NCCL 2.9.9; expected.nccl_minimum_version is 2.21.5."},
		{"no release", least, library("/a", ""), fabric.AbsentFact[fabric.Library]("", diagnosetest.At), []verdict.Status{verdict.Unknown}, "Neither the name of the file nor its content"},
		{"unreadable", least, fabric.UnknownFact[fabric.Library](fabric.ReasonPrivilege, "", diagnosetest.At), fabric.AbsentFact[fabric.Library]("", diagnosetest.At), []verdict.Status{verdict.Unknown}, "The NCCL library of the host"},
		{"none", least, fabric.AbsentFact[fabric.Library]("", diagnosetest.At), fabric.AbsentFact[fabric.Library]("", diagnosetest.At), nil, ""},
		{"that of probes is older", least, library("/a", "2.21.5"), library("/b", "2.20.5"), []verdict.Status{verdict.OK, verdict.Failed}, "It is NCCL 2.20.5"},
		{"both are one", least, library("/a", "2.20.5"), library("/a", "2.20.5"), []verdict.Status{verdict.Failed}, ""},
	} {
		n := &fabric.Node{Policy: &fabric.Policy{NCCL: c.least}, At: diagnosetest.At}
		n.NCCL.Library, n.NCCL.ProbeLibrary = c.host, c.probe
		found := map[verdict.Status]int{}
		var text strings.Builder
		list := diagnosetest.Ask(n, "nccl_version")
		for _, v := range list {
			found[v.Status]++
			text.WriteString(v.Evidence)
		}
		for _, s := range c.want {
			found[s]--
		}
		if len(list) != len(c.want) || found[verdict.OK] != 0 || found[verdict.Failed] != 0 || found[verdict.Unknown] != 0 || !strings.Contains(text.String(), c.says) {
			t.Errorf("%s: %+v, want %v %q", c.name, list, c.want, c.says)
		}
	}
}
