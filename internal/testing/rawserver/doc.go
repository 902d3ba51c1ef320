// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rawserver is a server of bare connections, for tests of clients that meet what is no
// server of theirs: one that hangs up, says nothing, or speaks something else.
//
//	address := rawserver.Listen(t, "tcp", "127.0.0.1:0", func(conn net.Conn) { ... })
//
// It is not for production code.
package rawserver
