// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netpol enforces NetworkPolicies on the one node of the throw-away cluster, with
// a table of nftables: what config/network allows and denies is shown with real connections.
//
//	err := netpol.Enforce(ctx, config, func(ctx context.Context, rules string) error { … nft -f … })
//
//	rules.go    what policies, pods and namespaces mean, as text for nft(8)
//	enforce.go  watches them, and has the text loaded when it changes
//
// Addresses are checked behind Services, as most networks do: a Service's port does not
// matter, that of its pods does. What is refused is rejected at once, where most networks are silent:
// that is faster to test. The node reaches every pod, and connections that are open stay so.
// A new pod is without rules until its address is in its status.
//
// Named ports and IPv6 are not supported, and the policy that has them is named in an error.
// It is not for production code.
package netpol
