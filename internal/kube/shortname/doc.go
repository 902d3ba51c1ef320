// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shortname shortens names where Kubernetes allows fewer characters than
// for the name of an object: a label value has at most 63, and a name that consists of
// several other names is soon too long for an object.
//
// A name is truncated and ends with a hash. It is therefore always the same for the same
// object, and different for different objects. [LabelValue] is used for every label that names an
// object, on HookRuns as well as on restored objects; [ChildName] is for names of objects.
//
// It is pure and does not depend on the kinds of Grapnel.
package shortname
