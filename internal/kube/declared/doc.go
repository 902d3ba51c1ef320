// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package declared makes what runs the actions of Plugins that have no program next to the
// operator.
//
//	Builder.Build      Plugin → its actions, each with the executor that runs it
//	Builder.Endpoint   Plugin → where it is served, for one that announces its actions there
//
// Each executor has a file here that translates its part of the Plugin (job.go, podexec.go,
// webhook.go, builtin.go, grpc.go), and a package that does the work (internal/executor/…,
// internal/quiesce, internal/plugin/endpoint). Nothing of a Backup or Restore goes into commands, addresses or names.
package declared
