// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mover is the controller for DataMoves: it copies the files of claims. The action
// example.io/move of the plugin creates DataMoves; this program knows nothing about
// backups.
//
//	mover -data DIR -store DIR [-pause 100ms] [-kubeconfig FILE]
//
//	main.go     the program
//	reconcile.go  the reconciliation of one DataMove
//
// It keeps no state in memory: it may be stopped at any time, and resumes where it was.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/grapnel-dev/grapnel/test/exampleplugin/datamove"
)

func main() {
	m := &mover{}
	flag.StringVar(&m.data, "data", "", "the `directory` with the files of claims in directories namespace/claim")
	flag.StringVar(&m.store, "store", "", "the `directory` to move them to, in directories with the UIDs of DataMoves")
	flag.DurationVar(&m.pause, "pause", time.Millisecond, "the `time` between two files")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := runManager(m); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runManager(m *mover) error {
	if m.data == "" || m.store == "" || m.pause <= 0 {
		return fmt.Errorf("set -data and -store, and a -pause above zero")
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: datamove.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := m.setupWithManager(manager); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
