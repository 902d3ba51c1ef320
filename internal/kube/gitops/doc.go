// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops knows by which labels and annotations tools that deploy from a
// repository, or apply sets of manifests, recognise their own objects.
//
// Such a tool removes what carries its mark and is not in its manifests. So an object
// that the operator creates must never carry one, wherever its labels come from: the
// template of a Schedule that a chart renders, or a backup that another operator wrote,
// which copied them from its schedule (velero-io/velero#2975).
//
// Left out are all keys of the domains of such tools, and a few keys of others. Two of
// these are recommended labels of Kubernetes: app.kubernetes.io/instance is what Argo CD
// goes by unless it is told otherwise, and app.kubernetes.io/managed-by is a mark of Helm
// and of Config Sync, and would not be true of what the operator creates.
//
// It is pure and knows none of our kinds.
package gitops
