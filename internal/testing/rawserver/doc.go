// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rawserver is a server of plain connections, for tests of clients that connect to the
// wrong server: one that closes the connection, sends nothing, or speaks another protocol.
//
//	address := rawserver.Listen(t, "tcp", "127.0.0.1:0", func(conn net.Conn) { ... })
//
// It is not for production code.
package rawserver
