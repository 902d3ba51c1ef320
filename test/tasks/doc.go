// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tasks performs what people do most with the command line, each with one command, against an operator on
// a real API server, as users who have the roles of config/rbac/people and no right on pods or Secrets.
package tasks
