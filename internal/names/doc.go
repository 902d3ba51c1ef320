// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package names makes and checks names that Kubernetes or other tools restrict.
//
// A label value has at most 63 characters, fewer than the name of an object, and a name that
// consists of several other names is soon too long for an object. [LabelValue] is used for every
// label that names an object, on HookRuns as well as on restored objects; [ChildName] is for names
// of objects. A name that is too long is truncated and ends with a hash. It is therefore always the
// same for the same object, and different for different objects.
//
// Tools that deploy from a repository, or apply sets of manifests, recognize their own objects by
// labels and annotations, and delete an object with such a mark that is not in their manifests. An
// object that the operator creates must therefore never have one, wherever its labels come from: the
// template of a Schedule that a chart renders, or a backup of another operator, which copied them
// from its schedule (velero-io/velero#2975). [WithoutTrackingKeys] omits them: all keys of the
// domains of such tools, and a few others. Two of these are recommended labels of Kubernetes:
// app.kubernetes.io/instance, which Argo CD uses by default, and app.kubernetes.io/managed-by, which
// Helm and Config Sync use, and which would not be true of what the operator creates.
//
// The package is pure and does not depend on the kinds of Grapnel.
package names
