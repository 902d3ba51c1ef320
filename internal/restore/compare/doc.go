// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compare determines whether an object in a cluster equals the restored form of the
// archived one, and computes the patch that makes it equal. It has no side effects.
//
// The restored object lacks what its new cluster sets, so two objects are never equal field
// by field. Ignored are:
//
//   - status, and all metadata except labels and annotations: owners, finalizers and
//     managers of an object belong to the cluster, also when it is updated;
//   - labels and annotations that restores and controllers set themselves;
//   - a field that the cluster has and the restored object lacks, if the archived one had
//     it: an action removed it for the cluster to set (cluster IPs, node ports, selectors
//     of Jobs);
//   - a few fields that are set later (the volume of a claim, the claim of a volume, CA
//     bundles);
//   - null, empty lists and empty objects, which mean the same as no field.
//
// Any other field that only the cluster has is a difference: the restore removes it.
package compare
