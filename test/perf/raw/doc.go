// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package raw does the minimum of a backup or a restore with plain HTTP
// requests: it measures what the API server and the disk allow.
//
//	client.go  HTTP with the credentials of a kubeconfig, and nothing else
//	list.go    reading all objects: paged LISTs, piped through gzip
//	run.go     one small backup: create, status patches, LISTs, files
//	send.go    one request for each object: the minimum of a restore
//	call.go    gRPC calls to another process: the minimum cost of calls to a plugin
//
// test/perf/limit, a separate program, prints its results as JSON, so
// that the benchmark does not share its memory or garbage collector.
package raw
