// SPDX-License-Identifier: Apache-2.0

// Package rendezvous finds out from its environment how the processes of a cluster probe meet: which of them this one
// is, how many there are, where the leader is, and the secret that all of them have. Whoever started them decided all
// of that; nobody is elected and nothing is scheduled here.
//
// The first way that is there is taken: PMI (srun --mpi=pmi2, mpiexec of MPICH), whose key-value store carries the
// address of the leader and a secret made for this run; the variables of torchrun, which PyTorchJob, JobSet and Ray
// set, too; an indexed Job of Kubernetes; the variables of Slurm. All but PMI need a secret in a file. What a launcher
// says is bounded and checked; nothing of it is run or opened but that file.
package rendezvous

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Place is what a process needs to meet the others.
type Place struct {
	By        string // "PMI", "torchrun", "indexed Job", "Slurm"
	Rank      int    // 0 is the leader
	Size      int
	Addresses []string // of the leader, HOST:PORT; any of them
	Secret    []byte
	Listener  net.Listener // of the leader; else nil
	Names     []string     // of the nodes, by rank; nil: not known
}

// Environment is what a process finds around it.
type Environment struct {
	Variable func(name string) string
	Hostname string
	// Secret returns what is in the file that the user named; nil: none was named.
	Secret func() ([]byte, error)
	// Leader is HOST:PORT, where the user named it; Port where only that; empty and 0: neither.
	Leader string
	Port   int
	// Descriptor returns a connection that this process inherited.
	Descriptor func(fd int) (net.Conn, error)
}

// Limits of what a launcher may say.
const (
	sizeMost    = 8192
	secretLeast = 16 // bytes
	secretMost  = 4096
	nameMost    = 255
	portDefault = 10793
	publicMost  = 8 // addresses of the leader
)

// ErrNone is the error where nothing started this process that could have given it an allocation.
var ErrNone = errors.New("not started by a scheduler: run it in an allocation, as srun --mpi=pmi2 gpufabric_exporter probe cluster, " +
	"with one process for each node (probe without cluster is for one node)")

// Join finds the place of this process. Where the leader has an address of its own, it listens there. It ends with ctx.
func (e *Environment) Join(ctx context.Context) (*Place, error) {
	v := e.Variable
	switch {
	case v("PMI_FD") != "":
		return e.byPMI(ctx)
	case v("RANK") != "" && v("MASTER_ADDR") != "":
		if n := v("LOCAL_WORLD_SIZE"); n != "" && n != "1" {
			return nil, fmt.Errorf("LOCAL_WORLD_SIZE=%.20q: expected one process for each node (torchrun --nproc-per-node=1)", n)
		}
		return e.byVariables(ctx, "torchrun", "RANK", "WORLD_SIZE", net.JoinHostPort(v("MASTER_ADDR"), v("MASTER_PORT")))
	case v("JOB_COMPLETION_INDEX") != "":
		return e.byVariables(ctx, "indexed Job", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "")
	case e.Secret == nil && v("PMIX_RANK") != "":
		return nil, errors.New("there is PMIx only, expected PMI: srun --mpi=pmi2, or --secret-file")
	case v("SLURM_PROCID") != "" && v("SLURM_STEP_ID") != "":
		if e.Secret == nil {
			return nil, errors.New("in a step of Slurm without PMI, expected srun --mpi=pmi2, or --secret-file")
		}
		leader := ""
		if names := hosts(v("SLURM_STEP_NODELIST")); len(names) > 0 {
			leader = net.JoinHostPort(names[0], strconv.Itoa(portDefault))
		}
		p, err := e.byVariables(ctx, "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", leader)
		if err == nil {
			p.Names = e.names(p.Size)
		}
		return p, err
	}
	return nil, ErrNone
}

// names are the nodes of the step, by rank, which Slurm numbers in this order where each node has one task; nil: not
// known.
func (e *Environment) names(size int) []string {
	if names := hosts(e.Variable("SLURM_STEP_NODELIST")); len(names) == size {
		return names
	}
	return nil
}

// Size is how many processes there are, if the environment says so; else 0.
func (e *Environment) Size() int {
	for _, name := range []string{"PMI_SIZE", "WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_JOB_NUM_NODES"} {
		if n, err := number(name, e.Variable(name), 1, sizeMost); err == nil {
			return n
		}
	}
	return 0
}

// byVariables is for launchers that set the rank and the number of processes. leader is where it is unless the user
// says so.
func (e *Environment) byVariables(ctx context.Context, by, rank, size, leader string) (*Place, error) {
	p := &Place{By: by}
	var err error
	if p.Size, err = number(size, e.Variable(size), 1, sizeMost); err != nil {
		return nil, err
	}
	if p.Rank, err = number(rank, e.Variable(rank), 0, p.Size-1); err != nil {
		return nil, err
	}
	if p.Secret, err = e.secret(); err != nil {
		return nil, err
	}
	if e.Leader != "" {
		leader = e.Leader
	}
	host, port, err := net.SplitHostPort(leader)
	if err != nil || host == "" || len(host) > nameMost {
		return nil, fmt.Errorf("by %s it is not known where the leader is: expected --leader=HOST:PORT", by)
	}
	if e.Port > 0 {
		port = strconv.Itoa(e.Port)
	}
	if _, err := number("port of the leader", port, 1, 65535); err != nil {
		return nil, err
	}
	p.Addresses = []string{net.JoinHostPort(host, port)}
	if p.Rank == 0 {
		if p.Listener, err = listen(ctx, port); err != nil {
			return nil, fmt.Errorf("%w (--port names another one, to all processes)", err)
		}
	}
	return p, nil
}

func listen(ctx context.Context, port string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", ":"+port)
}

func (e *Environment) secret() ([]byte, error) {
	if e.Secret == nil {
		return nil, errors.New("--secret-file: expected a file with the same secret on all nodes")
	}
	secret, err := e.Secret()
	if err != nil {
		return nil, err
	}
	secret = []byte(strings.TrimSpace(string(secret)))
	if len(secret) < secretLeast || len(secret) > secretMost {
		return nil, fmt.Errorf("a secret of %d bytes, expected %d to %d", len(secret), secretLeast, secretMost)
	}
	return secret, nil
}

func number(what, text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most || len(text) > len("65535") {
		return 0, fmt.Errorf("%s=%.20q: expected a whole number from %d to %d", what, text, least, most)
	}
	return n, nil
}

func hostName(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= nameMost
}

// public are the addresses at which other nodes may reach this one.
func public() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			if ip := prefix.Addr().Unmap(); ip.IsGlobalUnicast() && len(list) < publicMost {
				list = append(list, ip)
			}
		}
	}
	if len(list) == 0 {
		return nil, errors.New("this node has no address at which others could reach it")
	}
	return list, nil
}

// card is how the leader presents itself in the store of PMI: "PORT/SECRET/ADDRESS,ADDRESS".
func card(port int, secret []byte, at []netip.Addr) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%s/", port, hex.EncodeToString(secret))
	for i, a := range at {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(a.String())
	}
	return b.String()
}

func readCard(text string) (addresses []string, secret []byte, err error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return nil, nil, fmt.Errorf("address of the leader %.80q, expected PORT/SECRET/ADDRESSES", text)
	}
	port, err := number("port of the leader", parts[0], 1, 65535)
	if err != nil {
		return nil, nil, err
	}
	if secret, err = hex.DecodeString(parts[1]); err != nil || len(secret) != secretLeast {
		return nil, nil, fmt.Errorf("a secret of %d bytes, expected %d", len(secret), secretLeast)
	}
	for a := range strings.SplitSeq(parts[2], ",") {
		ip, err := netip.ParseAddr(a)
		if err != nil || len(addresses) == publicMost {
			return nil, nil, fmt.Errorf("addresses of the leader %.200q, expected 1 to %d", parts[2], publicMost)
		}
		addresses = append(addresses, netip.AddrPortFrom(ip, uint16(port)).String())
	}
	return addresses, secret, nil
}
