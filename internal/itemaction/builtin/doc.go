// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builtin lists the item actions that are part of Grapnel and make an
// archive complete: the objects that an included one cannot do without come
// along. Each action is a package of its own below this one.
//
//	pvc             PersistentVolumeClaim → its PersistentVolume
//	pod             Pod → its claims and PriorityClass
//	serviceaccount  ServiceAccount → ClusterRoleBindings that name it, their ClusterRoles
//	crd             custom resource → its CustomResourceDefinition
//
// They change no object.
package builtin
