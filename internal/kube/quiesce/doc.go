// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quiesce connects internal/quiesce to a cluster through the client of the operator.
// Its tests quiesce real workloads, with a real API server and its controllers.
//
//	New           client → Quiescer
//	AddToScheme   registers the kinds that the client needs
package quiesce
