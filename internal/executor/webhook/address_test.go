// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/webhook"
)

func TestRefusalReason(t *testing.T) {
	t.Parallel()
	for why, addrs := range map[string][]string{
		"": {
			"10.96.0.1", "172.16.3.4", "192.168.1.1", "100.64.1.1", "8.8.8.8", "fd12:3456::1", "2606:4700::1111", "::ffff:10.0.0.1",
			"64:ff9b::808:808", "192.0.0.8", "198.51.100.1",
		},
		"it is a loopback address":   {"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"},
		"it is a link-local address": {"169.254.1.1", "169.254.0.23", "fe80::1", "fe80::1%eth0", "febf::1", "::ffff:169.254.1.1", "fe80::a9fe:a9fe"},
		"it is a multicast address":  {"224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1%eth0", "::ffff:224.0.0.1"},
		"it is an unspecified address": {
			"0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0", "64:ff9b::",
		},
		"it is a reserved address": {"240.0.0.1", "255.255.255.255", "::ffff:255.255.255.255"},
		"it belongs to the metadata service of a cloud": {
			"169.254.169.254", "169.254.170.2", "169.254.170.23", "168.63.129.16", "100.100.100.200", "192.0.0.192", "169.254.42.42",
			"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:100::100:200", "fd00:a9fe:a9fe::1",
			"::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "fd00:ec2::254%eth0",
		},
		"it is an IPv4 address inside an IPv6 address": {
			"::169.254.169.254", "::7f00:1", "::ffff:0:169.254.169.254", "64:ff9b:1::a9fe:a9fe", "2001::1", "2002:a9fe:a9fe::1",
		},
	} {
		for _, addr := range addrs {
			got, err := webhook.RefusalReason([]string{"10.0.0.0/8"}, addr)
			if err != nil || !strings.HasPrefix(got, why) || why == "" && got != "" {
				t.Errorf("%s: refused because %q, %v, want %q", addr, got, err, why)
			}
		}
	}
}

func TestRefusalReason_AllowedNetworks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		allowed []string
		addr    string
		refused bool
	}{
		"the network":        {allowed: []string{"10.0.0.0/8", "127.0.0.0/8"}, addr: "127.0.0.1"},
		"mapped":             {allowed: []string{"127.0.0.0/8"}, addr: "::ffff:127.0.0.1"},
		"with a zone":        {allowed: []string{"fe80::/10"}, addr: "fe80::1%eth0"},
		"behind NAT64":       {allowed: []string{"169.254.169.254/32"}, addr: "64:ff9b::a9fe:a9fe"},
		"only that one":      {allowed: []string{"169.254.169.254/32"}, addr: "169.254.169.253", refused: true},
		"the other protocol": {allowed: []string{"0.0.0.0/0"}, addr: "::1", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := webhook.RefusalReason(tc.allowed, tc.addr); err != nil || (got != "") != tc.refused {
				t.Errorf("refused because %q, %v", got, err)
			}
		})
	}
}

// counted returns a server that counts connections, with options that do not allow calls to it on a
// loopback address.
func counted(t *testing.T) (webhook.Options, string, *atomic.Int32) {
	t.Helper()
	connections := &atomic.Int32{}
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		_, _ = w.Write([]byte("{}"))
	}, func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
	})
	opts := optionsFor(server)
	opts.AllowCIDRs = nil
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	opts.URL = "https://example.com:" + port
	return opts, port, connections
}

func TestExecute_RefusedAddress(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		addrs []string
		want  string
	}{
		"loopback": {[]string{"127.0.0.1"}, `the address 127.0.0.1 of the host "example.com" is not called: it is a loopback`},
		"mapped":   {[]string{"::ffff:127.0.0.1"}, `the address ::ffff:127.0.0.1 of the host "example.com" is not called`},
		"metadata": {[]string{"169.254.169.254", "fd00:ec2::254"}, `the address 169.254.169.254 of the host "example.com" is not called: it belongs to the metadata`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, _, connections := counted(t)
			opts.Resolver = &resolver{answers: [][]string{tc.addrs}}
			_, err := newExecutor(t, opts).Execute(t.Context(), newCall())
			wantError(t, err, executor.Invalid, tc.want)
			if n := connections.Load(); n != 0 {
				t.Errorf("there were %d connections", n)
			}
		})
	}
}

// TestExecute_DNSRebinding uses a name that resolves to an allowed address in the first lookup, and to another
// one afterwards.
func TestExecute_DNSRebinding(t *testing.T) {
	t.Parallel()
	opts, _, connections := counted(t)
	opts.AllowCIDRs = []string{"127.0.0.1/32"}
	names := &resolver{answers: [][]string{{"127.0.0.1"}, {"169.254.169.254"}}}
	opts.Resolver = names
	e := newExecutor(t, opts)
	if _, err := e.Execute(t.Context(), newCall()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"example.com"}, names.asked); diff != "" {
		t.Errorf("look-ups of one call (-want +got):\n%s", diff)
	}
	_, err := e.Execute(t.Context(), newCall())
	wantError(t, err, executor.Invalid, `the address 169.254.169.254 of the host "example.com" is not called: it belongs to the metadata`)
	if n := connections.Load(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

// TestExecute_SeveralAddresses tries the allowed addresses, in their order, and no others.
func TestExecute_SeveralAddresses(t *testing.T) {
	t.Parallel()
	opts, port, connections := counted(t)
	opts.AllowCIDRs = []string{"127.0.0.1/32", "127.0.0.2/32"}
	// Nothing listens at the second address; the first one must not be called.
	opts.Resolver = &resolver{answers: [][]string{{"127.0.0.3", "127.0.0.2", "::ffff:127.0.0.1"}, {"127.0.0.3", "127.0.0.2"}}}
	e := newExecutor(t, opts)
	if _, err := e.Execute(t.Context(), newCall()); err != nil {
		t.Error(err)
	}
	_, err := e.Execute(t.Context(), newCall())
	wantError(t, err, executor.Unreachable, "the connection to example.com:"+port+" was refused")
	if n := connections.Load(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

func TestExecute_LookupErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		resolver *resolver
		want     string
	}{
		"unknown": {
			&resolver{err: &net.DNSError{Name: "example.com", Err: "no such host", IsNotFound: true, Server: "10.0.0.53:53"}},
			`the host name "example.com" does not exist: check url in the Plugin`,
		},
		"no answer": {
			&resolver{err: &net.DNSError{Name: "example.com", Err: "server misbehaving", Server: "10.0.0.53:53"}},
			`the host name "example.com" could not be looked up: check DNS in the cluster`,
		},
		"another error": {&resolver{err: errors.New("odd")}, `the host name "example.com" could not be looked up`},
		"no addresses":  {&resolver{answers: [][]string{nil}}, `the host name "example.com" could not be looked up`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newExecutor(t, webhook.Options{URL: "https://example.com", Resolver: tc.resolver}).Execute(t.Context(), newCall())
			wantError(t, err, executor.Unreachable, tc.want)
			if strings.Contains(err.Error(), "10.0.0.53") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// TestExecute_ProxyEnvironment sets a proxy in the environment, which would resolve the name itself.
// It is not parallel because of the environment.
func TestExecute_ProxyEnvironment(t *testing.T) {
	asked := &atomic.Int32{}
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	t.Setenv("NO_PROXY", "")
	opts, _, connections := counted(t)
	opts.AllowCIDRs = []string{"127.0.0.1/32"}
	opts.Resolver = &resolver{answers: [][]string{{"127.0.0.1"}}}
	if _, err := newExecutor(t, opts).Execute(t.Context(), newCall()); err != nil {
		t.Error(err)
	}
	if n := asked.Load(); n != 0 || connections.Load() != 1 {
		t.Errorf("the proxy was called %d times, the endpoint %d times", n, connections.Load())
	}
}
