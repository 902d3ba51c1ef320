// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package factory builds the executors of Plugins that do not run as a process of the
// operator.
//
//	Builder.Build      Plugin → its actions, each with its executor
//	Builder.Endpoint   Plugin → its endpoint, if the Plugin announces its actions there
//
// Each executor has a file here that translates its part of the Plugin (job.go, podexec.go,
// webhook.go, builtin.go, grpc.go), and a package that does the work (internal/executor/…,
// internal/plugin/host). No field of a Backup or Restore becomes part of commands, addresses
// or names.
//
// # Namespaces
//
// An action may touch only the namespaces that its Backup or Restore includes (namespaces.go). A
// user who may create a Backup of one namespace must not be able to run commands in the pods of
// another. A Restore includes namespaces by their names in the backup; if it maps them, their
// target names count. It includes only namespaces that the backup contains: the Restore records
// them in its status when it reads the backup.
package factory
