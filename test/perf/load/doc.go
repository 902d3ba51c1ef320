// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load fills a cluster with the objects that the benchmark backs up.
//
//	mix.go     which kinds there are, how often, and in which namespace
//	kinds.go   what one object of each kind looks like
//	create.go  creating them in parallel
//
// An object depends only on its number, so that every run measures the same
// bytes. Nothing here needs a controller. The cluster must have none, because
// Deployments would otherwise become additional ReplicaSets and Pods.
package load
