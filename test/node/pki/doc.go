// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates of a throw-away cluster: one [Authority], which
// lives in memory until its certificate is written somewhere, and [Pair]s of a
// certificate and its key that it signs.
//
//	authority, err := pki.NewAuthority("cluster")
//	...
//	pair, err := authority.Issue(pki.Subject{CommonName: "server", Names: []string{"localhost"}})
//	...
//	err = pair.Write(dir, "server") // server.crt and server.key
//
// Everything is ECDSA P-256 in PEM, and valid for a day: a cluster that outlives that
// is no longer one to throw away. It is not for production code.
package pki
