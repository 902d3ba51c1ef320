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
	"github.com/grapnel-dev/grapnel/controllers/backupsync"
	"github.com/grapnel-dev/grapnel/controllers/deletionrun"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/controllers/plugin"
	quiescecontroller "github.com/grapnel-dev/grapnel/controllers/quiesce"
	"github.com/grapnel-dev/grapnel/controllers/restore"
	"github.com/grapnel-dev/grapnel/controllers/retention"
	"github.com/grapnel-dev/grapnel/controllers/schedule"
	"github.com/grapnel-dev/grapnel/controllers/storagelocation"
	"github.com/grapnel-dev/grapnel/internal/archive"
	backupengine "github.com/grapnel-dev/grapnel/internal/backup"
	backupjob "github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	clusterdiscovery "github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/executor/job"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/kube/declared"
	"github.com/grapnel-dev/grapnel/internal/kube/list"
	kubequiesce "github.com/grapnel-dev/grapnel/internal/kube/quiesce"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/kube/write"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/quiesce"
	restoreengine "github.com/grapnel-dev/grapnel/internal/restore"
	restorejob "github.com/grapnel-dev/grapnel/internal/restore/job"
)

type reconciler interface {
	SetupWithManager(mgr ctrl.Manager) error
}

// parts are what controllers are built of.
type parts struct {
	run.Environment
	mgr      ctrl.Manager
	opts     options
	features []string
	plugins  *catalog.Catalog
}

// controllers returns how every controller is built, by its name. Of Plugins that exited or
// whose binary changed the two channels tell the names.
func (p parts) controllers(exited, changed <-chan string) map[string]func() (reconciler, error) {
	return map[string]func() (reconciler, error){
		"backup": p.backups, "restore": p.restores, "deletionrun": p.deletionRuns,
		"hookrun": p.hookRuns, "asyncoperation": p.asyncOperations,
		"schedule": p.schedules, "backupsync": p.backupSync, "quiesce": p.overdueQuiesces,
		"retention": func() (reconciler, error) {
			return &retention.Reconciler{Client: p.Client, Recorder: p.Recorder, Metrics: p.Metrics}, nil
		},
		"plugin": func() (reconciler, error) {
			builder, err := p.builder()
			return &plugin.Reconciler{
				Client: p.Client, Catalog: p.plugins, Builder: builder, Recorder: p.Recorder, Dir: p.opts.pluginDir, Exited: exited, Changed: changed,
			}, err
		},
		"storagelocation": func() (reconciler, error) {
			return &storagelocation.Reconciler{
				Client: p.Client, Opener: p.Opener, Recorder: p.Recorder, Redactor: p.Redactor, Interval: p.opts.checkInterval,
			}, nil
		},
	}
}

// builder builds what makes executors of Plugins. Its client reads past the cache: Secrets
// and workloads of the whole cluster are not kept in memory for that.
func (p parts) builder() (*declared.Builder, error) {
	cfg := p.mgr.GetConfig()
	live, err := p.live()
	if err != nil {
		return nil, err
	}
	pods, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client for the logs of pods: %w", err)
	}
	commands, err := podexec.NewRemote(cfg)
	if err != nil {
		return nil, err
	}
	return &declared.Builder{
		Client: live, Logs: job.NewLogs(pods), Stream: commands, Recorder: p.Recorder,
		Quiescer: p.quiescer(live), Namespace: p.opts.namespace, Redactor: p.Redactor, Logger: ctrl.Log.WithName("plugin"),
	}, nil
}

// live returns a client that reads past the cache.
func (p parts) live() (client.WithWatch, error) {
	live, err := client.NewWithWatch(p.mgr.GetConfig(), client.Options{Scheme: p.mgr.GetScheme(), Mapper: p.mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client without a cache: %w", err)
	}
	return live, nil
}

// quiescer returns what stops workloads and gives them back.
func (p parts) quiescer(live client.Client) *quiesce.Quiescer {
	return kubequiesce.New(live, quiesce.Options{OperatorNamespace: p.opts.namespace, Redactor: p.Redactor, Now: p.Now})
}

// overdueQuiesces builds the controller that gives workloads back after their time.
func (p parts) overdueQuiesces() (reconciler, error) {
	live, err := p.live()
	if err != nil {
		return nil, err
	}
	return &quiescecontroller.Reconciler{Client: p.Client, Quiescer: p.quiescer(live), Recorder: p.Recorder, Now: p.Now}, nil
}

// backups builds the controller of Backups and its engine.
func (p parts) backups() (reconciler, error) {
	cluster, err := backupengine.NewCluster(p.mgr.GetConfig(), list.Options{})
	if err != nil {
		return nil, fmt.Errorf("reading the cluster: %w", err)
	}
	return &backup.Reconciler{
		Environment: p.Environment,
		Actions:     p.plugins,
		Job: &backupjob.Job{
			Engine: backupengine.New(cluster, backupengine.Options{}), Logs: p.Logs, ScratchDir: p.opts.scratchDir, Now: p.Now,
		},
		MaxConcurrent: p.opts.maxBackups, AllVersions: slices.Contains(p.features, featureAllVersions),
	}, nil
}

// restores builds the controller of Restores and its engine.
func (p parts) restores() (reconciler, error) {
	cluster, err := restoreengine.NewCluster(p.mgr.GetConfig(), list.Options{}, write.Options{})
	if err != nil {
		return nil, fmt.Errorf("reaching the cluster: %w", err)
	}
	engine := restoreengine.New(cluster, restoreengine.Options{Workers: p.opts.workers, Order: &p.opts.restoreOrder})
	return &restore.Reconciler{
		Environment: p.Environment, Actions: p.plugins,
		Job: &restorejob.Job{
			Engine: engine, Logs: p.Logs, ScratchDir: p.opts.scratchDir, Now: p.Now,
			Limits: archive.Limits{TotalBytes: p.opts.maxArchive.Value()},
		},
		MaxConcurrent: p.opts.maxRestores, UseVersions: slices.Contains(p.features, featureAllVersions),
	}, nil
}

// hookRuns builds the controller of HookRuns.
func (p parts) hookRuns() (reconciler, error) {
	measured, err := hookrun.NewMetrics(p.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	return &hookrun.Reconciler{
		Client: p.Client, Reader: p.Reader, Catalog: p.plugins, Recorder: p.Recorder, Logs: p.Logs, Metrics: measured,
	}, nil
}

// asyncOperations builds the controller of AsyncOperations.
func (p parts) asyncOperations() (reconciler, error) {
	measured, err := asyncoperation.NewMetrics(p.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	return &asyncoperation.Reconciler{
		Client: p.Client, Reader: p.Reader, Actions: p.plugins, Recorder: p.Recorder, Redactor: p.Redactor, Metrics: measured,
		Operations: p.Operations,
	}, nil
}

// deletionRuns builds the controller of DeletionRuns.
func (p parts) deletionRuns() (reconciler, error) {
	cfg := rest.CopyConfig(p.mgr.GetConfig())
	disc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	return &deletionrun.Reconciler{
		Environment: p.Environment, Actions: p.plugins,
		Job: &deletion.Job{
			Logs: p.Logs, ScratchDir: p.opts.scratchDir, Limits: archive.Limits{TotalBytes: p.opts.maxArchive.Value()}, Now: p.Now,
			Names: func(ctx context.Context) (itemaction.Names, error) { return clusterdiscovery.Discover(ctx, disc) },
		},
		MaxConcurrent: p.opts.maxDeletions,
	}, nil
}

// schedules builds the controller of Schedules.
func (p parts) schedules() (reconciler, error) {
	measured, err := schedule.NewMetrics(p.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	return &schedule.Reconciler{Client: p.Client, Reader: p.Reader, Recorder: p.Recorder, Metrics: measured}, nil
}

// backupSync builds the controller that brings stored backups into the cluster.
func (p parts) backupSync() (reconciler, error) {
	measured, err := backupsync.NewMetrics(p.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	return &backupsync.Reconciler{
		Client: p.Client, Reader: p.Reader, Opener: p.Opener, Recorder: p.Recorder, Redactor: p.Redactor, Metrics: measured,
		Interval: p.opts.syncInterval,
	}, nil
}
