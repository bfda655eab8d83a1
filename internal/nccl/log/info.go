// SPDX-License-Identifier: Apache-2.0

package log

import (
	"slices"
	"strconv"
	"strings"
)

// info reads the message of an INFO line. Format strings change from release to release, blanks before colons
// most of all; what is looked for is what all of them have.
func (l *Log) info(m string) {
	switch {
	case m != "" && isDigit(m[0]) && strings.Contains(m, " via NET/"): // "15 -> 0 via NET/Socket/0", before 2.4
		l.channel(m)
	case strings.HasPrefix(m, "Channel "), strings.HasPrefix(m, "CollNet "), strings.HasPrefix(m, "Ring "):
		l.channel(m)
	case strings.HasPrefix(m, "NET/"):
		l.net(m)
	case cut(&m, "NCCL version "):
		l.version(m)
	case cut(&m, "Using internal Network "), cut(&m, "Using network "): // the former before 2.4
		l.Network = Text(m)
		l.Fallback = l.Fallback || l.Network == "Socket"
	case cut(&m, "Bootstrap : Using"), cut(&m, "Bootstrap: Using"):
		l.Bootstrap = Text(m)
	case strings.HasPrefix(m, "DMA-BUF is available on GPU device"):
		l.DMABuf = true
	case strings.HasPrefix(m, "NVLS multicast support is "):
		l.NVLSMulticast = tristate(!strings.Contains(m, " not available"))
	case strings.HasSuffix(m, "Connected CollNet"): // "rank 0 Connected CollNet"
		l.CollNet = true
	case cut(&m, "Connected all rings, use ring PXN "):
		l.PXN = l.PXN || strings.HasPrefix(m, "1")
		if _, gdr, found := strings.Cut(m, " GDR "); found && gdr != "" && l.RingsGPUDirect != No {
			l.RingsGPUDirect = tristate(word(gdr) != "0")
		}
	case strings.HasSuffix(m, " Init COMPLETE"), strings.Contains(m, " - Init COMPLETE"):
		l.Complete = true
	case strings.Contains(m, " nNodes "): // "comm 0x55d0 rank 0 nRanks 16 nNodes 2 localRanks 8 ..."
		l.shape(m)
	case cut(&m, "cudaDriverVersion "):
		if n, ok := count(word(m)); ok {
			l.Driver = n
		}
	case strings.HasPrefix(m, "MNNVL busId "): // "MNNVL busId 0x1000 fabric UUID 7f.a1 cliqueId 0x7ffe state 3 ..."
		_, id, found := strings.Cut(m, " fabric UUID ")
		l.Clique = l.Clique || found && word(id) != "0.0"
	case strings.HasPrefix(m, "RCCL version"), strings.HasPrefix(m, "ROCr version"):
		l.RCCL = true
	case strings.HasPrefix(m, "Init timings"):
		if t, ok := parseTimings(m); ok && (l.Setup == nil || t.Total > l.Setup.Total) {
			l.Setup = &t
		}
	case strings.Contains(m, " coll channels, "):
		l.counts(m)
	default:
		l.setting(m)
		l.failed(m)
	}
}

// shape reads "comm 0x55d0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0".
func (l *Log) shape(m string) {
	_, rest, _ := strings.Cut(m, " nNodes ")
	nodes := number(word(rest))
	l.Nodes = max(l.Nodes, nodes)
	_, rest, _ = strings.Cut(m, " localRanks ")
	l.Local = max(l.Local, number(word(rest)))
	l.MNNVL = l.MNNVL || strings.HasSuffix(m, " MNNVL 1")
	l.NoMNNVL = l.NoMNNVL || nodes > 1 && strings.HasSuffix(m, " MNNVL 0")
}

// cut removes prefix from s and reports whether it was there.
func cut(s *string, prefix string) bool {
	rest, found := strings.CutPrefix(*s, prefix)
	if found {
		*s = rest
	}
	return found
}

// counts reads "4 coll channels, 4 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer". The
// second one is not there in all releases, and says nothing about SHARP where it is: it repeats the first.
func (l *Log) counts(m string) {
	for part := range strings.SplitSeq(m, ", ") {
		number, what, _ := strings.Cut(strings.TrimSpace(part), " ")
		const most = 1024
		n, ok := count(number)
		if !ok || n > most {
			continue
		}
		switch what {
		case "coll channels":
			l.Channels = n
		case "nvls channels":
			l.NVLSChannels = n
		}
	}
}

// setting reads "NCCL_IB_TC set by environment to 106." and "NCCL_IB_HCA set to mlx5". Only numbers end with
// a full stop.
func (l *Log) setting(m string) {
	name, value, found := strings.Cut(m, " set by environment to ")
	if !found {
		name, value, found = strings.Cut(m, " set to ")
	}
	if !found || !strings.HasPrefix(name, "NCCL_") || strings.Contains(name, " ") || len(l.Settings) == maxSettings {
		return
	}
	if number, stopped := strings.CutSuffix(value, "."); stopped {
		if isNumber(strings.TrimPrefix(number, "-")) {
			value = number
		}
	}
	s := Setting{Name: Text(name), Value: Text(value)}
	if !slices.Contains(l.Settings, s) {
		l.Settings = append(l.Settings, s)
	}
}

// inProgress is ncclInProgress: what a call that does not wait returns.
const inProgress = 7

// Unwinding is a line that NCCL writes while a failed call returns.
type Unwinding struct {
	File   string // "transport/net.cc"
	Result int    // ncclResult_t
}

// ParseUnwinding parses "init.cc:1785 -> 1", from 2.30.5 on with the name of the function, "init.cc:1785 (ncclFoo)
// -> 1".
func ParseUnwinding(m string) (Unwinding, bool) {
	place, result, found := strings.Cut(m, " -> ")
	if !found {
		return Unwinding{}, false
	}
	file, at, colon := strings.Cut(place, ":")
	line, function, named := strings.Cut(at, " ")
	n, ok := count(word(result))
	if !colon || !ok || !isNumber(line) || named && !strings.HasPrefix(function, "(") || n == inProgress || n == 0 {
		return Unwinding{}, false
	}
	for _, suffix := range []string{".cc", ".cu", ".h", ".cpp", ".c"} {
		if strings.HasSuffix(file, suffix) && !strings.Contains(file, " ") {
			return Unwinding{withinSource(file), n}, true
		}
	}
	return Unwinding{}, false
}

// Fallback reports whether NCCL goes on with the next network where this call fails: without RDMA devices, most of
// all. If it does not, its callers unwind, too.
func (u Unwinding) Fallback() bool {
	return u.File == "transport/net_ib/init.cc" || u.File == "transport/net_ib/gdr.cc"
}

// failed keeps the first failed call.
func (l *Log) failed(m string) {
	if l.Failed != "" {
		return
	}
	if u, is := ParseUnwinding(m); is && !u.Fallback() {
		l.Failed = Text(m)
	}
}

// net reads what a network reports about itself.
func (l *Log) net(m string) {
	name, rest, _ := strings.Cut(m[len("NET/"):], ":")
	name, rest = strings.TrimSpace(name), strings.TrimSpace(rest)
	switch {
	case cut(&rest, "GPU Direct RDMA "):
		l.hca(name, rest)
	case name == "Plugin":
		l.plugin(rest)
	case name == "IB" && strings.HasPrefix(rest, "Using [") && len(l.Devices) == 0:
		l.devices(rest[len("Using "):])
	case name == "IB" && strings.HasPrefix(rest, "No device found"):
		l.NoDevices = true
	case CarrierOf(name) == Sockets && strings.HasPrefix(rest, "Using [") && len(l.Sockets) == 0:
		for field := range strings.FieldsSeq(rest[len("Using "):]) {
			if _, s, found := strings.Cut(field, "]"); found && s != "" && len(l.Sockets) < maxDevices {
				l.Sockets = append(l.Sockets, Text(s))
			}
		}
	}
}

// plugin reads "Could not find: libnccl-net.so.", "No plugin found (libnccl-net.so)" and "Plugin load returned 2 :
// libfabric.so.1: cannot open shared object file: No such file or directory : when loading libnccl-net.so".
func (l *Log) plugin(m string) {
	if _, rest, found := strings.Cut(m, "version `"); found { // "libc.so.6: version `GLIBC_2.32' not found (..."
		if version, after, quoted := strings.Cut(rest, "'"); quoted && strings.HasPrefix(after, " not found") {
			l.Unloadable = Text(version)
			return
		}
	}
	if _, symbol, found := strings.Cut(m, ": undefined symbol: "); found && !strings.HasPrefix(symbol, "nccl") {
		l.Unloadable = Text(strings.TrimRight(word(symbol), ","))
		return
	}
	for _, of := range []string{": wrong ELF class", ": invalid ELF header"} {
		if before, _, other := strings.Cut(m, of); other {
			l.Unloadable, l.Misbuilt = Text(before[strings.LastIndexAny(before, " =")+1:]), true
			return
		}
	}
	before, _, missing := strings.Cut(m, ": cannot open shared object file")
	library := before[strings.LastIndexAny(before, " =")+1:]
	switch {
	case missing && !strings.Contains(library, "-net"):
		l.Unloadable = Text(library)
	case missing, strings.HasPrefix(m, "Could not find"), strings.HasPrefix(m, "No plugin found"):
		l.NoPlugin = true
	}
}

// hca reads "Enabled for HCA 0 'mlx5_0'". Lines about a pair of GPU and HCA go on differently.
func (l *Log) hca(network, m string) {
	state, rest, found := strings.Cut(m, " for HCA ")
	index, name, quoted := strings.Cut(rest, " ")
	n, ok := count(index)
	if !found || !quoted || !ok || state != "Enabled" && state != "Disabled" {
		return
	}
	h := HCA{
		Network: Text(network), Index: n, Name: Text(strings.Trim(strings.TrimSpace(name), "'")),
		GPUDirect: state == "Enabled",
	}
	if !slices.Contains(l.HCAs, h) && len(l.HCAs) < maxDevices {
		l.HCAs = append(l.HCAs, h)
	}
}

// devices reads "[0]mlx5_0:1/RoCE [1]={[0] mlx5_1:1/IB, [1] mlx5_2:1/IB} [RO]; OOB eth0:10.0.0.1<0>". The
// port may be followed by rail and plane, the link layer by "/SHARP".
func (l *Log) devices(m string) {
	m, _, _ = strings.Cut(m, ";")
	blank := func(r rune) bool { return strings.ContainsRune(" {},=", r) }
	for field := range strings.FieldsFuncSeq(m, blank) {
		if field[0] == '[' {
			_, field, _ = strings.Cut(field, "]")
		}
		name, rest, named := strings.Cut(field, ":")
		place, layers, found := strings.Cut(rest, "/")
		if !named || name == "" || !found || len(l.Devices) == maxDevices {
			continue
		}
		number, _, _ := strings.Cut(place, ":")
		layer, _, _ := strings.Cut(layers, "/")
		if port, ok := count(number); ok {
			l.Devices = append(l.Devices, Device{Name: Text(name), Port: port, LinkLayer: Text(layer)})
		}
	}
}

// channel reads how a connection goes: "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0/GDRDMA",
// "CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA".
func (l *Log) channel(m string) {
	_, via, found := strings.Cut(m, " via ")
	if !found {
		return // "Channel 00/04 : 0 1 2 3" is the order of a ring
	}
	kind, rest, _ := strings.Cut(via, "/")
	if strings.HasPrefix(via, "direct shared memory") { // before 2.5
		kind = string(SHM)
	}
	link := Link{Via: Via(kind), Device: Unknown, Count: 1}
	switch link.Via {
	case P2P, SHM:
		link.Name, _, _ = strings.Cut(rest, "/")
	case Net, CollNet:
		if !link.network(rest) {
			return
		}
		l.CollNet = l.CollNet || link.Via == CollNet
		l.PXN = l.PXN || link.Via == Net && strings.HasPrefix(strings.TrimLeft(rest[len(link.Name)+1:], "0123456789"), "(")
	default:
		return
	}
	link.Name = Text(link.Name)
	for i, known := range l.Links {
		if known.Count = 1; known == link {
			l.Links[i].Count++
			return
		}
	}
	if len(l.Links) < maxLinks {
		l.Links = append(l.Links, link)
	}
}

// network reads "IB/0/GDRDMA(PCI)/Shared" and "AWS Libfabric/0(3)/GDRDMA": a name that may have slashes, the
// number of a device, and the rank of a proxy in parentheses.
func (link *Link) network(s string) bool {
	for i := range len(s) {
		if s[i] != '/' || i == 0 {
			continue
		}
		end := i + 1
		for end < len(s) && s[end] >= '0' && s[end] <= '9' {
			end++
		}
		if end < len(s) && s[end] != '/' && s[end] != '(' && s[end] != ' ' {
			continue
		}
		if n, ok := count(s[i+1 : end]); ok {
			link.Name, link.Device = s[:i], n
			link.GPUDirect = strings.Contains(s[i:], "/GDRDMA")
			return true
		}
	}
	return false
}

// count reads a number of NCCL's. strconv makes an error of all else, which takes longer than reading the line.
func count(s string) (int, bool) {
	const digits = 9
	if len(s) > digits || !isNumber(s) {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
