// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package host opens connections to plugins and makes calls on them. A [Process] runs a binary as a
// child process; an [Endpoint] connects to a plugin that runs elsewhere, in a sidecar or behind a
// Service, and serves the protocol at an address (package serve, Listen). Both are a [Connection].
//
// Begin opens a call, and starts the child or connects if necessary. The [OpenCall] has the
// connection for exactly one gRPC call, routes the log of the plugin, and returns failures around
// the call as errors of this package ([StartError], [LostError]). A start, or an attempt to connect,
// outlasts the call that began it and serves later calls. Both are retried with back-off.
//
// The package does not know what a plugin provides: packages client and catalog handle its services
// and messages. It is the only package outside sdk that imports go-plugin.
//
// # Processes
//
//	Spawner       starts children from one OS thread, so that they die with the operator
//	childProcess  one child: start, watch, kill with its process group
//	instance      one child that completed the handshake: a gRPC connection
//	callConn      that connection for one call: which statuses are the child's own
//	Process       the API for callers: one binary, restarted on demand
//	logRouter     routes the lines of a child's log to the calls they belong to
//
// A child that uses too much memory is killed (docs/adr/0007-plugins-that-leak.md).
//
// A child built with Grapnel's SDK marks the end of the log lines of a call, which also
// shows that an abandoned call has ended. Other children do not: their lines go to the run
// if it is the only active one, and a child with a call that exceeded its deadline is
// replaced as soon as no other call is open.
//
// No child outlives its Process, no Process outlives its Spawner and, on Linux, no child
// outlives this program: the kernel kills it when the Spawner's thread ends. The only
// exceptions are grandchildren of a plugin when this program itself is killed; in a
// container they end with it.
//
// # Endpoints
//
//	Endpoint         the API for callers: one address, with connections on demand
//	connect          one attempt to connect, shared by all callers that wait for it
//	endpointSession  one connection with its open calls
//	transport        TLS of a connection; records failures for diagnosis
//	diagnosis        explains why there is no connection
//	logretry         follows the log of the plugin, and again if it ends before the session
//	logStream        sends its lines to the calls they belong to
//
// A session is exactly one connection: gRPC is prevented from reconnecting by itself. Every
// connection uses credentials that were just read, and EndpointConfig.Verify checks the server
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
// the SDK never return it. An Endpoint does not reload its plugin: it calls EndpointConfig.OnLost.
package host
