// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package action prepares archived objects for another cluster.
//
// CopyForRestore removes from every object what is meaningful only in its old cluster. The
// built-in restore item actions handle what is special to a kind, each in a file of its name; the
// documentation of its type describes how such objects are restored and why.
//
//	platform        skips what every control plane creates itself
//	namespace       skips kube-system and similar namespaces
//	apiservice      skips those that the API server registers
//	crd             converts definitions of v1beta1 to v1
//	endpoints       skips those that a controller creates
//	job             skips finished ones; the selector is recreated
//	pod             skips ended and replaced ones; node, priority, token volume
//	pv              which volumes are restored, and which are an error
//	pvc             binds to the volume with its data, or waits for it
//	quiesced        warns about workloads that are restored stopped
//	rolebinding     subjects follow the namespace mapping
//	secret          tokens of ServiceAccounts
//	service         cluster IPs, node ports, IP families
//	serviceaccount  generated token Secrets; merges into an existing account
//	standby         Schedules are restored suspended, locations read-only
//	webhook         side effects; called Services follow the mapping
//
// Two more are called only if ConfigMaps of the installation configure them, and not for existing
// objects:
//
//	imagename       replaces parts of the names of images
//	storageclass    changes the storage class of claims and volumes
//
// Objects that their owners adopt again (ReplicaSets, ControllerRevisions, Pods of both)
// and Jobs of CronJobs are restored like any other, without owners.
package action
