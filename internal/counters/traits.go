// SPDX-License-Identifier: Apache-2.0

package counters

// Linux is a version of the kernel. The zero value is none.
type Linux struct{ Major, Minor int }

// Traits are what sets a driver apart beside its counters. The zero value is an ordinary driver, or one of
// which nothing is known.
type Traits struct {
	// DMABuf is a kernel release whose own driver certainly registers memory from a dma-buf. Drivers that vendors ship
	// separately may do so on earlier kernels, but not before Linux 5.12, which added it to ib_core. Zero: not known.
	DMABuf Linux
	// ConstantPorts: states and rates of ports are constants of the driver, which asks no hardware for them.
	ConstantPorts bool
	// NoVerbs: the device has no queue pairs that NCCL's own RDMA transport could use.
	NoVerbs bool
	// OrdinaryNIC: the device is the network interface of machines of all kinds; that it does RDMA says nothing
	// of training.
	OrdinaryNIC bool
	// PCPUntilDSCP: the kernel's driver trusts PCP until its application table has a DSCP, and sorts a DSCP that is not
	// in the table by its upper three bits (mlx5e_dcbnl_ieee_setapp).
	PCPUntilDSCP bool
}

// TraitsOf returns the traits of a driver. Its name is HCA.Driver or NetDev.Driver.
func TraitsOf(name string) Traits { return traits[name] }

var traits = func() map[string]Traits {
	index := map[string]Traits{}
	for _, d := range drivers() {
		for _, name := range d.names {
			if d.traits != (Traits{}) { // irdma has the names of ice, which has the traits
				index[name] = d.traits
			}
		}
	}
	return index
}()
