// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"net"
	"testing"
)

// ServeRaw is a server of plain connections, for tests of clients that connect to the wrong server:
// one that closes the connection, sends nothing, or speaks another protocol. It calls handle for
// every connection, one after the other, and then closes the connection, until the test ends. handle
// must have returned by then. ServeRaw returns the address at which it listens.
func ServeRaw(t *testing.T, network, address string, handle func(net.Conn)) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			handle(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}
