// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package s3 is an object store in a bucket of Amazon S3 or of a server that
// speaks its protocol.
//
// A Put of unknown size reads one part (16 MiB) first. What fits into it is
// sent as one request; a longer stream becomes a multipart upload, of which at
// most three parts are in memory, and which is aborted if anything fails. Each
// request carries digests that the server checks, and the stored size is
// compared afterwards. Every object gets a random mark in its metadata, by
// which a Put whose reply was lost recognizes its own work: without it, the
// retry of a conditional write would find "somebody else's" object.
//
// Put with IfAbsent uses conditional writes (If-None-Match: *). Servers exist
// that ignore that header without a word, so the first such Put is sent twice:
// a server that accepts the second one does not know conditional writes.
//
// A connection on which no byte moves for a minute while a request is under way is
// closed, and a call of which a request stalls twice in a row fails with
// objectstore.ErrStalled. The request that has the server make an object of parts may
// stall ten times, and a look at the object decides then: from the last byte of an object
// to the end of its Put are at most 15 minutes in a server that has stopped for good.
//
// A Get that breaks off in the middle continues where it stopped.
//
// Buckets are not created, and their lifecycle rules, versions and locks are
// left alone.
package s3
