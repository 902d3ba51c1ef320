// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultproxy stands between a program and a server that it talks HTTP to, and
// disturbs the requests without ending either of them.
//
//	p := faultproxy.New(t, plane.Config().Host, transport)
//	p.Decide(func(r *faultproxy.Request) faultproxy.Fault { ... }) // one request
//	p.Partition(faultproxy.Hang)                                    // all of them
//	p.Heal()
//	p.HoldWatches()                                                 // caches lag
//
// A [Fault] delays one request, answers it with a status, loses it or its answer, or
// cuts the answer. A partition loses all of them until it is healed. While watches are
// held, the program sees its own writes answered and no event of them.
//
// A program that uses the server's URL is given that of the proxy. One that must keep
// a URL for signatures or because several programs share it is given the proxy as
// HTTP_PROXY: the proxy forwards every request to its own server.
//
// It is for tests only.
package faultproxy
