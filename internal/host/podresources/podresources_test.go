// SPDX-License-Identifier: Apache-2.0

package podresources

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gpufabric_exporter/internal/fabric"
)

// field is a field of protobuf that is a string or a message.
func field(number int, parts ...string) string {
	value := strings.Join(parts, "")
	b := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return string(binary.AppendUvarint(b, uint64(len(value)))) + value
}

func pod(namespace, name string, containers ...string) string {
	parts := []string{field(1, name), field(2, namespace)}
	for _, c := range containers {
		parts = append(parts, field(3, c))
	}
	return field(1, parts...)
}

func container(name string, rest ...string) string { return field(1, name) + strings.Join(rest, "") }

func devices(resource string, ids ...string) string {
	parts := []string{field(1, resource)}
	for _, id := range ids {
		parts = append(parts, field(2, id))
	}
	return field(2, append(parts, field(3, field(1, "\x08\x01")))...) // and the NUMA node
}

func claim(driver, device string) string {
	return field(5, field(2, "claim"), field(3, "ns"), field(4, field(1, field(1, device)), field(2, driver), field(3, "pool"), field(4, "0")))
}

const (
	number  = "\x18\x80\x01"                         // field 3, 128
	fixed64 = "\x31\x01\x02\x03\x04\x05\x06\x07\x08" // field 6
	fixed32 = "\x3d\x01\x02\x03\x04"                 // field 7
)

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		message string
		want    []string
	}{
		"no pods":               {"", nil},
		"pods without GPUs":     {pod("kube-system", "proxy", container("proxy", number)) + pod("a", "b", container("c", devices("cpu.example/pool", "7"))), nil},
		"a GPU":                 {pod("ml", "train-0", container("main", number, devices("nvidia.com/gpu", "GPU-1", "GPU-2"), fixed64, fixed32)), []string{"ml/train-0/main"}},
		"of AMD":                {pod("ml", "x", container("c", devices("amd.com/gpu", "0000:1b:00.0"))), []string{"ml/x/c"}},
		"a part of a GPU":       {pod("ml", "x", container("c", devices("nvidia.com/mig-1g.5gb", "MIG-1"))), []string{"ml/x/c"}},
		"by its id only":        {pod("ml", "x", container("c", devices("corp.example/accelerator", "0", "GPU-aaaa"))), []string{"ml/x/c"}},
		"a claim":               {pod("ml", "x", container("c", claim("gpu.nvidia.com", "k8s.gpu.nvidia.com/device=gpu-0"))), []string{"ml/x/c"}},
		"a claim by its device": {pod("ml", "x", container("c", claim("corp.example", "nvidia.com/gpu=0"))), []string{"ml/x/c"}},
		"a claim of a NIC":      {pod("ml", "x", container("c", claim("net.example", "net.example/nic=0"))), nil},
		"the second container":  {pod("ml", "x", container("c"), container("d", devices("nvidia.com/gpu", "1"))), []string{"ml/x/d"}},
		"names come last":       {field(1, field(3, devices("nvidia.com/gpu", "1"), field(1, "c")), field(2, "ml"), field(1, "x")), []string{"ml/x/c"}},
		"unknown fields":        {field(9, "new") + pod("a", "b", container("c", field(12, "new"))) + number + fixed64, nil},
	} {
		got, err := decode([]byte(c.message))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v, expected %q", name, got, err, c.want)
		}
	}
}

func TestDamagedMessages(t *testing.T) {
	good := pod("ml", "train-0", container("main", devices("nvidia.com/gpu", "GPU-1"), claim("gpu.nvidia.com", "d")))
	for n := 1; n < len(good); n++ {
		if got, err := decode([]byte(good[:n])); err == nil {
			t.Errorf("cut after %d bytes: %q", n, got)
		}
	}
	for name, message := range map[string]string{
		"a group":             "\x0b",
		"a group that ends":   "\x0b\x0c",
		"the end of a group":  "\x0c",
		"a type of none":      "\x0e",
		"field 0":             "\x02\x00",
		"field 1<<29":         "\x82\x80\x80\x80\x10\x00",
		"endless number":      "\x08" + strings.Repeat("\xff", 12),
		"cut fixed64":         "\x31\x01",
		"a huge length":       "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"a name of megabytes": pod("a", "b", container(strings.Repeat("x", maxText+1))),
		"no UTF-8":            pod("a", "b", container("c", devices("\xff"))),
		"too many":            pod("a", "b", slices.Repeat([]string{""}, maxContainers+1)...),
	} {
		if got, err := decode([]byte(message)); fabric.ReasonOf(err) != fabric.ReasonMalformed || got != nil {
			t.Errorf("%s: %.100q, %v", name, got, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(pod("ml", "train-0", container("main", number, devices("nvidia.com/gpu", "GPU-1"), claim("gpu.nvidia.com", "d"), fixed64, fixed32))))
	f.Add([]byte(pod("a", "b", container("c", devices("cpu")))))
	f.Add([]byte("\x0b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decode(b)
		if len(got) > len(b) || err != nil && got != nil {
			t.Errorf("decode(%q) = %q, %v", b, got, err)
		}
	})
}

// kubelet serves gRPC as net/http speaks it.
func kubelet(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: handle, Protocols: &protocols, ReadHeaderTimeout: time.Minute}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return New(socket)
}

// reply answers with a message, or with bytes that are no frame.
func reply(status, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		io.WriteString(w, body)
		w.Header().Set("Grpc-Status", status)
		w.Header().Set("Grpc-Message", "says why")
	}
}

func framed(message string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
}

func TestKubeletIsAsked(t *testing.T) {
	list := pod("ml", "train-0", container("main", devices("nvidia.com/gpu", "GPU-1")))
	c := kubelet(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "\x00\x00\x00\x00\x00" || r.Method != http.MethodPost || r.ProtoMajor != 2 || r.URL.Path != "/v1.PodResourcesLister/List" ||
			r.Header.Get("Content-Type") != "application/grpc" || r.Header.Get("Te") != "trailers" {
			t.Errorf("%s %s %s %v %q %v", r.Proto, r.Method, r.URL, r.Header, body, err)
		}
		reply("0", framed(list))(w, r)
	})
	for range 2 {
		if got, here, err := c.GPUs(t.Context()); err != nil || !here || !slices.Equal(got, []string{"ml/train-0/main"}) {
			t.Errorf("%q, %v, %v", got, here, err)
		}
	}
}

// A list of a megabyte comes in many frames of HTTP/2. On a busy machine the client times out after two
// seconds, and the request is repeated.
func TestLongLists(t *testing.T) {
	var b strings.Builder
	for i := range 3_000 {
		b.WriteString(pod("kube-system", fmt.Sprintf("pod-%d", i), container("main", devices("cpu.example/x", strings.Repeat("y", 300)))))
	}
	b.WriteString(pod("ml", "last", container("main", devices("nvidia.com/gpu", "GPU-1"))))
	c := kubelet(t, reply("0", framed(b.String())))
	got, _, err := c.GPUs(t.Context())
	for range 10 {
		if !errors.Is(err, context.DeadlineExceeded) {
			break
		}
		got, _, err = c.GPUs(t.Context())
	}
	if err != nil || !slices.Equal(got, []string{"ml/last/main"}) {
		t.Errorf("%q, %v, of %d bytes", got, err, b.Len())
	}
}

func TestKubeletsThatDoNotAnswer(t *testing.T) {
	none := reply("0", framed(""))
	for name, handle := range map[string]http.HandlerFunc{
		"not implemented":     reply("12", ""),
		"overloaded":          reply("8", framed("")),
		"no status":           func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, framed("")) },
		"not found":           http.NotFound,
		"no message":          reply("0", ""),
		"half a frame":        reply("0", "\x00\x00"),
		"half a message":      reply("0", framed(pod("a", "b"))[:9]),
		"two messages":        reply("0", framed("")+framed("")),
		"compressed":          reply("0", "\x01"+framed("")[1:]),
		"garbage":             reply("0", framed("garbage")),
		"too long":            reply("0", framed(strings.Repeat("\x22\x00", maxReply/2+1))),
		"the connection ends": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"headers without end": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			none(w, r)
		},
	} {
		if got, here, err := kubelet(t, handle).GPUs(t.Context()); err == nil || got != nil || !here {
			t.Errorf("%s: %q, %v, %v", name, got, here, err)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

func TestNoListener(t *testing.T) {
	if got, here, err := New(filepath.Join(t.TempDir(), "kubelet.sock")).GPUs(t.Context()); err != nil || here || got != nil {
		t.Errorf("no socket: %q, %v, %v", got, here, err)
	}
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	// One that takes connections and says nothing.
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if got, here, err := New(socket).GPUs(ctx); !errors.Is(err, context.DeadlineExceeded) || !here {
		t.Errorf("silence: %q, %v, %v", got, here, err)
	}
	l.Close()
	if got, here, err := New(socket).GPUs(t.Context()); err == nil || !here || got != nil {
		t.Errorf("a socket that a kubelet left behind: %q, %v, %v", got, here, err)
	}
}

// A kubelet that does not list claims has noted them.
func TestClaimsThatAreNotListed(t *testing.T) {
	noted := func(t *testing.T, message, note string) *Client {
		c := kubelet(t, reply("0", framed(message)))
		dir := filepath.Join(filepath.Dir(c.socket), "pod-resources")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(c.socket, filepath.Join(dir, "kubelet.sock")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "../dra_manager_state"), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		return New(filepath.Join(dir, "kubelet.sock"))
	}
	const gpu = `{"version":"v1","entries":[{"DriverState":{"gpu.nvidia.com":{}},"ClaimName":"c"}],"checksum":1}`
	if got, here, err := noted(t, pod("a", "b", container("c")), gpu).GPUs(t.Context()); err == nil || got != nil || !here {
		t.Errorf("a claim that is not listed: %q, %v, %v", got, here, err)
	}
	if got, _, err := noted(t, "", `{"version":"v1","entries":[{"DriverState":{"net.example":{}}}],"checksum":1}`).GPUs(t.Context()); err != nil || got != nil {
		t.Errorf("a claim of a NIC: %q, %v", got, err)
	}
	if got, _, err := noted(t, pod("ml", "x", container("c", claim("gpu.nvidia.com", "d"))), gpu).GPUs(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("a claim that is listed: %q, %v", got, err)
	}
	c := noted(t, "", "")
	if err := os.Truncate(filepath.Join(filepath.Dir(c.socket), "../dra_manager_state"), maxReply+1); err != nil {
		t.Fatal(err)
	}
	if got, _, err := c.GPUs(t.Context()); err == nil {
		t.Errorf("a note that is too long: %q", got)
	}
}
