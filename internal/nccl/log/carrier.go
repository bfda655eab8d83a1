// SPDX-License-Identifier: Apache-2.0

package log

import "strings"

// Carrier is what moves the data of a network.
type Carrier string

// Carriers.
const (
	Verbs        Carrier = "verbs"   // queue pairs of InfiniBand and RoCE
	Sockets      Carrier = "sockets" // TCP
	OtherCarrier Carrier = "other"   // EFA, GPUDirect-TCPX and TCPXO, UCX, or a network that is not known here
)

// FastSocket is the network of a plugin of Google that is made of TCP (google/nccl-fastsocket). Unlike
// Socket, which NCCL falls back to, it is used where the site installed it.
const FastSocket = "FastSocket"

// CarrierOf returns what moves the data of a network, by the name that NCCL logs: IB and Socket are NCCL's
// own, IBext and IBext_vN are of HPC-X (Mellanox/nccl-rdma-sharp-plugins, N the version of the plugin's
// interface), gIB is of Google's A3 Ultra and later.
func CarrierOf(network string) Carrier {
	switch network {
	case "IB", "IBext", "gIB":
		return Verbs
	case "Socket", FastSocket:
		return Sockets
	}
	if version, ok := strings.CutPrefix(network, "IBext_v"); ok && isNumber(version) {
		return Verbs
	}
	return OtherCarrier
}
