// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package discovery determines which resource types a cluster serves and which of them a
// backup can contain.
//
// [Discover] queries the API server once, with two requests if it supports aggregated
// discovery, and returns a [Resources]: an immutable snapshot for one whole run, so that a
// CustomResourceDefinition installed meanwhile does not change the scope of the run. The
// snapshot contains
//
//   - the resources that can be archived, one version each, in the order in
//     which they are to be archived ([Resources].Preferred);
//   - all versions of them, for the feature EnableAPIGroupVersions
//     ([Resources].Versions);
//   - the API groups that did not answer ([Resources].Failed): an unavailable
//     extension API server is reported, and does not fail the backup;
//   - names: [Resources.Resolve] resolves user input ("po", "Deployment",
//     "deployments.apps").
//
// [Resources.FilterPreferred] applies a selection to it and takes care of resources that are
// served by two API groups but stored once.
//
// The package does not cache between runs and does not watch; it is not a
// RESTMapper for objects of arbitrary types.
package discovery
