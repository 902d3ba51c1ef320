// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoint makes calls to plugins that run somewhere else, in a sidecar or behind a
// Service, and serve the protocol at an address (package serve, Listen). It is to them what
// package process is to plugins that the operator starts: an [Endpoint] has the methods of
// a process.Process, and the same errors.
//
//	Endpoint    what callers use: one address, connected to when it is needed
//	connecting  one attempt to connect, which serves all that wait for it
//	session     one connection with the calls that are open on it
//	transport   TLS of a connection; notes what goes wrong, for explain
//	explain     says in words why there is no connection
//	follow      asks for the lines that the plugin logs, and again if they end before the session
//	logs        hands them to the calls they belong to
//
// A session is one connection, and never more: gRPC is kept from connecting again by
// itself. So every connection is made with credentials that were just read, and asked by
// Config.Verify what there is at its other end, before it gets a call. When a session ends,
// by itself or because the server says that it stops, the calls that are open on it go on
// if they can, and the next call gets a new one. A name with several addresses is resolved
// for every session, and its addresses are tried in turn. Attempts that fail are repeated
// with the back-off of gRPC, by the calls that come: nothing is done while nobody calls.
//
// The log of a call travels over a stream of its own (grapnel.plugin.v1.PluginLog), one per
// session, and not with the answer: what a call has logged that ran into its deadline is
// there, too. When that stream ends and the session does not, the next call asks for another
// one; the lines of calls that are open stay where the plugin runs. Some servers have no such
// stream. Their plugins log where they run.
//
// A call of which the status is Unavailable counts as lost, whoever said so: a proxy that
// says it for a server that is gone cannot be told from a server. Plugins built with the
// SDK never answer so.
//
// It is NOT aware of what a plugin provides, as package process is not. It does not look
// after the plugin either: Config.OnLost says that somebody else should.
package endpoint
