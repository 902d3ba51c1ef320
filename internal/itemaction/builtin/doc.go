// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builtin lists the item actions of Grapnel that make an archive complete: they add
// the objects that an included object requires. Each action is a separate package below
// this one.
//
//	pvc             PersistentVolumeClaim → its PersistentVolume
//	pod             Pod → its claims and PriorityClass
//	serviceaccount  ServiceAccount → ClusterRoleBindings that name it, their ClusterRoles
//	crd             custom resource → its CustomResourceDefinition
//
// They do not change objects.
package builtin
