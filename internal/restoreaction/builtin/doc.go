// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builtin lists the restore item actions that are part of Grapnel. Each
// is a package of its own below this one, named after the kind it is about; its
// documentation says what becomes of such an object and why.
//
//	platform        what every control plane makes by itself is left out
//	namespace       kube-system and its like are left out
//	apiservice      those the API server registers are left out
//	crd             definitions of v1beta1 are made acceptable to v1
//	endpoints       those a controller makes are left out
//	job             finished ones are left out; the selector is made anew
//	pod             ended and replaced ones are left out; node, priority, token volume
//	pv              which volumes come back, and which are an error
//	pvc             finds the volume with its data, or waits for it
//	quiesced        a warning about workloads that come back stopped
//	rolebinding     subjects follow the mapping of namespaces
//	secret          tokens of ServiceAccounts
//	service         cluster IPs, node ports, IP families
//	serviceaccount  generated token Secrets; Merge
//	webhook         side effects; called Services follow the mapping
//
// Objects whose owners adopt them again (ReplicaSets, ControllerRevisions, Pods
// of both) and Jobs of CronJobs are restored like any other, without owners.
package builtin
