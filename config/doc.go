// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config holds no code: its folder has the manifests that install Grapnel,
// and its tests install them into a real API server and ask it what the policies
// allow.
//
//   - crd: the kinds, generated from api/v1alpha1
//   - rbac: the operator's account and what it may do; role.yaml is generated from
//     the markers of the controllers
//   - policy: what others may not do with Grapnel's objects, whatever RBAC says
//   - manager: the operator's Deployment
//   - default: all of them, with the namespace and the volume of the store
//   - samples: what people write, with comments
package config
