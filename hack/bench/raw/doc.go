// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package raw does with plain HTTP requests the least that a backup or a restore
// has to do: what it measures is what the API server and the disk allow.
//
//	client.go  HTTP with the credentials of a kubeconfig, and nothing else
//	list.go    reading all objects: paged LISTs, piped through gzip
//	run.go     one small backup: create, status patches, LISTs, files
//	send.go    one request for each object: what a restore cannot do without
//	call.go    gRPC calls to another process: what calls to a plugin cost at least
//
// Its results are printed as JSON by hack/bench/limit, a program of its own, so
// that nothing of the benchmark shares its memory or its collector.
package raw
