// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"net/netip"
)

// refusedNetwork is a network whose addresses must not be called, with the reason.
type refusedNetwork struct {
	prefix netip.Prefix
	reason string
}

// addressPolicy decides which addresses may be called. Private addresses are allowed (RFC 1918,
// unique local addresses, 100.64.0.0/10), because Services and pods have them.
type addressPolicy struct {
	allowed []netip.Prefix
	refused []refusedNetwork
}

// refusedAddressError means that an address must not be called.
type refusedAddressError struct {
	host   string
	addr   netip.Addr
	reason string
}

func (r *refusedAddressError) Error() string {
	what := fmt.Sprintf("the address %s", r.addr)
	if r.host != r.addr.String() {
		what += fmt.Sprintf(" of the host %q", r.host)
	}
	return fmt.Sprintf("%s is not called: %s; use another host, or allow it with allowCIDRs in the Plugin if that is intended", what, r.reason)
}

// newAddressPolicy returns the policy, with exceptions for the networks in allowed.
func newAddressPolicy(allowed []string) (addressPolicy, error) {
	out := addressPolicy{refused: refusedNetworks()}
	for _, text := range allowed {
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			return addressPolicy{}, fmt.Errorf("allowCIDRs: %q is not a network: write it like 127.0.0.0/8 or ::1/128", text)
		case prefix.Addr().Is4In6():
			return addressPolicy{}, fmt.Errorf("allowCIDRs: %q is an IPv4 network written as IPv6: write it as IPv4", text)
		case prefix != prefix.Masked():
			return addressPolicy{}, fmt.Errorf("allowCIDRs: %q has bits set after the prefix: write %s", text, prefix.Masked())
		}
		out.allowed = append(out.allowed, prefix)
	}
	return out, nil
}

// refusedNetworks returns the networks that concern only the machine or link of the operator, or
// that belong to a cloud provider. An error names the first one that contains the address.
func refusedNetworks() []refusedNetwork {
	const (
		metadata   = "it belongs to the metadata service of a cloud"
		linkLocal  = "it is a link-local address"
		loopback   = "it is a loopback address, which is the operator itself"
		multicast  = "it is a multicast address"
		none       = "it is an unspecified address"
		reserved   = "it is a reserved address"
		translated = "it is an IPv4 address inside an IPv6 address"
	)
	var out []refusedNetwork
	for _, group := range []struct {
		why      string
		prefixes []string
	}{
		{metadata, []string{
			"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", // AWS and most others; ECS; EKS
			"fd00:ec2::/32",                               // AWS
			"fd20:ce::254/128",                            // Google Cloud
			"168.63.129.16/32",                            // Azure
			"100.100.100.200/32", "fd00:100::100:200/128", // Alibaba Cloud
			"192.0.0.192/32", "fd00:c1::a9fe:a9fe/128", // Oracle Cloud
			"fd00:a9fe:a9fe::1/128",               // Akamai
			"169.254.42.42/32", "fd00:42::42/128", // Scaleway
		}},
		{linkLocal, []string{"169.254.0.0/16", "fe80::/10"}},
		{loopback, []string{"127.0.0.0/8", "::1/128"}},
		{multicast, []string{"224.0.0.0/4", "ff00::/8"}},
		{none, []string{"0.0.0.0/8", "::/128"}},
		{reserved, []string{"240.0.0.0/4"}},
		// RFC 4291 (compatible), RFC 2765, RFC 8215, RFC 4380 (Teredo), RFC 3056 (6to4).
		{translated, []string{"::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "2001::/32", "2002::/16"}},
	} {
		for _, prefix := range group.prefixes {
			out = append(out, refusedNetwork{prefix: netip.MustParsePrefix(prefix), reason: group.why})
		}
	}
	return out
}

// refusalReason returns why an address must not be called; "" if it may be.
func (p addressPolicy) refusalReason(addr netip.Addr) string {
	// Prefixes do not match mapped addresses or addresses with a zone.
	addr = addr.Unmap().WithZone("")
	for _, prefix := range p.allowed {
		if prefix.Contains(addr) {
			return ""
		}
	}
	for _, network := range p.refused {
		if network.prefix.Contains(addr) {
			return network.reason
		}
	}
	// NAT64 (RFC 6052) reaches the IPv4 address in the last four bytes.
	if nat64 := netip.MustParsePrefix("64:ff9b::/96"); nat64.Contains(addr) {
		bytes := addr.As16()
		return p.refusalReason(netip.AddrFrom4([4]byte(bytes[12:])))
	}
	return ""
}
