// SPDX-License-Identifier: Apache-2.0

package advice

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/internal/nccl/lint"
	"gpufabric_exporter/internal/spelling"
)

const (
	gidVariable    = "NCCL_IB_GID_INDEX"
	familyVariable = "NCCL_IB_ADDR_FAMILY"
	// choosesGID is the release from which on NCCL chooses the GID by itself (ncclIbGetGidIndex).
	choosesGID = "2.21"
)

// gids says which addresses RoCE uses. From 2.21 on NCCL finds the RoCE v2 address of a family by itself, but
// the family must be set.
func (k *adviser) gids() {
	ports := roce(k.base)
	if k.contradicted() || len(ports) == 0 {
		return
	}
	choices, hidden := chosen(ports)
	bad := slices.DeleteFunc(slices.Clone(choices), func(c choice) bool { return c.GID != nil && c.GID.Routable() })
	switch {
	case len(hidden) > 0:
		k.open(gidVariable, "The GID tables of "+spelling.Few(hidden, few)+" could not be read.",
			"run `gpufabric_exporter check --only=gid_usable`")
	case !k.version.AtLeast(choosesGID):
		k.pinGID(choices, bad)
	case len(bad) == 0:
		k.leave(gidVariable,
			fmt.Sprintf("NCCL from %s on finds the RoCE v2 address by itself: %s. A fixed index breaks where tables differ or change.", choosesGID, entries(choices)), gidVariable)
	case len(bad) == len(choices) && k.family():
	default:
		k.open(gidVariable,
			fmt.Sprintf("NCCL finds no routable RoCE v2 address on %s: no setting helps until the port has one.",
				spelling.Few(names(bad), few)), "run `gpufabric_exporter check --only=gid_usable`")
	}
}

// choice is the GID that NCCL takes on a port.
type choice struct {
	port string
	fabric.GIDChoice
}

func names(list []choice) []string {
	var all []string
	for _, c := range list {
		all = append(all, c.port)
	}
	return all
}

func chosen(ports []portOf) (choices []choice, hidden []string) {
	for _, p := range ports {
		if c, known := p.GIDChoice.Get(); known {
			choices = append(choices, choice{p.name(), c})
		} else if p.GIDChoice.State == fabric.Unknown {
			hidden = append(hidden, p.name())
		}
	}
	return choices, hidden
}

// entries names the indexes that NCCL takes.
func entries(choices []choice) string {
	by := map[int]int{}
	var order []int
	for _, c := range choices {
		if by[c.Index] == 0 {
			order = append(order, c.Index)
		}
		by[c.Index]++
	}
	slices.Sort(order)
	var list []string
	for _, i := range order {
		list = append(list, fmt.Sprintf("entry %d on %s", i, ports(by[i])))
	}
	return strings.Join(list, ", ")
}

func ports(n int) string {
	if n == 1 {
		return "1 port"
	}
	return fmt.Sprintf("%d ports", n)
}

// family recommends IPv6 where all ports have a RoCE v2 address of that family and none of the other.
func (k *adviser) family() bool {
	v6 := fabric.NCCLVariable{Name: familyVariable, Value: "AF_INET6", Source: "advice"}
	list := slices.DeleteFunc(slices.Clone(k.base.NCCL.Variables),
		func(v fabric.NCCLVariable) bool { return v.Name == familyVariable })
	list = append(list, v6)
	slices.SortFunc(list, func(a, b fabric.NCCLVariable) int { return strings.Compare(a.Name, b.Name) })
	with := lint.WithVariables(k.base, list)
	choices, _ := chosen(roce(with))
	if len(choices) == 0 || slices.ContainsFunc(choices,
		func(c choice) bool { return c.GID == nil || !c.GID.Routable() }) {
		return false
	}
	k.base = with
	k.set(Setting{
		Name: familyVariable, Value: v6.Value, Source: sourceOf(familyVariable),
		Reason: "The compute ports have routable IPv6 addresses and no IPv4 ones, which NCCL looks for by default: without the setting it uses an entry that reaches no other subnet. With it, NCCL takes " + entries(choices) + ".",
	}, nil)
	return true
}

// pinGID names the entry for releases that do not choose.
func (k *adviser) pinGID(choices, bad []choice) {
	indexes := map[int]bool{}
	for _, c := range choices {
		indexes[c.Index] = true
	}
	switch {
	case len(bad) > 0:
		k.open(gidVariable, "A routable RoCE v2 address with IPv4 is missing in the GID table of "+spelling.Few(names(bad),
			few)+".", "run `gpufabric_exporter check --only=gid_usable`")
	case len(indexes) > 1:
		k.open(gidVariable, fmt.Sprintf("NCCL before %s has one index for all ports, and the RoCE v2 address is %s.",
			choosesGID, entries(choices)), "use NCCL "+choosesGID+" or later, which chooses by itself")
	case choices[0].Index > 0:
		k.set(Setting{
			Name: gidVariable, Value: strconv.Itoa(choices[0].Index), Source: "src/transport/net_ib.cc of NCCL 2.20.5",
			Reason: fmt.Sprintf("NCCL before %s uses entry 0, which is a link-local address; the RoCE v2 address is %s. Entries move when addresses change: a later release needs no index.", choosesGID, entries(choices)),
		}, nil)
	}
}
