// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/executor/webhook"
)

func TestNew(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "a")
	_, key := a.issue(t, nil)
	for name, tc := range map[string]struct {
		opts webhook.Options
		want string
	}{
		"least":           {opts: webhook.Options{URL: "https://hooks.shop.svc"}},
		"all":             {opts: webhook.Options{URL: "https://10.0.0.1:8443/a/", Path: "/b.c/d", CABundle: slices.Concat(a.bundle, a.bundle), AllowCIDRs: []string{"::1/128"}}},
		"IPv6":            {opts: webhook.Options{URL: "https://[fd12::1]:8443"}},
		"allowed address": {opts: webhook.Options{URL: "https://127.0.0.1", AllowCIDRs: []string{"127.0.0.1/32"}}},

		"no URL":           {opts: webhook.Options{}, want: "url must begin with https://"},
		"unreadable":       {opts: webhook.Options{URL: "https://bob:pass word@%zz"}, want: "url cannot be read as a URL"},
		"plain":            {opts: webhook.Options{URL: "http://a"}, want: "url must begin with https://: hooks are called over TLS only"},
		"credentials":      {opts: webhook.Options{URL: "https://bob:pw@a"}, want: "url must not contain credentials: put them into a Secret"},
		"query":            {opts: webhook.Options{URL: "https://a/?b"}, want: "url must not have a query or a fragment"},
		"empty query":      {opts: webhook.Options{URL: "https://a/?"}, want: "url must not have a query or a fragment"},
		"fragment":         {opts: webhook.Options{URL: "https://a/#"}, want: "url must not have a query or a fragment"},
		"no host":          {opts: webhook.Options{URL: "https:///a"}, want: "url must have a host name"},
		"odd host":         {opts: webhook.Options{URL: "https://a_b$c"}, want: "url must have a host name"},
		"host in Unicode":  {opts: webhook.Options{URL: "https://bücher.example"}, want: "url must have a host name"},
		"no port":          {opts: webhook.Options{URL: "https://a:"}, want: "url has a colon without a port"},
		"port 0":           {opts: webhook.Options{URL: "https://a:0"}, want: "url must have a port between 1 and 65535"},
		"large port":       {opts: webhook.Options{URL: "https://a:65536"}, want: "url must have a port between 1 and 65535"},
		"escapes":          {opts: webhook.Options{URL: "https://a/%2e%2e"}, want: "url has a path that is not allowed"},
		"upwards":          {opts: webhook.Options{URL: "https://a/b/../c"}, want: "url must not have the path segments '.' and '..'"},
		"dots":             {opts: webhook.Options{URL: "https://a", Path: "/./b"}, want: "path must not have the path segments '.' and '..'"},
		"relative path":    {opts: webhook.Options{URL: "https://a", Path: "b"}, want: "path must begin with /"},
		"path with query":  {opts: webhook.Options{URL: "https://a", Path: "/b?c=d"}, want: "path has a path that is not allowed"},
		"path upwards":     {opts: webhook.Options{URL: "https://a/b", Path: "/../c"}, want: "path must not have the path segments"},
		"path to fill in":  {opts: webhook.Options{URL: "https://a", Path: "/{name}"}, want: "path has a path that is not allowed"},
		"double slash":     {opts: webhook.Options{URL: "https://a", Path: "//b"}, want: "path has a path that is not allowed"},
		"refused address":  {opts: webhook.Options{URL: "https://169.254.169.254"}, want: "url: the address 169.254.169.254 is not called: it belongs to the metadata service"},
		"refused, IPv6":    {opts: webhook.Options{URL: "https://[::1]:1"}, want: "url: the address ::1 is not called: it is a loopback address"},
		"refused, mapped":  {opts: webhook.Options{URL: "https://[::ffff:7f00:1]"}, want: "url: the"},
		"odd name":         {opts: webhook.Options{URL: "https://a", ServerName: "*.example"}, want: "tls.serverName must be a host name"},
		"no PEM":           {opts: webhook.Options{URL: "https://a", CABundle: []byte("x")}, want: "caBundle contains no certificate in PEM"},
		"a key":            {opts: webhook.Options{URL: "https://a", CABundle: slices.Concat(a.bundle, key)}, want: "caBundle must contain certificates in PEM and nothing else"},
		"no certificate":   {opts: webhook.Options{URL: "https://a", CABundle: pemOf("CERTIFICATE", []byte("x"))}, want: "caBundle: certificate number 1 cannot be read"},
		"no network":       {opts: webhook.Options{URL: "https://a", AllowCIDRs: []string{"127.0.0.1"}}, want: `allowCIDRs: "127.0.0.1" is not a network`},
		"bits behind":      {opts: webhook.Options{URL: "https://a", AllowCIDRs: []string{"10.0.0.1/8"}}, want: `allowCIDRs: "10.0.0.1/8" has bits set after the prefix: write 10.0.0.0/8`},
		"IPv4 within IPv6": {opts: webhook.Options{URL: "https://a", AllowCIDRs: []string{"::ffff:127.0.0.0/104"}}, want: `allowCIDRs: "::ffff:127.0.0.0/104" is`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := webhook.New(tc.opts)
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "pw") || strings.Contains(err.Error(), "pass") {
				t.Errorf("error is %v, want %s", err, tc.want)
			}
		})
	}
}
