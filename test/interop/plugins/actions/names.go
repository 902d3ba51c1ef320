// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package actions

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
)

// The registered names. One that ends in Both is registered in versions 1 and 2.
const (
	BackupV1       = "interop.example.io/backup-v1"
	BackupV2       = "interop.example.io/backup-v2"
	BackupBoth     = "interop.example.io/backup-both"
	BackupUnusable = "interop.example.io/backup-unusable"
	RestoreV1      = "interop.example.io/restore-v1"
	RestoreV2      = "interop.example.io/restore-v2"
	RestoreBoth    = "interop.example.io/restore-both"
	Delete         = "interop.example.io/delete"
	DeleteToo      = "interop.example.io/delete-too"
	Directory      = "interop.example.io/directory"
	DirectoryToo   = "interop.example.io/directory-too"
	Snapshots      = "interop.example.io/snapshots"
	Block          = "interop.example.io/block" // only since v1.18
)

// UnusableVariable is the environment variable that adds BackupUnusable, an action
// that cannot be created. It is not there otherwise because a backup asks all actions.
const UnusableVariable = "INTEROP_UNUSABLE"

// actionSelectors says which objects the actions want. Names that are not here want all.
func actionSelectors() map[string]velero.ResourceSelector {
	configMaps := velero.ResourceSelector{IncludedResources: []string{"configmaps"}}
	every := velero.ResourceSelector{
		IncludedNamespaces: []string{"shop-*", "interop"}, ExcludedNamespaces: []string{"kube-system"},
		IncludedResources: []string{"deployments.apps", "pods"}, ExcludedResources: []string{"events"},
		LabelSelector: "app=shop,tier!=cache",
	}
	return map[string]velero.ResourceSelector{
		BackupV1: configMaps, RestoreV1: configMaps, Delete: configMaps,
		BackupBoth: every, RestoreBoth: every, DeleteToo: every,
	}
}

// Register adds everything to a server, and the flags that Velero hands to plugins.
func Register(server framework.Server) framework.Server {
	server = server.BindFlags(pflag.CommandLine)
	for _, name := range []string{BackupV1, BackupBoth} {
		server = server.RegisterBackupItemAction(name, newHandlerInitializer(func(log logrus.FieldLogger) any { return NewBackupV1(name, log) }))
	}
	for _, name := range []string{BackupV2, BackupBoth} {
		server = server.RegisterBackupItemActionV2(name, newHandlerInitializer(func(log logrus.FieldLogger) any { return NewBackupV2(name, log) }))
	}
	for _, name := range []string{RestoreV1, RestoreBoth} {
		server = server.RegisterRestoreItemAction(name, newHandlerInitializer(func(log logrus.FieldLogger) any { return NewRestoreV1(name, log) }))
	}
	for _, name := range []string{RestoreV2, RestoreBoth} {
		server = server.RegisterRestoreItemActionV2(name, newHandlerInitializer(func(log logrus.FieldLogger) any { return NewRestoreV2(name, log) }))
	}
	for _, name := range []string{Delete, DeleteToo} {
		server = server.RegisterDeleteItemAction(name, newHandlerInitializer(func(log logrus.FieldLogger) any { return NewDelete(name, log) }))
	}
	for _, name := range []string{Directory, DirectoryToo} {
		server = server.RegisterObjectStore(name, newHandlerInitializer(func(logrus.FieldLogger) any { return NewDirectory() }))
	}
	if os.Getenv(UnusableVariable) != "" {
		server = server.RegisterBackupItemAction(BackupUnusable, func(logrus.FieldLogger) (any, error) {
			return nil, errors.New("the licence of this action has expired")
		})
	}
	return server.RegisterVolumeSnapshotter(Snapshots, newHandlerInitializer(func(logrus.FieldLogger) any { return snapshotter{} }))
}

// creationTime is how long it takes to create an action: others make a client for the
// cluster meanwhile.
const creationTime = 20 * time.Millisecond

// newHandlerInitializer returns what the framework calls to create one action, when the action is
// first called. The framework has no lock for that: if two first calls come at the same
// time it creates the action twice, or dies. Here the second creation fails.
func newHandlerInitializer(action func(logrus.FieldLogger) any) func(logrus.FieldLogger) (any, error) {
	var created atomic.Bool
	return func(log logrus.FieldLogger) (any, error) {
		if created.Swap(true) {
			return nil, errors.New("two calls at once were the first ones of the action")
		}
		<-time.After(creationTime)
		return action(log), nil
	}
}
