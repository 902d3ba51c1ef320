// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Options configure an Executor.
type Options struct {
	// URL is the URL of the endpoint: https, a host, and optionally a port and a path. It has no
	// credentials, query or fragment.
	URL string
	// Path is the path of the action. It is appended to the path of URL unchanged; "" adds nothing.
	// It begins with "/" and has letters, digits and "-._~!$&'()*+,;=:@" between the slashes.
	Path string
	// CABundle contains the authorities that may sign the endpoint's certificate, in PEM; no others
	// are trusted then. Empty means those of the system.
	CABundle []byte
	// ServerName is the name or address that the endpoint's certificate must be valid for, if it is
	// not the host of URL. It is also sent as SNI. "" means the host.
	ServerName string
	// Credentials is called before each call. Nil means that there are none. Its error is shown to
	// users, redacted. An error that matches ErrInvalidCredentials is not retried.
	Credentials func(ctx context.Context) (Credentials, error)
	// AllowCIDRs are networks that may be called although they contain addresses that are otherwise
	// refused, such as "127.0.0.0/8". See address.go.
	AllowCIDRs []string
	// Resolver looks up the host's addresses; nil means net.DefaultResolver.
	Resolver Resolver
	// UserAgent is the User-Agent header; "" means "grapnel".
	UserAgent string
	// Redactor removes secrets from all texts; tokens are added to it.
	Redactor *redact.Redactor
	// Logger logs, at level 1, the original causes of failures. The log lines of an answer go to
	// the logger of ctx instead.
	Logger logr.Logger
	// Now returns the time at which certificates must be valid; nil means time.Now.
	Now func() time.Time
}

// New returns an Executor for one action. An error names the invalid option, in one line without
// secrets.
func New(opts Options) (*Executor, error) {
	target, err := parseURL(opts.URL, opts.Path)
	if err != nil {
		return nil, err
	}
	e := &Executor{
		url: target, serverName: strings.TrimSuffix(cmp.Or(opts.ServerName, target.Hostname()), "."),
		credentials: opts.Credentials, resolver: opts.Resolver, userAgent: opts.UserAgent,
		redactor: opts.Redactor, log: opts.Logger, now: opts.Now, timeouts: defaultTimeouts(),
	}
	e.setDefaults()
	if !isHostOrAddress(e.serverName) {
		return nil, errors.New("tls.serverName must be a host name of letters, digits, '-' and '.', or an address")
	}
	if e.policy, err = newAddressPolicy(opts.AllowCIDRs); err != nil {
		return nil, err
	}
	if addr, err := netip.ParseAddr(target.Hostname()); err == nil {
		if why := e.policy.refusalReason(addr); why != "" {
			return nil, fmt.Errorf("url: %w", &refusedAddressError{host: target.Hostname(), addr: addr, reason: why})
		}
	}
	if len(opts.CABundle) > 0 {
		if e.roots, err = parseCABundle(opts.CABundle); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// parseURL returns the URL of the action. Its errors do not repeat the URL, which may contain a
// password.
func parseURL(text, path string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("url cannot be read as a URL: write https://host:port/path")
	case u.Scheme != "https":
		return nil, errors.New("url must begin with https://: hooks are called over TLS only")
	case u.User != nil:
		return nil, errors.New("url must not contain credentials: put them into a Secret")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return nil, errors.New("url must not have a query or a fragment")
	}
	if err := validateURLHost(u); err != nil {
		return nil, err
	}
	if err := validateURLPath("url", u.EscapedPath()); err != nil {
		return nil, err
	}
	if path == "" {
		return u, nil
	}
	if !strings.HasPrefix(path, "/") {
		return nil, errors.New("path must begin with /")
	}
	if err := validateURLPath("path", path); err != nil {
		return nil, err
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	u.RawPath = u.Path // no character of it is escaped
	return u, nil
}

// isHostOrAddress reports whether text is an address or looks like a host name.
func isHostOrAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil || regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?\.?$`).MatchString(text)
}

func validateURLHost(u *url.URL) error {
	if !isHostOrAddress(u.Hostname()) {
		return errors.New("url must have a host name of letters, digits, '-' and '.', or an address")
	}
	port := u.Port()
	if port == "" && strings.HasSuffix(u.Host, ":") {
		return errors.New("url has a colon without a port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return errors.New("url must have a port between 1 and 65535")
	}
	return nil
}

// validateURLPath accepts only paths that every server and proxy interprets in the same way: no
// escapes, no empty segments, no dot segments. It also rejects "{name}", which could look like a
// placeholder.
func validateURLPath(option, path string) error {
	if !regexp.MustCompile(`^(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)*/?$`).MatchString(path) {
		return fmt.Errorf("%s has a path that is not allowed: use letters, digits and -._~!$&'()*+,;=:@ between single slashes", option)
	}
	segments := strings.Split(path, "/")
	if slices.Contains(segments, ".") || slices.Contains(segments, "..") {
		return fmt.Errorf("%s must not have the path segments '.' and '..'", option)
	}
	return nil
}

// parseCABundle parses a whole bundle: a certificate that is silently skipped would be missed only
// when it is needed.
func parseCABundle(bundle []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	count := 0
	for {
		block, rest := pem.Decode(bundle)
		if block == nil {
			break
		}
		bundle = rest
		if block.Type != "CERTIFICATE" {
			return nil, errors.New("caBundle must contain certificates in PEM and nothing else")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("caBundle: certificate number %d cannot be read", count+1)
		}
		pool.AddCert(certificate)
		count++
	}
	if count == 0 {
		return nil, errors.New("caBundle contains no certificate in PEM")
	}
	return pool, nil
}
