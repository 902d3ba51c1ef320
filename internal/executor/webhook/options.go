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

// Options are what an Executor is made of.
type Options struct {
	// URL is where the endpoint is: https, a host, perhaps a port and a path. It has
	// no credentials, query or fragment.
	URL string
	// Path belongs to the action and is appended to the path of URL as it is; "" adds
	// nothing. It begins with "/" and has letters, digits and "-._~!$&'()*+,;=:@"
	// between the slashes.
	Path string
	// CABundle has the certificates of the authorities that may vouch for the
	// endpoint, in PEM; no others count then. Empty means those of the system.
	CABundle []byte
	// ServerName is what the endpoint's certificate has to be for, if that is not the host
	// of URL: a name or an address. It is sent as SNI, too. "" means the host.
	ServerName string
	// Credentials is asked before each call. Nil means that there are none. Its error
	// is shown to people, redacted; one that matches ErrInvalidCredentials cannot be
	// mended by another attempt.
	Credentials func(ctx context.Context) (Credentials, error)
	// AllowCIDRs are networks that may be called although they contain addresses that
	// are refused otherwise, like "127.0.0.0/8". See the package's address.go.
	AllowCIDRs []string
	// Resolver looks up the host's addresses; nil means net.DefaultResolver.
	Resolver Resolver
	// UserAgent is the header of that name; "" means "grapnel".
	UserAgent string
	// Redactor removes secrets from all texts; it learns the tokens.
	Redactor *redact.Redactor
	// Logger gets, at level 1, the causes of failures in the words of the libraries.
	// What an answer logs goes to the logger of ctx instead.
	Logger logr.Logger
	// Now tells the time at which certificates must be valid; nil means time.Now.
	Now func() time.Time
}

// New returns an Executor for one action. An error says which option is wrong, in one
// line without secrets.
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

// parseURL returns where the action is. Its errors do not repeat the URL, which may
// hold a password.
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
		return errors.New("url has a colon and no port behind it")
	}
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return errors.New("url must have a port between 1 and 65535")
	}
	return nil
}

// validateURLPath accepts only what means the same to every server and proxy: no escapes, no
// empty segments, no dots that lead upwards. A "{name}" is refused, too, so that nobody
// believes it is filled in.
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

// parseCABundle reads all of a bundle: a certificate that is silently left out would be
// missed only when it is needed.
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
			return nil, errors.New("caBundle must hold certificates in PEM and nothing else")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("caBundle: certificate number %d cannot be read", count+1)
		}
		pool.AddCert(certificate)
		count++
	}
	if count == 0 {
		return nil, errors.New("caBundle holds no certificate in PEM")
	}
	return pool, nil
}
