// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package platform leaves out objects that the control plane of every cluster
// makes and keeps up to date by itself. Creating them is impossible, because
// they exist, and updating them from an archive would take a cluster back to
// the certificates or the roles of another one, perhaps of an older version:
//
//	ConfigMap                    kube-root-ca.crt; in kube-system also
//	                             extension-apiserver-authentication and
//	                             kube-apiserver-legacy-service-account-token-tracking
//	Role, ClusterRole, bindings  with kubernetes.io/bootstrapping: rbac-defaults, unless
//	                             rbac.authorization.kubernetes.io/autoupdate is "false":
//	                             then they are the user's
//	PriorityClass                system-cluster-critical, system-node-critical
//	FlowSchema, PriorityLevelConfiguration  with apf.kubernetes.io/autoupdate-spec: "true"
//	Service, Endpoints, EndpointSlice       kubernetes in default
//	ServiceCIDR                  kubernetes
//
// The ServiceAccount default, which every namespace has too, is not among them:
// people add pull secrets to it. The engine merges it, see package
// serviceaccount.
//
// Also left out is what config/ installs of Grapnel, by its label app.kubernetes.io/name=grapnel:
// roles of another time would take from the operator, in the middle of the Restore, the
// rights that it restores with, and its Deployment would end it. And the ConfigMaps in which
// Grapnel notes which backups of a location it has seen: those of another time have removed
// backups come back, or others never appear.
//
// A ConfigMap or Endpoints that served as a lock for a leader election is
// restored without its holder.
package platform
