// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/netip"
	"time"
)

// SetTimeouts shortens timeouts for tests. Zero leaves a timeout unchanged.
func (e *Executor) SetTimeouts(handshake, body time.Duration) {
	if handshake > 0 {
		e.timeouts.handshake = handshake
	}
	if body > 0 {
		e.timeouts.body = body
	}
}

// RefusalReason returns why an address must not be called, with exceptions for some networks.
func RefusalReason(allowed []string, addr string) (string, error) {
	p, err := newAddressPolicy(allowed)
	if err != nil {
		return "", err
	}
	parsed, err := netip.ParseAddr(addr)
	if err != nil {
		return "", err
	}
	return p.refusalReason(parsed), nil
}
