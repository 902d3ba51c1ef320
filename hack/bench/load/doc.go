// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load fills a cluster with the objects that the benchmark backs up.
//
//	mix.go     which kinds there are, how often, and in which namespace
//	kinds.go   what one object of each kind looks like
//	create.go  creating them in parallel
//
// An object is made of its number alone, so that every run measures the same
// bytes. Nothing here needs a controller: the cluster must have none, or
// Deployments would become ReplicaSets and Pods that the load does not include.
package load
