// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gpufabric_exporter/internal/nccl/log"
	"gpufabric_exporter/internal/nccl/signature"
)

// address notes the first interface of a host, "Bootstrap : Using eth0:10.0.0.1<0>", and whether its name has another
// address there elsewhere in the log, as where several machines have one name.
func (r *reading) address(e log.Event) {
	if !strings.HasPrefix(e.Message, "Bootstrap") && !strings.HasPrefix(e.Message, "NET : Using") {
		r.outOfBand(e)
		return
	}
	_, rest, found := strings.Cut(e.Message, "Using ")
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "interface "), "[0]")
	text, _, closed := strings.Cut(rest, "<")
	name, address, named := strings.Cut(text, ":")
	a, err := netip.ParseAddr(address)
	if _, known := r.hosts[e.Host]; !known || !found || !closed || !named || err != nil || !a.Is4() {
		return
	}
	before, known := r.addresses[e.Host]
	if !known {
		r.addresses[e.Host] = log.Text(text)
	}
	r.sameName = r.sameName || known && strings.HasPrefix(before, name+":") && before != text
}

// interfaceOf is the interface that has the address of the other side, as NCCL lists its own, " (eth7)"; empty: none.
// Other hosts may have an interface of that name with the same address, if it is link-local.
func (r *Result) interfaceOf(f *Finding) string {
	address, _, found := strings.Cut(f.Peer, "<")
	for _, s := range append(slices.Clone(r.Log.Sockets), r.Log.Bootstrap) {
		name, rest, named := strings.Cut(s[strings.LastIndexByte(s, ']')+1:], ":")
		if listed, _, _ := strings.Cut(rest, "<"); found && named && listed == address {
			return " (" + shown(strings.TrimSpace(name)) + ")"
		}
	}
	return ""
}

// agentListens reports whether the program opens the port that the launcher's agent has.
func (s *said) agentListens() bool { return s.agent != "" && s.agent == s.opens }

// endpoint notes where the launcher's agent listens, "rdzv_endpoint : gpu1:29500", and where the program does by
// itself, "init_method="tcp://gpu1:29500"".
func (s *said) endpoint(text string) {
	if _, rest, found := strings.Cut(text, "rdzv_endpoint "); found {
		s.agent = log.Text(strings.TrimLeft(rest, " :"))
	}
	if _, rest, found := strings.Cut(text, "tcp://"); found {
		if end := strings.IndexAny(rest, `"' ,)?`); end > 0 {
			s.opens = log.Text(rest[:end])
		}
	}
}

// bindErrno is the error of a port that a process cannot have: of the finding, or of a line before it.
func (r *Result) bindErrno(f *Finding) int {
	if f.Signature.ID == "port_taken" || has(f.raw, []string{"failed to bind", "ddress already in use", "[Errno 98]"}) {
		return Errno(f.raw)
	}
	at := slices.IndexFunc(r.Findings, func(other Finding) bool { return other.Signature.ID == "port_taken" })
	if at < 0 || !strings.Contains(f.raw, "failed to listen") {
		return 0
	}
	return Errno(r.Findings[at].raw)
}

// portLow reports whether a line names a port below 1024 that a process cannot have, "failed to bind to [::]:97 (".
func (r *Result) portLow() bool {
	const first = 1024
	return slices.ContainsFunc(r.Findings, func(f Finding) bool {
		_, rest, found := strings.Cut(f.raw, "failed to bind to ")
		address, _, ended := strings.Cut(rest, " ")
		n, err := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
		return found && ended && err == nil && n > 0 && n < first
	})
}

// warned reports whether NCCL or a plugin warned of anything.
func (r *Result) warned() bool {
	return len(r.Warnings) > 0 || slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Line > 0 && f.Signature.Kind != signature.Note &&
			(f.Signature.Source == signature.NCCL || f.Signature.Source == signature.Plugin)
	})
}

// forced are the settings of protocol and algorithm.
func (r *Result) forced() (list []string) {
	for _, s := range r.Log.Settings {
		if s.Name == "NCCL_PROTO" || s.Name == "NCCL_ALGO" {
			list = append(list, assigned(s))
		}
	}
	return list
}

// unsure reports whether a program may go on after what a signature is of.
func unsure(s *signature.Signature) bool {
	return s == &signature.ProgramError || s == &signature.LauncherFailed
}

// missed reports whether a script went on after a command that it did not find, as far as the log shows it.
func (r *Result) missed(f *Finding) bool {
	return f.Signature == &signature.LauncherFailed && strings.Contains(f.raw, "not found") &&
		r.said.spoke > f.last && !has(r.said.last, []string{"exit", "Exit", "Error", "rror:"})
}

// ofShell reports whether a line that says what is not found is of a shell: "run.sh: 7: mpirun: not found".
func ofShell(line string) bool {
	return !strings.Contains(line, "not found") || has(line, []string{"command not found", "sh: "})
}

// unnamed reports whether a line of c10d says that a name has neither an address of IPv4 nor of IPv6.
func unnamed(line string) bool {
	if strings.Contains(line, "cannot be retrieved (gai error") {
		return strings.Contains(line, "The IPv4") || strings.Contains(line, "gai error: -3")
	}
	return strings.Contains(line, "host not found: ") ||
		strings.Contains(line, "The client socket has failed to connect to [") && strings.Contains(line, "(errno: 22 ")
}

// rankNamed is the rank that PyTorch puts before its lines, "[rank3]:[E ..." or "[Rank 3] ...".
func rankNamed(line string) int {
	for _, before := range []string{"[rank", "[Rank ", " Rank ", " on rank "} {
		if _, rest, found := strings.Cut(line, before); found {
			digits, _, _ := strings.Cut(rest, "]")
			if n, err := strconv.Atoi(digits); err == nil && n >= 0 && n < maxRanks {
				return n
			}
		}
	}
	return log.Unknown
}

// nodeOfRay is the host that the daemon of Ray names, "at node (ID: 77, IP: 10.0.0.7)"; empty: it names none.
func nodeOfRay(line string) string {
	_, rest, found := strings.Cut(line, " at node (ID: ")
	_, address, named := strings.Cut(rest, ", IP: ")
	address, _, closed := strings.Cut(address, ")")
	if !found || !named || !closed {
		return ""
	}
	return log.Text(address)
}

// hostOfSignal is the host that UCX and Open MPI put before a signal, "[gpu7:77:0:79] Caught signal 11"; empty: none.
func hostOfSignal(line string) string {
	head, _, closed := strings.Cut(strings.TrimPrefix(line, "["), "]")
	host, rest, numbered := strings.Cut(head, ":")
	if !strings.HasPrefix(line, "[") || !closed || !numbered || rest == "" || strings.Trim(rest, digits+": ") != "" {
		return ""
	}
	return log.Text(host)
}
