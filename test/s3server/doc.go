// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command s3server is an S3 server for tests: buckets in memory, real
// signatures, conditional writes. It prints its URL as the first line on
// standard output, serves until standard input is closed, and stores nothing permanently.
//
//	s3server -addr 127.0.0.1:0 -bucket backups -access-key test -secret-key secret
//
// It is a separate module, so that its dependencies stay out of Grapnel's.
// Tests start it with package internal/testing/s3server.
//
// The protocol is that of github.com/johannesboyne/gofakes3. Added here: every
// request must carry a valid signature (version 4), and the completion of a
// multipart upload honors If-None-Match, as on Amazon. With
// -ignore-conditions it behaves like servers that do not know that header.
// Checksums of objects and parts are verified, and -require-checksum and
// -require-encryption deny what does not have them, as policies of buckets do.
package main
