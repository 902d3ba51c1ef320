// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net/netip"
	"time"
)

// Hurry shortens the times that tests would have to wait for. Zero leaves one as it is.
func (e *Executor) Hurry(handshake, body time.Duration) {
	if handshake > 0 {
		e.limits.handshake = handshake
	}
	if body > 0 {
		e.limits.body = body
	}
}

// Refusal returns why an address may not be called, with exceptions for some networks.
func Refusal(allowed []string, addr string) (string, error) {
	p, err := newPolicy(allowed)
	if err != nil {
		return "", err
	}
	parsed, err := netip.ParseAddr(addr)
	if err != nil {
		return "", err
	}
	return p.refusal(parsed), nil
}
