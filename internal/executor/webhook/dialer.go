// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

// maxAddresses is the maximum number of addresses of a name that are tried.
const maxAddresses = 8

// Resolver looks up addresses; *net.Resolver implements it.
type Resolver interface {
	// LookupNetIP is documented at net.Resolver.LookupNetIP; network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// dialAllowedAddress connects to an address of the host that may be called. It looks up the name
// once, and dials the very address that was checked: a second lookup could return another one (DNS
// rebinding).
func (e *Executor) dialAllowedAddress(ctx context.Context, _, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	addrs, err := e.lookupAllowedAddresses(ctx, host)
	if err != nil {
		return nil, err
	}
	var failed error
	for _, addr := range addrs[:min(len(addrs), maxAddresses)] {
		dialer := net.Dialer{Timeout: e.timeouts.connect}
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn, nil
		}
		if failed == nil {
			failed = err
		}
	}
	return nil, failed
}

// lookupAllowedAddresses returns the addresses of a host that may be called, at least one.
func (e *Executor) lookupAllowedAddresses(ctx context.Context, host string) ([]netip.Addr, error) {
	found := []netip.Addr{}
	if addr, err := netip.ParseAddr(host); err == nil {
		found = append(found, addr)
	} else if found, err = e.resolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, newLookupError(host, err)
	}
	var allowed []netip.Addr
	var refused *refusedAddressError
	for _, addr := range found {
		switch why := e.policy.refusalReason(addr); {
		case why == "":
			allowed = append(allowed, addr.Unmap())
		case refused == nil:
			refused = &refusedAddressError{host: host, addr: addr, reason: why}
		}
	}
	switch {
	case len(allowed) > 0:
		return allowed, nil
	case refused != nil:
		return nil, refused
	}
	return nil, newLookupError(host, errors.New("no addresses"))
}

// newLookupError returns an error that identifies the name.
func newLookupError(host string, err error) error {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return err
	}
	return errors.Join(&net.DNSError{Name: host, Err: "it could not be looked up"}, err)
}
