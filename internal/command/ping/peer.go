// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"gpufabric_exporter/internal/command"
	"gpufabric_exporter/internal/fabric"
	"gpufabric_exporter/rdmaping"
	"gpufabric_exporter/rdmaping/exchange"
	"gpufabric_exporter/rdmaping/pinger"
)

// tellsWithin is how long a peer may take to tell its rails.
const tellsWithin = 5 * time.Second

// askPeer asks another node for its rails: without proxies and redirects, and not for long.
func askPeer(ctx context.Context, address string) ([]rdmaping.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, tellsWithin)
	defer cancel()
	var to atomic.Value // the address that was connected to, or tried last
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectStart: func(_, address string) { to.Store(" (" + address + ")") },
		GotConn:      func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	rails, err := exchange.Ask(ctx, exchange.Client(nil), "http", address)
	if err == nil && len(rails) > 0 {
		return rails, nil
	}
	tried, _ := to.Load().(string)
	return nil, fmt.Errorf("%s%s %w", exchange.URL("http", address), tried, refusal(err, connected.Load()))
}

const (
	runsThere  = `run "` + command.Name + " ping --answer=:" + defaultPort + `" on that node`
	otherPort  = runsThere + ", or name the port of its exporter, if that has rdma_ping (docs/PING.md)"
	noPassword = "ping asks over plain HTTP and has no password: " + runsThere
)

// refusal says why a peer did not tell its rails, and what to do; nil is a list without any.
func refusal(err error, connected bool) error {
	status, _ := errors.AsType[*exchange.StatusError](err)
	unresolved, _ := errors.AsType[*net.DNSError](err)
	refused, _ := errors.AsType[*url.Error](err)
	switch {
	case err == nil:
		return errors.New("lists no rail: it has begun just now, is under maintenance, or opens no device: its log and gpufabric_ping_uncovered of its metrics tell")
	case unresolved != nil && unresolved.IsNotFound:
		return fmt.Errorf("cannot be asked, because no host has this name: check it (getent hosts %s), or give an address", unresolved.Name)
	case unresolved != nil:
		return fmt.Errorf("cannot be asked, because no name server tells the address of %s: check /etc/resolv.conf, or give an address", unresolved.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("refuses the connection, because nothing listens there: " + otherPort)
	case errors.Is(err, context.DeadlineExceeded) && connected:
		return fmt.Errorf("takes the connection and does not answer within %s: check that it is the right port: %s", tellsWithin, otherPort)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("does not answer within %s: check that the node is up, and that nothing filters this port of TCP", tellsWithin)
	case status != nil:
		return fmt.Errorf("%w: %s", status, afterStatus(status))
	case errors.Is(err, context.Canceled):
		return err
	case refused != nil && connected:
		why := strings.TrimPrefix(refused.Err.Error(), "net/http: HTTP/1.x transport connection broken: ")
		return fmt.Errorf("gives no answer of HTTP (%s): %s", fabric.Printable(why, 100), noPassword)
	case refused != nil:
		return fmt.Errorf("cannot be reached (%s): check that the node is up, and how this host gets to it (ip route get)",
			fabric.Printable(refused.Err.Error(), 100))
	}
	return fmt.Errorf("%w: check that it is the right port, and that both nodes have the same release", err)
}

// afterStatus says what to do about an answer other than 200.
func afterStatus(s *exchange.StatusError) string {
	switch {
	case s.Code == http.StatusBadRequest && strings.Contains(s.Text, "HTTPS"),
		s.Code == http.StatusUnauthorized, s.Code == http.StatusForbidden:
		return noPassword
	case s.Code == http.StatusNotFound:
		return "set rdma_ping.enabled in the configuration of that exporter, or " + runsThere
	case s.Code == http.StatusServiceUnavailable, s.Code == http.StatusTooManyRequests:
		return "ask again in a few seconds"
	case s.Code/100 == 3:
		return "redirects are not followed: name host and port of the exporter itself"
	}
	return "check that it is the right port: " + otherPort
}

// pair chooses a rail of this node and one of the peer: that of the GID, else those of one name, else of one number,
// else the first ones. An IPv6 address that is no GID of the peer may be another one of that host; one with an IPv4
// address in it, nobody writes for that.
func pair(rails []pinger.Own, peers []rdmaping.Endpoint, gid rdmaping.GID) (pinger.Own, rdmaping.Endpoint, error) {
	to := slices.IndexFunc(peers, func(e rdmaping.Endpoint) bool { return e.GID == gid })
	if to < 0 && netip.AddrFrom16(gid).Is4In6() {
		list := make([]string, len(peers))
		for i, e := range peers {
			list[i] = e.Device + " " + e.GID.String()
		}
		return pinger.Own{}, rdmaping.Endpoint{}, fmt.Errorf("no port of that node has this GID, choose another one: %s", strings.Join(list, ", "))
	}
	for _, alike := range []func(r *pinger.Own, e *rdmaping.Endpoint) bool{
		func(r *pinger.Own, e *rdmaping.Endpoint) bool { return r.Device == e.Device },
		func(r *pinger.Own, e *rdmaping.Endpoint) bool { return r.Rail == e.Rail },
	} {
		for i := range rails {
			for k := range peers {
				if alike(&rails[i], &peers[k]) && (to < 0 || to == k) {
					return rails[i], peers[k], nil
				}
			}
		}
	}
	return rails[0], peers[max(to, 0)], nil
}
