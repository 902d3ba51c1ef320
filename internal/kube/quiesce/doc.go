// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quiesce lets internal/quiesce work on a cluster through the client of the operator.
// Its tests have real workloads quiesced, by a real API server and its controllers.
//
//	New           client → Quiescer
//	AddToScheme   what the client has to know
package quiesce
