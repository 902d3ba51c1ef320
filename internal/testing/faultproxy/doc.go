// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultproxy is a proxy between a program and an HTTP server. It injects faults
// into requests without stopping either of them.
//
//	p := faultproxy.New(t, plane.Config().Host, transport)
//	p.SetFaultInjector(func(r *faultproxy.Request) faultproxy.Fault { ... }) // one request
//	p.Partition(faultproxy.Hang)                                    // all of them
//	p.Heal()
//	p.HoldWatches()                                                 // caches lag
//
// A [Fault] delays one request, responds with a status, drops it or its response, or
// truncates the response. A partition blocks all requests until it is healed. While watches
// are held, the writes of the program succeed, but it sees no events of them.
//
// Give a program the URL of the proxy instead of the server's. If it must keep the URL for
// signatures, or because several programs share it, set the proxy as HTTP_PROXY: the proxy
// forwards every request to its own server.
//
// [ServeRaw] is for clients that connect to the wrong server: what answers is no HTTP server at all.
//
// It is for tests only.
package faultproxy
