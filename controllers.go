// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/discovery"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/controllers/asyncoperation"
	"github.com/grapnel-dev/grapnel/controllers/backup"
	"github.com/grapnel-dev/grapnel/controllers/backuppreview"
	"github.com/grapnel-dev/grapnel/controllers/backupsync"
	"github.com/grapnel-dev/grapnel/controllers/deletionrun"
	"github.com/grapnel-dev/grapnel/controllers/downloadrequest"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/controllers/plugin"
	quiescecontroller "github.com/grapnel-dev/grapnel/controllers/quiesce"
	"github.com/grapnel-dev/grapnel/controllers/restore"
	"github.com/grapnel-dev/grapnel/controllers/retention"
	"github.com/grapnel-dev/grapnel/controllers/schedule"
	"github.com/grapnel-dev/grapnel/controllers/storagelocation"
	"github.com/grapnel-dev/grapnel/internal/archive"
	backupengine "github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	clusterdiscovery "github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/executor/factory"
	"github.com/grapnel-dev/grapnel/internal/executor/job"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/lease"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	restoreengine "github.com/grapnel-dev/grapnel/internal/restore"
	retentionrules "github.com/grapnel-dev/grapnel/internal/retention"
	"github.com/grapnel-dev/grapnel/internal/scratch"
)

type reconciler interface {
	SetupWithManager(mgr ctrl.Manager) error
}

// controllerSetup holds what the controllers are built from.
type controllerSetup struct {
	lifecycle.Dependencies
	mgr      ctrl.Manager
	opts     options
	features []string
	plugins  *catalog.Catalog
	fence    *lease.Fence
	// scratch is the directory given by --scratch-dir; all controllers share its space.
	scratch *scratch.Dir
}

// setupControllers sets up every controller, in a fixed order: those that load what runs need, those
// of runs, those of what runs create, and those that look after Backups and workloads afterwards. The
// channels carry the names of Plugins that exited and of those whose binary changed.
func (p controllerSetup) setupControllers(ctx context.Context, exited, changed <-chan string) error {
	if err := retentionrules.IndexDeletionRuns(ctx, p.mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := registerObjectMetrics(p.Metrics, p.Client); err != nil {
		return fmt.Errorf("registering the metrics of objects: %w", err)
	}
	for _, c := range []struct {
		name string
		new  func() (reconciler, error)
	}{
		{"storagelocation", p.newStorageLocationReconciler},
		{"plugin", func() (reconciler, error) { return p.newPluginReconciler(exited, changed) }},
		{"backup", p.newBackupReconciler},
		{"backuppreview", p.newBackupPreviewReconciler},
		{"restore", p.newRestoreReconciler},
		{"deletionrun", p.newDeletionRunReconciler},
		{"hookrun", p.newHookRunReconciler},
		{"asyncoperation", p.newAsyncOperationReconciler},
		{"schedule", p.newScheduleReconciler},
		{"retention", p.newRetentionReconciler},
		{"backupsync", p.newBackupSyncReconciler},
		{"quiesce", p.newQuiesceReconciler},
		{"downloadrequest", p.newDownloadRequestReconciler},
	} {
		controller, err := c.new()
		if err == nil {
			err = controller.SetupWithManager(p.mgr)
		}
		if err != nil {
			return fmt.Errorf("setting up the controller %s: %w", c.name, err)
		}
	}
	return nil
}

// newStorageLocationReconciler builds the controller that checks BackupStorageLocations.
func (p controllerSetup) newStorageLocationReconciler() (reconciler, error) {
	return &storagelocation.Reconciler{
		Client: p.Client, Opener: p.Opener, Recorder: p.Recorder, Redactor: p.Redactor, Interval: p.opts.locationCheckInterval,
	}, nil
}

// newPluginReconciler builds the controller that loads Plugins.
func (p controllerSetup) newPluginReconciler(exited, changed <-chan string) (reconciler, error) {
	builder, err := p.newExecutorBuilder()
	return &plugin.Reconciler{
		Client: p.Client, Catalog: p.plugins, Builder: builder, Recorder: p.Recorder, Dir: p.opts.pluginDir, ProcessExits: exited, CatalogChanges: changed,
	}, err
}

// newRetentionReconciler builds the controller that deletes Backups that have expired.
func (p controllerSetup) newRetentionReconciler() (reconciler, error) {
	return &retention.Reconciler{Client: p.Client, Recorder: p.Recorder, Metrics: p.Metrics}, nil
}

// newDownloadRequestReconciler builds the controller of DownloadRequests, and adds the server that sends
// their files.
func (p controllerSetup) newDownloadRequestReconciler() (reconciler, error) {
	r := &downloadrequest.Reconciler{Client: p.Client, Reader: p.Reader, Now: p.Now}
	if p.opts.downloadAddress == "0" {
		return r, nil
	}
	r.Server = &downloadrequest.Server{
		Client: p.Client, Opener: p.Opener, Logs: p.Logs, Redactor: p.Redactor, Namespace: p.opts.namespace,
		Elected: p.mgr.Elected(), URL: p.opts.downloadURL, Now: p.Now,
	}
	listening, err := r.Server.Listen(p.opts.downloadAddress)
	if err != nil {
		return nil, err
	}
	return r, p.mgr.Add(listening)
}

// newExecutorBuilder returns the builder of executors. Its client bypasses the cache, because Secrets
// and workloads of the whole cluster should not be kept in memory.
func (p controllerSetup) newExecutorBuilder() (*factory.Builder, error) {
	cfg := p.mgr.GetConfig()
	live, err := p.newUncachedClient()
	if err != nil {
		return nil, err
	}
	pods, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating a client for the logs of pods: %w", err)
	}
	commands, err := podexec.NewRemote(cfg)
	if err != nil {
		return nil, err
	}
	return &factory.Builder{
		Client: live, Logs: job.NewLogs(pods), CommandRunner: commands, Recorder: p.Recorder,
		Quiescer: p.newQuiescer(live), Namespace: p.opts.namespace, Redactor: p.Redactor, Logger: ctrl.Log.WithName("plugin"),
	}, nil
}

// newUncachedClient returns a client that bypasses the cache.
func (p controllerSetup) newUncachedClient() (client.WithWatch, error) {
	live, err := client.NewWithWatch(p.mgr.GetConfig(), client.Options{Scheme: p.mgr.GetScheme(), Mapper: p.mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("creating a client without a cache: %w", err)
	}
	return live, nil
}

// newQuiescer returns what stops and restarts workloads.
func (p controllerSetup) newQuiescer(live client.Client) *quiesce.Quiescer {
	return quiesce.New(live, quiesce.Options{OperatorNamespace: p.opts.namespace, Redactor: p.Redactor, Now: p.Now})
}

// newQuiesceReconciler builds the controller that restarts workloads when their time has expired, or
// when no run does.
func (p controllerSetup) newQuiesceReconciler() (reconciler, error) {
	live, err := p.newUncachedClient()
	if err != nil {
		return nil, err
	}
	return &quiescecontroller.Reconciler{Client: p.Client, APIReader: p.Reader, Quiescer: p.newQuiescer(live), Recorder: p.Recorder, Now: p.Now}, nil
}

// archiveLimits returns the limits of archives that are written and read.
func (p controllerSetup) archiveLimits() archive.Limits {
	return archive.Limits{TotalBytes: p.opts.maxArchiveSize.Value()}
}

// newBackupReconciler builds the controller of Backups and its engine.
func (p controllerSetup) newBackupReconciler() (reconciler, error) {
	engine, err := p.newBackupEngine()
	if err != nil {
		return nil, err
	}
	return &backup.Reconciler{
		Dependencies: p.Dependencies,
		Actions:      p.plugins,
		Runner: &backupengine.Runner{
			Engine: engine, Logs: p.Logs, Scratch: p.scratch, Limits: p.archiveLimits(), Now: p.Now,
		},
		MaxConcurrent: p.opts.maxBackups, DefaultTTL: p.opts.defaultBackupTTL, AllVersions: slices.Contains(p.features, featureAllVersions),
	}, nil
}

// newBackupPreviewReconciler builds the controller of BackupPreviews.
func (p controllerSetup) newBackupPreviewReconciler() (reconciler, error) {
	engine, err := p.newBackupEngine()
	return &backuppreview.Reconciler{
		Client: p.Client, Engine: engine, Redactor: p.Redactor, Journal: p.Journal, Actions: p.plugins, Now: p.Now,
		AllVersions: slices.Contains(p.features, featureAllVersions),
	}, err
}

// newBackupEngine builds what archives the objects of the cluster.
func (p controllerSetup) newBackupEngine() (*backupengine.Engine, error) {
	cluster, err := backupengine.NewCluster(p.mgr.GetConfig(), rawclient.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	return backupengine.New(cluster, backupengine.Options{Limits: p.archiveLimits(), Log: ctrl.Log.WithName("backup")}), nil
}

// newRestoreReconciler builds the controller of Restores and its engine.
func (p controllerSetup) newRestoreReconciler() (reconciler, error) {
	cluster, err := restoreengine.NewCluster(p.mgr.GetConfig(), rawclient.ListOptions{}, rawclient.WriteOptions{})
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	engine := restoreengine.New(cluster, restoreengine.Options{Workers: p.opts.restoreWorkers, Order: &p.opts.restoreOrder, Log: ctrl.Log.WithName("restore")})
	return &restore.Reconciler{
		Dependencies: p.Dependencies, Actions: p.plugins,
		Runner: &restoreengine.Runner{
			Engine: engine, Logs: p.Logs, Scratch: p.scratch, Limits: p.archiveLimits(), Now: p.Now,
		},
		MaxConcurrent: p.opts.maxRestores, UseVersions: slices.Contains(p.features, featureAllVersions),
	}, nil
}

// newHookRunReconciler builds the controller of HookRuns.
func (p controllerSetup) newHookRunReconciler() (reconciler, error) {
	measured, err := hookrun.NewMetrics(p.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	return &hookrun.Reconciler{
		Client: p.Client, Reader: p.Reader, Catalog: p.plugins, Recorder: p.Recorder, Logs: p.Logs, Metrics: measured,
		Fence: p.fence, Tracer: p.Tracer,
	}, nil
}

// newAsyncOperationReconciler builds the controller of AsyncOperations.
func (p controllerSetup) newAsyncOperationReconciler() (reconciler, error) {
	measured, err := asyncoperation.NewMetrics(p.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	return &asyncoperation.Reconciler{
		Client: p.Client, Reader: p.Reader, Actions: p.plugins, Recorder: p.Recorder, Redactor: p.Redactor, Logs: p.Logs,
		Metrics: measured, Operations: p.Operations, Tracer: p.Tracer,
	}, nil
}

// newDeletionRunReconciler builds the controller of DeletionRuns.
func (p controllerSetup) newDeletionRunReconciler() (reconciler, error) {
	cfg := rest.CopyConfig(p.mgr.GetConfig())
	disc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating a discovery client: %w", err)
	}
	return &deletionrun.Reconciler{
		Dependencies: p.Dependencies, Actions: p.plugins,
		Runner: &deletion.Runner{
			Logs: p.Logs, Scratch: p.scratch, Limits: p.archiveLimits(), Now: p.Now,
			Names: func(ctx context.Context) (itemaction.ResourceResolver, error) {
				return clusterdiscovery.Discover(ctx, disc)
			},
		},
		MaxConcurrent: p.opts.maxDeletions,
	}, nil
}

// newScheduleReconciler builds the controller of Schedules.
func (p controllerSetup) newScheduleReconciler() (reconciler, error) {
	measured, err := schedule.NewMetrics(p.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	return &schedule.Reconciler{Client: p.Client, Reader: p.Reader, Recorder: p.Recorder, Metrics: measured}, nil
}

// newBackupSyncReconciler builds the controller that imports stored backups into the cluster.
func (p controllerSetup) newBackupSyncReconciler() (reconciler, error) {
	measured, err := backupsync.NewMetrics(p.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	return &backupsync.Reconciler{
		Client: p.Client, Reader: p.Reader, Opener: p.Opener, Recorder: p.Recorder, Redactor: p.Redactor, Metrics: measured,
		Interval: p.opts.syncInterval,
	}, nil
}
