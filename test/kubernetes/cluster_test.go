// SPDX-License-Identifier: Apache-2.0

//go:build kubernetes

package kubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	apiserver = "../../bin/kube-apiserver"
	token     = "test"
)

// cluster is the API server of Kubernetes with etcd, and nothing else: objects are validated, admitted and
// stored, and no pod runs.
type cluster struct {
	url        string
	client     *http.Client
	kubeconfig string
}

// start returns a cluster that ends with the test.
func start(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	etcd, peers := "http://"+freeAddress(t), "http://"+freeAddress(t)
	run(t, filepath.Join(dir, "etcd.log"), "etcd", "--data-dir="+filepath.Join(dir, "etcd"), "--listen-client-urls="+etcd, "--advertise-client-urls="+etcd,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers, "--unsafe-no-fsync")
	key := filepath.Join(dir, "accounts.key")
	writeKey(t, key)
	tokens := filepath.Join(dir, "tokens.csv")
	write(t, tokens, token+",admin,1,system:masters\n")
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	run(t, filepath.Join(dir, "apiserver.log"), apiserver, "--etcd-servers="+etcd, "--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+dir,
		"--token-auth-file="+tokens, "--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--disable-admission-plugins=ServiceAccount") // accounts "default" are made by a controller, which does not run
	c := &cluster{url: "https://" + address, kubeconfig: filepath.Join(dir, "kubeconfig")}
	certificate := filepath.Join(dir, "apiserver.crt")
	write(t, c.kubeconfig, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: admin, user: {token: %s}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
`, c.url, certificate, token))
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if text, err := os.ReadFile(certificate); err == nil {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(text)
			c.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
			if status, _, _, err := c.ask(t, http.MethodGet, "/readyz", "", nil); err == nil && status == http.StatusOK {
				return c
			}
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(dir, "apiserver.log"))
			t.Fatalf("the API server was never ready:\n%s", log[max(0, len(log)-4000):])
		}
	}
}

// run starts a program that is killed when the test ends.
func run(t *testing.T, log, name string, args ...string) {
	t.Helper()
	to, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	c.Stdout, c.Stderr = to, to
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatalf("%s: %v (make kubernetes builds the API server and Helm; etcd is Debian's etcd-server)", name, err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		to.Close()
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
}

// ask returns the status, the warnings and the body of an answer.
func (c *cluster) ask(t *testing.T, method, path, contentType string, body []byte) (status int, warnings []string, answer []byte, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	response, err := c.client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	for _, w := range response.Header.Values("Warning") { // 299 - "text"
		if _, quoted, found := strings.Cut(w, " - "); found {
			var text string
			if json.Unmarshal([]byte(quoted), &text) == nil {
				w = text
			}
		}
		warnings = append(warnings, w)
	}
	return response.StatusCode, warnings, answer, err
}

// object is any object of Kubernetes.
type object map[string]any

func (o object) field(path ...string) any {
	var v any = map[string]any(o)
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func (o object) kind() string { s, _ := o.field("kind").(string); return s }

func (o object) name() string { s, _ := o.field("metadata", "name").(string); return s }

// objects are those in a text of YAML documents.
func objects(t *testing.T, text string) []object {
	t.Helper()
	var all []object
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o map[string]any
		err := d.Decode(&o)
		switch {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		case o != nil:
			all = append(all, o)
		}
	}
}

// resources are the paths of kinds; those with %s are in namespaces.
var resources = map[string]string{
	"Namespace":                "/api/v1/namespaces",
	"Pod":                      "/api/v1/namespaces/%s/pods",
	"Service":                  "/api/v1/namespaces/%s/services",
	"Job":                      "/apis/batch/v1/namespaces/%s/jobs",
	"CronJob":                  "/apis/batch/v1/namespaces/%s/cronjobs",
	"ConfigMap":                "/api/v1/namespaces/%s/configmaps",
	"ServiceAccount":           "/api/v1/namespaces/%s/serviceaccounts",
	"DaemonSet":                "/apis/apps/v1/namespaces/%s/daemonsets",
	"NetworkPolicy":            "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies",
	"PodMonitor":               "/apis/monitoring.coreos.com/v1/namespaces/%s/podmonitors",
	"PrometheusRule":           "/apis/monitoring.coreos.com/v1/namespaces/%s/prometheusrules",
	"RuntimeClass":             "/apis/node.k8s.io/v1/runtimeclasses",
	"PriorityClass":            "/apis/scheduling.k8s.io/v1/priorityclasses",
	"CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}

// apply applies an object server-side, as kubectl apply --server-side does, and returns the status and what
// the server said.
func (c *cluster) apply(t *testing.T, namespace string, o object) (status int, warnings []string, message string) {
	t.Helper()
	path, known := resources[o.kind()]
	if !known {
		t.Fatalf("%s %s: no path of this kind", o.kind(), o.name())
	}
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, namespace)
	}
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	status, warnings, answer, err := c.ask(t, http.MethodPatch, path+"/"+o.name()+"?fieldManager=test&fieldValidation=Strict", "application/apply-patch+yaml", body)
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ Message string }
	_ = json.Unmarshal(answer, &said) // an object has none
	return status, warnings, said.Message
}

// must applies what has to be accepted without a warning.
func (c *cluster) must(t *testing.T, namespace string, all ...object) {
	t.Helper()
	for _, o := range all {
		if status, warnings, message := c.apply(t, namespace, o); status != http.StatusOK && status != http.StatusCreated || len(warnings) > 0 {
			t.Errorf("%s %s: %d %s %q", o.kind(), o.name(), status, message, warnings)
		}
	}
}

// await waits until a path is served, as those of new kinds are some time after their definition.
func (c *cluster) await(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if status, _, _, err := c.ask(t, http.MethodGet, path, "", nil); err == nil && status == http.StatusOK {
			return
		}
	}
	t.Fatalf("%s is not served", path)
}
