// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version chooses the API version in which the objects of a resource are restored,
// if a backup contains several.
//
// [Choose] is a pure function of the archive, the resources that the cluster serves, and
// the preferences of the user, all for one resource. The first of these rules that finds a
// version applies:
//
//   - UserPriority: the first of the user's versions that the backup has and
//     the cluster serves;
//   - TargetPreferred: the version the cluster prefers, if the backup has it;
//   - SourcePreferred: the version the backup's cluster preferred, if the
//     cluster serves it;
//   - CommonVersion: the first version, in the order of Kubernetes (v2, v1,
//     v1beta1, v1alpha1, others), that both have;
//   - Fallback: the version the backup's cluster preferred. The resource may be
//     served later, by a CustomResourceDefinition that is restored; otherwise
//     its objects fail one by one, with the reason of the API server.
//
// Velero has the same rules with two differences. It checks whether the cluster serves the
// group, not this resource, in a version. Its search for a common version skips the first
// entry of both lists, so it misses common versions and fails on archives without versions.
//
// [ParsePriorities] parses the user's priorities in the format of Velero's ConfigMap
// "enableapigroupversions", and reports the invalid lines.
//
// The package does not access a cluster or an archive.
package version
