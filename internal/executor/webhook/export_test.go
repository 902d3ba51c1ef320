// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/netip"
	"time"
)

// SetTimeouts shortens the times that tests would have to wait for. Zero leaves one as it is.
func (e *Executor) SetTimeouts(handshake, body time.Duration) {
	if handshake > 0 {
		e.timeouts.handshake = handshake
	}
	if body > 0 {
		e.timeouts.body = body
	}
}

// RefusalReason returns why an address may not be called, with exceptions for some networks.
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
