// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package platform skips objects that the control plane of every cluster creates and
// updates itself. They cannot be created, because they exist. An update from an archive
// would revert a cluster to the certificates or the roles of another one, perhaps of an
// older version:
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
// The ServiceAccount default, which every namespace has too, is not among them: users add
// pull secrets to it. The engine merges it, see package serviceaccount.
//
// Objects that config/ installs for Grapnel are also skipped, by their label
// app.kubernetes.io/name=grapnel: roles of another time would revoke the permissions of the
// operator during the Restore, and its Deployment would replace the operator. The
// ConfigMaps in which Grapnel records the backups of a location are also skipped: with
// those of another time, removed backups would reappear, or others would never appear.
//
// A ConfigMap or Endpoints used as a lock for a leader election is restored without its
// holder.
package platform
