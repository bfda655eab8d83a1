// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"

	httpconfig "github.com/prometheus/common/config"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"

	"gpufabric_exporter/internal/files"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/exchange"
)

// maxClientFile bounds the files of clients and servers, and those of passwords that they name.
const maxClientFile = 1 << 20

// asker asks peers.
type asker struct {
	client *http.Client
	file   string // what the client file has; it may change while the configuration does not
}

// askerOf returns what asks peers. Its errors are all reasons not to ping as the configuration says, with this file of
// --web.config.file. It reads files, and may hang.
func askerOf(c *rdmaping.Config, web string) (asker, error) {
	var open error
	if encrypted, guarded := secures(web); !c.Plain && !encrypted && !guarded {
		open = errors.New("rdma_ping: peers would be told over plain HTTP, to everyone who asks, where this node answers: " +
			"set TLS or authentication in --web.config.file, or plain: true (--config.check needs the --web.config.file of the service)")
	}
	asks, err := readAsker(c.ClientFile, c.Plain || c.Scheme == "https")
	if err != nil {
		err = fmt.Errorf("rdma_ping.client_file: %w", err)
	}
	return asks, errors.Join(open, err)
}

// secures reports whether a web configuration file has TLS, which begins with the exporter, and passwords.
func secures(file string) (encrypted, guarded bool) {
	if file == "" {
		return false, false
	}
	text, err := files.Read(file, maxClientFile)
	var all struct {
		TLS   toolkit.TLSConfig `yaml:"tls_server_config"`
		Users map[string]any    `yaml:"basic_auth_users"`
	}
	if err != nil || yaml.Unmarshal(text, &all) != nil {
		return false, false
	}
	return all.TLS.IsEnabled(), len(all.Users) > 0
}

// readAsker returns what asks peers as a file says, which has the form of http_config of Prometheus; without one as
// everyone. Without clear, credentials would be sent over plain HTTP. Errors name the file.
func readAsker(file string, clear bool) (asker, error) {
	if file == "" {
		return asker{client: exchange.Client(nil)}, nil
	}
	text, err := files.Read(file, maxClientFile)
	if err != nil {
		return asker{}, err
	}
	transport, err := transportOf(text, filepath.Dir(file), clear)
	if err != nil {
		return asker{}, fmt.Errorf("%s: %w", file, err)
	}
	return asker{exchange.Client(transport), string(text)}, nil
}

func transportOf(text []byte, dir string, clear bool) (http.RoundTripper, error) {
	c, err := httpconfig.LoadHTTPConfig(string(text))
	if _, ok := errors.AsType[*url.Error](err); ok {
		return nil, errors.New("expected URLs that can be parsed (they are not shown: they may have passwords)")
	}
	if err != nil {
		return nil, unquoted(err)
	}
	c.SetDirectory(dir)
	if !clear && hasSecrets(c) {
		return nil, errors.New("its credentials would be sent over plain HTTP: set scheme: https, or plain: true")
	}
	if err := readable(c); err != nil {
		return nil, err
	}
	return httpconfig.NewRoundTripperFromConfig(*c, "rdma_ping", httpconfig.WithHTTP2Disabled(),
		httpconfig.WithKeepAlivesDisabled(), httpconfig.WithDialContextFunc(exchange.Dial))
}

// hasSecrets reports whether requests carry what others must not read. Loading moves bearer tokens to Authorization.
func hasSecrets(c *httpconfig.HTTPClientConfig) bool {
	return c.BasicAuth != nil || c.Authorization != nil || c.OAuth2 != nil || c.HTTPHeaders != nil
}

// readable reads the files of passwords, which the client reads for each request and not before. Files of TLS it does.
func readable(c *httpconfig.HTTPClientConfig) error {
	var names []string
	if a := c.BasicAuth; a != nil {
		names = append(names, a.UsernameFile, a.PasswordFile)
	}
	if a := c.Authorization; a != nil {
		names = append(names, a.CredentialsFile)
	}
	if a := c.OAuth2; a != nil {
		names = append(names, a.ClientSecretFile)
	}
	if c.HTTPHeaders != nil {
		for _, h := range c.HTTPHeaders.Headers {
			names = append(names, h.Files...)
		}
	}
	var errs []error
	for _, name := range names {
		if name == "" {
			continue
		}
		if _, err := files.Read(name, maxClientFile); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
