// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compare decides whether an object in a cluster is what a restore
// would make of the archived one, and how to make it so. It is pure.
//
// The restored object lacks what its new cluster fills in, so two objects are
// never equal field by field. What does not count:
//
//   - status, and all metadata but labels and annotations: who owns, finalizes
//     or manages an object is the cluster's affair, also when it is updated;
//   - labels and annotations that restores and controllers set by themselves;
//   - a field that the cluster has and the restored object has not, if the
//     archived one had it: an action took it away for the cluster to fill in
//     (cluster IPs, node ports, selectors of Jobs);
//   - a few fields that are filled in later (the volume of a claim, the claim
//     of a volume, CA bundles);
//   - null, empty lists and empty objects, which mean the same as no field.
//
// Any other field that only the cluster has makes a difference: restoring means
// to take it away.
package compare
