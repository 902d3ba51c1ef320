// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package smoke checks that a cluster is one: that a Deployment, a Job, logs, exec,
// Services, names, volumes and a webhook behind a Service work. A failure here is the
// cluster's; what fails only in test/e2e is Grapnel's.
//
//	bin/e2e/e2e smoke
//
// Everything lies in the namespace [Namespace], but for the configuration of the webhook,
// and is deleted at the end.
package smoke
