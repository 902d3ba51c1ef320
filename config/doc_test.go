// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config has no code: its directory has the manifests that install Grapnel,
// and its tests install them into a real API server and check what they allow.
//
//   - crd: the kinds, generated from api/v1alpha1
//   - rbac: the operator's account and its rights; role.yaml is generated from
//     the markers of the controllers
//   - policy: what other accounts may not do with Grapnel's objects, and the operator not with
//     theirs, whatever RBAC allows
//   - network: the traffic to and from the operator
//   - manager: the operator's Deployment
//   - base: all of them, with the namespace
//   - components: additions to the base, one each
//   - default, overlays: the base with components, for most users
//   - samples: objects that users write, with comments
//   - health: health checks of Argo CD and Flux for Grapnel's kinds; test/health tests them
//
// The tests, from the cheap ones to a whole lifecycle:
//
//	manifests_test.go      every overlay and component is built; what pods must not have
//	network_test.go        the network policies select the intended pods
//	monitoring_test.go     Prometheus finds the metrics; test/monitoring tests the alerts
//	reasons_test.go        every right has its reason in docs/installation.md
//	shell_test.go          running the commands of the document; which kubectl make uses
//	samples_test.go        the samples are valid, and an operator works with them
//	installations_test.go  every overlay and component is applied, one over the other
//	config_test.go         config/default, and what policies and roles allow: rights_test.go,
//	                       limits_test.go, backups_test.go, asyncoperations_test.go
//	moves_test.go          the store moves to another volume, and to a bucket
//	life_test.go           upgrade_test.go and back, fewer rights and uninstall_test.go, with a
//	                       running operator that has the rights of its account only
package config
