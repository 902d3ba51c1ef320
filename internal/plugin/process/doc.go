// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs plugin binaries as child processes and makes calls to
// them.
//
//	Spawner       starts children from one OS thread, so that they die with the operator
//	childProcess  one child: start, watch, kill with its process group
//	instance      one child that completed the handshake: a gRPC connection
//	callConn      that connection for one call: which statuses are the child's own
//	Process       the API for callers: one binary, restarted on demand
//	logRouter     routes the lines of a child's log to the calls they belong to
//
// Callers build a [Process] from a [Config] and use Begin for every call. Begin starts the child if
// there is none, and the [OpenCall] routes the log of the child and returns failures around the
// call as errors of this package ([StartError], [LostError]). A start outlasts the call that
// began it, up to Config.StartTimeout, and serves later calls. A binary that cannot be
// started, or that dies repeatedly, is restarted with back-off. A child that uses too much
// memory is killed (docs/adr/0007-plugins-that-leak.md).
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
// It does not know what a plugin provides: packages client and catalog handle its services
// and messages. It is the only package outside sdk that imports go-plugin.
package process
