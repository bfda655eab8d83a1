// SPDX-License-Identifier: Apache-2.0

package fabric

import "regexp"

// Role is what a port is for.
type Role string

// Roles.
const (
	RoleCompute    Role = "compute" // training traffic
	RoleStorage    Role = "storage"
	RoleManagement Role = "management"
	RoleUnused     Role = "unused"
)

// Roles returns every role.
func Roles() []Role { return []Role{RoleCompute, RoleStorage, RoleManagement, RoleUnused} }

// Policy is what the site expects of its nodes; its zero value expects nothing. Its patterns match whole
// device names.
type Policy struct {
	Roles      []RoleRule
	Restricted *regexp.Regexp // devices not to be touched beyond their identity; nil: none
	// ComputePorts is how many ports of role compute should be there and active; nil: not said.
	ComputePorts *int
	// GPUs is how many GPUs should be there, 0 on a node for other work; nil: not said.
	GPUs *int
	// PortRates is the rate in bytes per second that a port of that role should have.
	PortRates map[Role]float64
	// NCCL is the oldest release that libraries of the node may have; nil: not said.
	NCCL *NCCLVersion
	// RoCE is what the site expects of ports of role compute.
	RoCE RoCEPolicy
	// Profiles are those of known platforms and of the site, of which one may fit the node.
	Profiles []Profile
	// Manifest is the recorded state of the node when it was good; nil: none was recorded.
	Manifest *Manifest
}

// Manifest is the recorded state of a good node: for each of its parts, values by name.
type Manifest struct {
	Node    map[string]string
	Devices map[string]map[string]string // by RDMA device
	GPUs    map[string]map[string]string // by name, "GPU3"
}

// RoCEPolicy is how the fabric was designed to carry RoCE. What is nil the site did not say.
type RoCEPolicy struct {
	DSCP     *int  // 0 to 63
	Priority *int  // 0 to 7
	Lossless *bool // PFC on that priority; false: the fabric is lossy by design
	ECN      *bool // congestion control on that priority
}

// RoleRule gives the devices that match a role.
type RoleRule struct {
	Device *regexp.Regexp
	Role   Role
}

// RoleOf returns the role the site gave to a device, if any.
func (p *Policy) RoleOf(device string) (Role, bool) {
	for _, r := range p.Roles {
		if r.Device.MatchString(device) {
			return r.Role, true
		}
	}
	return "", false
}

// IsRestricted reports whether the site restricted the device.
func (p *Policy) IsRestricted(device string) bool {
	return p.Restricted != nil && p.Restricted.MatchString(device)
}

// Filter says which devices may be touched. At most one of its patterns is set; they match whole names.
type Filter struct {
	Include, Exclude *regexp.Regexp
}

// Allows reports whether the device may be touched.
func (f Filter) Allows(device string) bool {
	switch {
	case f.Include != nil:
		return f.Include.MatchString(device)
	case f.Exclude != nil:
		return !f.Exclude.MatchString(device)
	default:
		return true
	}
}
