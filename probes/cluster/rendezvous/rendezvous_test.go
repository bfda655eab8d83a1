// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// launcher is a store of PMI for some processes, as Slurm has it.
type launcher struct {
	size    int
	mu      sync.Mutex
	store   map[string]string
	arrived int
	all     chan struct{}
	garbage string // answered instead to get
}

func (l *launcher) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	for in.Scan() {
		fields, err := fieldsOf(in.Text())
		if err != nil {
			return
		}
		switch fields["cmd"] {
		case "init":
			fmt.Fprintln(conn, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
		case "get_my_kvsname":
			fmt.Fprintln(conn, "cmd=my_kvsname kvsname=1.0")
		case "put":
			l.mu.Lock()
			l.store[fields["key"]] = fields["value"]
			l.mu.Unlock()
			fmt.Fprintln(conn, "cmd=put_result rc=0 msg=success")
		case "barrier_in":
			l.mu.Lock()
			if l.arrived++; l.arrived == l.size {
				close(l.all)
			}
			l.mu.Unlock()
			<-l.all
			fmt.Fprintln(conn, "cmd=barrier_out rc=0")
		case "get":
			l.mu.Lock()
			value := l.store[fields["key"]]
			l.mu.Unlock()
			if l.garbage != "" {
				fmt.Fprintln(conn, l.garbage)
				continue
			}
			fmt.Fprintf(conn, "cmd=get_result rc=0 msg=success value=%s\n", value)
		case "finalize":
			fmt.Fprintln(conn, "cmd=finalize_ack rc=0")
		}
	}
}

func variables(list ...string) func(string) string {
	return func(name string) string {
		for _, v := range list {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func TestPMI(t *testing.T) {
	l := &launcher{size: 3, store: map[string]string{}, all: make(chan struct{})}
	places := make([]*Place, 3)
	var wg sync.WaitGroup
	for rank := range places {
		ours, theirs := net.Pipe()
		go l.serve(theirs)
		e := &Environment{
			Variable:   variables("PMI_FD=17", fmt.Sprint("PMI_RANK=", rank), "PMI_SIZE=3", "SLURM_STEP_NODELIST=cn[0-2]"),
			Descriptor: func(fd int) (net.Conn, error) { return ours, nil },
		}
		wg.Go(func() {
			var err error
			if places[rank], err = e.Join(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	defer places[0].Listener.Close()
	for rank, p := range places {
		if p.By != "PMI" || p.Rank != rank || p.Size != 3 || len(p.Secret) != 16 || string(p.Secret) != string(places[0].Secret) || (p.Listener != nil) != (rank == 0) {
			t.Errorf("rank %d: %+v", rank, p)
		}
		if names := fmt.Sprint(p.Names); names != "[cn0 cn1 cn2]" { // of nodes that start, but cannot reach the leader
			t.Errorf("rank %d: names %s", rank, names)
		}
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", places[2].Addresses[0])
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// What a launcher says that cannot be is refused, and the leader no longer listens.
func TestPMIRefuses(t *testing.T) {
	for _, garbage := range []string{
		"cmd=get_result rc=-1 msg=key_not_found", "cmd=get_result rc=0 value=", "cmd=other rc=0", "cmd=get_result rc=0 value=1/00/10.0.0.1",
		"cmd=get_result rc=0 value=99999/00112233445566778899aabbccddeeff/10.0.0.1", "cmd=get_result cmd=get_result",
		"cmd=get_result rc=0 value=80/00112233445566778899aabbccddeeff/host", strings.Repeat("x", 5000),
	} {
		l := &launcher{size: 1, store: map[string]string{}, all: make(chan struct{}), garbage: garbage}
		ours, theirs := net.Pipe()
		go l.serve(theirs)
		e := &Environment{
			Variable:   variables("PMI_FD=17", "PMI_RANK=0", "PMI_SIZE=1"),
			Descriptor: func(int) (net.Conn, error) { return ours, nil },
		}
		if p, err := e.Join(t.Context()); err == nil || len(err.Error()) > 512 {
			t.Errorf("%.60q: %+v, %v", garbage, p, err)
		}
	}
}

func TestVariables(t *testing.T) {
	secret := func() ([]byte, error) { return []byte("0123456789abcdef0123456789abcdef\n"), nil }
	for name, tt := range map[string]struct {
		e    Environment
		want Place
		says string // in the error
	}{
		"torchrun":        {Environment{Variable: variables("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500"), Secret: secret}, Place{By: "torchrun", Rank: 2, Size: 4, Addresses: []string{"10.0.0.1:29500"}}, ""},
		"another port":    {Environment{Variable: variables("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=fd00::1", "MASTER_PORT=29500"), Secret: secret, Port: 7}, Place{By: "torchrun", Rank: 2, Size: 4, Addresses: []string{"[fd00::1]:7"}}, ""},
		"without secret":  {Environment{Variable: variables("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=a", "MASTER_PORT=1")}, Place{}, "--secret-file"},
		"short secret":    {Environment{Variable: variables("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=a", "MASTER_PORT=1"), Secret: func() ([]byte, error) { return []byte("123456789012345\n"), nil }}, Place{}, "a secret of 15 bytes"},
		"a rank per GPU":  {Environment{Variable: variables("RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=a", "LOCAL_WORLD_SIZE=8"), Secret: secret}, Place{}, "--nproc-per-node=1"},
		"rank beyond":     {Environment{Variable: variables("RANK=4", "WORLD_SIZE=4", "MASTER_ADDR=a", "MASTER_PORT=1"), Secret: secret}, Place{}, "expected a whole number from 0 to 3"},
		"no port":         {Environment{Variable: variables("RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=a"), Secret: secret}, Place{}, "port of the leader"},
		"indexed Job":     {Environment{Variable: variables("JOB_COMPLETION_INDEX=1", "WORLD_SIZE=2"), Secret: secret, Leader: "probe-0.probe:10793"}, Place{By: "indexed Job", Rank: 1, Size: 2, Addresses: []string{"probe-0.probe:10793"}}, ""},
		"job, no leader":  {Environment{Variable: variables("JOB_COMPLETION_INDEX=1", "WORLD_SIZE=2"), Secret: secret}, Place{}, "--leader=HOST:PORT"},
		"Slurm":           {Environment{Variable: variables("SLURM_PROCID=1", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=3", "SLURM_STEP_NODELIST=gpu[007-009]"), Secret: secret}, Place{By: "Slurm", Rank: 1, Size: 3, Addresses: []string{"gpu007:10793"}}, ""},
		"Slurm, no PMI":   {Environment{Variable: variables("SLURM_PROCID=1", "SLURM_STEP_ID=0")}, Place{}, "srun --mpi=pmi2"},
		"PMIx only":       {Environment{Variable: variables("SLURM_PROCID=1", "SLURM_STEP_ID=0", "PMIX_RANK=1")}, Place{}, "there is PMIx only"},
		"no step":         {Environment{Variable: variables("SLURM_PROCID=0", "SLURM_JOB_ID=7"), Secret: secret}, Place{}, "not started by a scheduler"},
		"nothing":         {Environment{Variable: variables()}, Place{}, "not started by a scheduler"},
		"PMI, no number":  {Environment{Variable: variables("PMI_FD=x", "PMI_RANK=0", "PMI_SIZE=1")}, Place{}, "PMI_FD"},
		"PMI, standard":   {Environment{Variable: variables("PMI_FD=1", "PMI_RANK=0", "PMI_SIZE=1")}, Place{}, "PMI_FD"},
		"PMI, closed":     {Environment{Variable: variables("PMI_FD=9", "PMI_RANK=0", "PMI_SIZE=1"), Descriptor: func(int) (net.Conn, error) { return nil, errors.New("no descriptor") }}, Place{}, "no descriptor"},
		"PMI, many":       {Environment{Variable: variables("PMI_FD=9", "PMI_RANK=0", "PMI_SIZE=8193")}, Place{}, "PMI_SIZE"},
		"file is missing": {Environment{Variable: variables("RANK=0", "WORLD_SIZE=4", "MASTER_ADDR=a", "MASTER_PORT=1"), Secret: func() ([]byte, error) { return nil, errors.New("no file") }}, Place{}, "no file"},
	} {
		p, err := tt.e.Join(t.Context())
		switch {
		case tt.says != "":
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v, expected %q", name, err, tt.says)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case p.By != tt.want.By || p.Rank != tt.want.Rank || p.Size != tt.want.Size || fmt.Sprint(p.Addresses) != fmt.Sprint(tt.want.Addresses) || len(p.Secret) != 32:
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestHosts(t *testing.T) {
	for list, want := range map[string]string{
		"n1": "n1", "n1,n2": "n1 n2", "gpu[008-010,12]": "gpu008 gpu009 gpu010 gpu12", "a[1,3-4]b,c": "a1b a3b a4b c", "rack-1-[07],x": "rack-1-07 x",
		"": "", "[": "", "a[": "", "a[]": "", "a[1": "", "a[2-1]": "", "a[0-4294967295]": "", "a b": "", "$(x)": "", "a,,b": "", "a[1-2]b[1-2]": "",
	} {
		if got := strings.Join(hosts(list), " "); got != want {
			t.Errorf("%q: %q, expected %q", list, got, want)
		}
	}
}

// FuzzPMI has a launcher answer anything.
func FuzzPMI(f *testing.F) {
	f.Add("cmd=response_to_init rc=0\ncmd=my_kvsname kvsname=1\ncmd=put_result rc=0\ncmd=barrier_out\ncmd=get_result value=80/00112233445566778899aabbccddeeff/10.0.0.1\ncmd=finalize_ack\n", 1)
	f.Add("cmd=response_to_init rc=-1", 0)
	f.Fuzz(func(t *testing.T, answers string, rank int) {
		p := &Place{Rank: rank & 1, Size: 2}
		place, err := p.meet(t.Context(), &pmi{new(strings.Builder), bufio.NewReaderSize(strings.NewReader(answers), lineMost)})
		if err != nil {
			if len(err.Error()) > 1024 {
				t.Fatal(err)
			}
			return
		}
		if place.Listener != nil {
			defer place.Listener.Close()
		}
		if len(place.Addresses) == 0 || len(place.Addresses) > publicMost || len(place.Secret) != secretLeast {
			t.Fatalf("%+v", place)
		}
	})
}

func FuzzHosts(f *testing.F) {
	f.Add("gpu[003-010,12],x")
	f.Fuzz(func(t *testing.T, list string) {
		names := hosts(list)
		if len(names) > 2*sizeMost+1 {
			t.Fatal(len(names))
		}
		for _, name := range names {
			if name == "" || strings.ContainsAny(name, " \n\x00/[],") {
				t.Fatalf("%q", name)
			}
		}
	})
}
