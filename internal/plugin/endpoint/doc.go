// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoint makes calls to plugins that run elsewhere, in a sidecar or behind a
// Service, and serve the protocol at an address (package serve, Listen). It is the
// counterpart of package process, which is for plugins that the operator starts: an
// [Endpoint] has the methods of a process.Process and returns the same errors.
//
//	Endpoint    the API for callers: one address, with connections on demand
//	connection  one attempt to connect, shared by all callers that wait for it
//	session     one connection with its open calls
//	transport   TLS of a connection; records failures for diagnosis
//	diagnosis   explains why there is no connection
//	logretry    follows the log of the plugin, and again if it ends before the session
//	logstream   sends its lines to the calls they belong to
//
// A session is exactly one connection: gRPC is prevented from reconnecting by itself. Every
// connection uses credentials that were just read, and Config.Verify checks the server
// before any call. When a session ends, by itself or because the server stops, its open
// calls continue if possible, and the next call gets a new session. A name with several
// addresses is resolved for every session, and its addresses are tried in turn. Later calls
// retry failed attempts with the back-off of gRPC: without calls, no attempt is made.
//
// The log of calls is sent over a separate stream (grapnel.plugin.v1.PluginLog), one per
// session, and not with the response: this way, the lines of a call that exceeded its
// deadline also arrive. When that stream ends before the session, the next call opens another
// one; later lines of open calls are only in the plugin's own log. Some servers have no such
// stream. Their plugins log only where they run.
//
// A call with the status Unavailable counts as lost, regardless of its origin: a proxy that
// returns it for a missing server cannot be distinguished from a server. Plugins built with
// the SDK never return it.
//
// Like package process, it does not know what a plugin provides. It does not reload the
// plugin either: it calls Config.OnLost.
package endpoint
