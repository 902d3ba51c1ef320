// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shortname makes names fit where Kubernetes allows fewer characters than
// for the name of an object: a label's value has 63, and what is named after
// several things soon is too long for anything.
//
// A name is cut and ends with a hash, so that it is always the same for the same
// thing, and another for another. [Label] is what every label has that names an
// object, on HookRuns as on restored objects; [Of] is for names of objects.
//
// It is pure and knows none of our kinds.
package shortname
