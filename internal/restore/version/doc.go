// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version decides in which API version the objects of a resource are
// restored, when a backup holds them in several.
//
// [Choose] is a pure function of what the archive holds, what the cluster
// serves and what the user prefers, all of it for one resource. The rules, the
// first that finds a version wins:
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
// Velero has the same rules with two differences. It asks whether the cluster
// serves the group, not this resource, in a version; and its search for a
// common version passes over the first of either list, whichever that is, and
// so misses common versions and fails on archives without versions.
//
// [ParsePriorities] reads the user's priorities as Velero's ConfigMap
// "enableapigroupversions" has them, and says which lines it could not use.
//
// The package knows no cluster and no archive.
package version
