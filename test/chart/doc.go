// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart compares the Helm chart in charts/grapnel with the kustomizations in config.
//
// It is a separate module so that Grapnel does not depend on Helm. Each directory below testdata is one
// installation, written twice: values.yaml for the chart, and kustomization.yaml. Both have to result in
// the same objects. The only differences are those that allowDifferences removes.
//
//	installations_test.go  the comparison
//	values_test.go         values that are refused, the notes, the package, and the values in the documents
//	release_test.go        Helm installs, upgrades, adopts and uninstalls on a real API server
package chart
