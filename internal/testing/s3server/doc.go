// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package s3server starts the S3 server for tests (module test/s3server) as a separate
// process on a free port of the loopback interface.
//
// Tests use [Start], which stops the server with the test; programs such as benchmarks use
// [StartWithContext]. The first use on a machine builds the server into the repository's bin directory;
// later uses rebuild it only if its source changed.
//
// It is for tests and benchmarks only, and needs the source tree and Go.
package s3server
