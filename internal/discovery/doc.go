// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package discovery finds out which resource types a cluster serves and which
// of them a backup can contain.
//
// [Discover] asks the API server once, with two requests where it supports
// aggregated discovery, and returns a [Resources]: an immutable picture that is
// used for one whole run, so that a CustomResourceDefinition installed midway
// does not change what the run means. The picture contains
//
//   - the resources that can be archived, one version each, in the order in
//     which they are to be archived ([Resources].Preferred);
//   - all versions of them, for the feature EnableAPIGroupVersions
//     ([Resources].Versions);
//   - the API groups that did not answer ([Resources].Failed): one unavailable
//     extension API server is a fact to report, not a reason to back up
//     nothing;
//   - names: [Resources.Resolve] understands what people write ("po",
//     "Deployment", "deployments.apps").
//
// [Resources.Collect] applies a selection to it and takes care of resources
// that are served by two API groups but stored once.
//
// The package does not cache between runs and does not watch; it is not a
// RESTMapper for objects of arbitrary types.
package discovery
