// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs plugin binaries as child processes and makes calls to
// them.
//
//	Spawner     starts children from one OS thread, so that they die with us
//	runner      one child: start, watch, kill with its process group
//	instance    one child that completed the handshake: a gRPC connection
//	conn        that connection, as one call sees it: what did the child say itself
//	Process     what callers use: one binary, restarted when it is needed
//	router      sorts the lines of a child's log to the calls they belong to
//
// Callers build a [Process] from a [Config] and use Do for every call. Do starts
// the child if there is none, bounds the call, routes what the child logs, and
// says in the terms of this package ([StartError], [LostError]) what went wrong
// around the call. A start outlasts the call that began it, up to Config.StartTimeout, and
// serves those that come later. A binary that cannot be started, or that dies again and again,
// is not started more often than a back-off allows. One that uses too much memory is
// ended (docs/adr/0007-plugins-that-leak.md).
//
// A child built with Grapnel's SDK says when the log lines of a call are complete, so
// that a call is known to have ended that nobody waits for any more. Others do not say
// it: their lines go to the run that is alone at work, and a child that let a call run
// into its deadline is replaced as soon as no other call is open.
//
// No child outlives its Process, no Process its Spawner and, on Linux, no child
// this program: the kernel kills it when the Spawner's thread ends. The only
// exception are grandchildren of a plugin when this program itself is killed;
// in a container they end with it.
//
// It is NOT aware of what a plugin provides: which services it serves and what
// their messages mean is the business of packages adapter and catalog. It is the
// only package outside sdk that imports go-plugin.
package process
