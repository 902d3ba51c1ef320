// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package declared builds the executors of Plugins that do not run as a process of the
// operator.
//
//	Builder.Build      Plugin → its actions, each with its executor
//	Builder.Endpoint   Plugin → its endpoint, if the Plugin announces its actions there
//
// Each executor has a file here that translates its part of the Plugin (job.go, podexec.go,
// webhook.go, builtin.go, grpc.go), and a package that does the work (internal/executor/…,
// internal/quiesce, internal/plugin/endpoint). No field of a Backup or Restore becomes part of
// commands, addresses or names.
package declared
