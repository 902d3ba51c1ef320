// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops identifies the labels and annotations by which tools that deploy from a
// repository, or apply sets of manifests, recognize their own objects.
//
// Such a tool deletes objects that have its tracking key and are not in its manifests. An object
// that the operator creates must therefore never have one, whatever the source of its labels: the
// template of a Schedule that a chart renders, or a backup of another operator,
// which copied them from its schedule (velero-io/velero#2975).
//
// The package filters all keys in the domains of such tools, and a few other keys. Two of these are
// recommended labels of Kubernetes: Argo CD tracks objects by app.kubernetes.io/instance by
// default, and app.kubernetes.io/managed-by is set by Helm and Config Sync, and would be wrong on
// objects that the operator creates.
//
// It is pure and does not depend on the kinds of Grapnel.
package gitops
