// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package operator builds and runs the operator and the plugins below test/ as real
// processes against a control plane, for tests, the demonstration and the benchmark.
//
//	plane, err := controlplane.Start(ctx, controlplane.Options{CRDPaths: []string{"../../config/crd/bases"}})
//	...
//	programs, err := operator.BuildPrograms(ctx)
//	...
//	err = operator.CreateNamespace(ctx, c)
//	...
//	op, err := operator.Start(ctx, operator.Options{
//		Programs: programs, Kubeconfig: plane.KubeconfigPath(), Dir: dir,
//	})
//	...
//	defer op.Stop()
//
// The operator runs with the administrator's rights, takes filesystem locations relative to
// Dir/store and plugins, named "example" and "fault", from Dir/plugins. Start it again with
// the same Dir after [Operator.Kill] to test a restart.
//
// It is not for production code.
package operator
