// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// The text protocol of PMI-1, which Slurm's pmi2 plugin and MPICH's launchers speak: lines of key=value, one question
// and one answer at a time.

const (
	lineMost = 1024
	pmiLimit = 2 * time.Minute // until all processes are there
	leaderIs = "gpufabric_leader"
)

// pmi is a connection to a launcher.
type pmi struct {
	conn io.Writer
	in   *bufio.Reader
}

// ask sends a command and returns the fields of the answer, which must be that one and report no error.
func (p *pmi) ask(question, want string) (map[string]string, error) {
	if _, err := io.WriteString(p.conn, "cmd="+question+"\n"); err != nil {
		return nil, fmt.Errorf("PMI: %w", err)
	}
	line, err := p.in.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("PMI: answer to %s: %w", question, err)
	}
	fields, err := fieldsOf(string(line))
	switch {
	case err != nil:
		return nil, err
	case fields["cmd"] != want:
		return nil, fmt.Errorf("PMI: %.60q answers %s, expected %s", fields["cmd"], question, want)
	case fields["rc"] != "" && fields["rc"] != "0":
		return nil, fmt.Errorf("PMI: %s: rc=%.20s %.100s", question, fields["rc"], fields["msg"])
	}
	return fields, nil
}

// fieldsOf reads a line. A value ends at a space; none of those that are read has one.
func fieldsOf(line string) (map[string]string, error) {
	fields := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		key, value, found := strings.Cut(word, "=")
		if !found || key == "" {
			continue // words of a message
		}
		if _, twice := fields[key]; twice {
			return nil, fmt.Errorf("PMI: %.80q has %.20q twice", line, key)
		}
		fields[key] = value
	}
	return fields, nil
}

// byPMI meets the others in the launcher's store: the leader puts its address and a secret there.
func (e *Environment) byPMI(ctx context.Context) (place *Place, err error) {
	p := &Place{By: "PMI"}
	if p.Size, err = number("PMI_SIZE", e.Variable("PMI_SIZE"), 1, sizeMost); err != nil {
		return nil, err
	}
	if p.Rank, err = number("PMI_RANK", e.Variable("PMI_RANK"), 0, p.Size-1); err != nil {
		return nil, err
	}
	p.Names = e.names(p.Size)
	fd, err := number("PMI_FD", e.Variable("PMI_FD"), 3, 65535)
	if err != nil {
		return nil, err
	}
	conn, err := e.Descriptor(fd)
	if err != nil {
		return nil, fmt.Errorf("PMI_FD=%d: %w", fd, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(pmiLimit))
	return p.meet(ctx, &pmi{conn, bufio.NewReaderSize(conn, lineMost)})
}

func (p *Place) meet(ctx context.Context, l *pmi) (place *Place, err error) {
	defer func() {
		if err != nil && p.Listener != nil {
			p.Listener.Close()
		}
	}()
	if _, err := l.ask("init pmi_version=1 pmi_subversion=1", "response_to_init"); err != nil {
		return nil, err
	}
	mine, err := l.ask("get_my_kvsname", "my_kvsname")
	if err != nil {
		return nil, err
	}
	store := mine["kvsname"]
	if store == "" || len(store) > nameMost {
		return nil, fmt.Errorf("PMI: name of the store %.40q", store)
	}
	if p.Rank == 0 {
		text, err := p.open(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := l.ask(fmt.Sprintf("put kvsname=%s key=%s value=%s", store, leaderIs, text), "put_result"); err != nil {
			return nil, err
		}
	}
	if _, err := l.ask("barrier_in", "barrier_out"); err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("not all of %d processes have come, and PMI does not tell which (--secret-file with --mpi=none does): %w",
				p.Size, err)
		}
		return nil, err
	}
	told, err := l.ask(fmt.Sprintf("get kvsname=%s key=%s", store, leaderIs), "get_result")
	if err != nil {
		return nil, err
	}
	if p.Addresses, p.Secret, err = readCard(told["value"]); err != nil {
		return nil, err
	}
	if _, err := l.ask("finalize", "finalize_ack"); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return p, nil
}

// open has the leader listen, and makes the secret of this run.
func (p *Place) open(ctx context.Context) (string, error) {
	at, err := public()
	if err != nil {
		return "", err
	}
	if p.Listener, err = listen(ctx, "0"); err != nil {
		return "", err
	}
	_, text, err := net.SplitHostPort(p.Listener.Addr().String())
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return "", err
	}
	secret := make([]byte, secretLeast)
	_, _ = rand.Read(secret) // never fails
	return card(port, secret, at), nil
}
