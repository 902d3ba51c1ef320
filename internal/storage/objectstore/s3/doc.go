// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package s3 is an object store in a bucket of Amazon S3 or of a server that
// speaks its protocol.
//
// A Put of unknown size first reads one part (16 MiB). Content that fits into one part is
// sent as one request. A longer stream becomes a multipart upload with at most three parts
// in memory, which is aborted if anything fails. Each request carries digests that the
// server checks (by default a Content-MD5), and the stored size is compared afterwards. Every object gets a random
// mark in its metadata, by which a Put whose reply was lost recognizes its own object.
// Without the mark, the retry of a conditional write would find an object of unknown
// origin.
//
// Put with IfAbsent uses conditional writes (If-None-Match: *). Some servers silently
// ignore that header, so the first such Put is sent twice: a server that accepts the second
// request does not support conditional writes.
//
// A connection that transfers no byte for a minute during a request is closed. A call fails
// with objectstore.ErrStalled when one of its requests stalls twice in a row. The request
// that completes a multipart upload may stall ten times; then a read of the object decides.
// On a server that has stopped answering, at most 15 minutes pass from the last byte of an
// object to the end of its Put.
//
// A Get that is interrupted in the middle continues from that offset.
//
// The package does not create buckets, and does not change their lifecycle rules, versions
// and locks.
package s3
