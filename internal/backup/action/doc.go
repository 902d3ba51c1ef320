// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package action has the built-in item actions that make an archive complete: they add the
// objects that an included object requires. Each is in a file of its name.
//
//	pvc             PersistentVolumeClaim → its PersistentVolume
//	pod             Pod → its claims and PriorityClass
//	serviceaccount  ServiceAccount → ClusterRoleBindings that name it, their ClusterRoles
//	crd             custom resource → its CustomResourceDefinition
//
// They do not change objects.
package action
