// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager is the Grapnel operator. It only wires: flags, the manager,
// the parts and their controllers.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/kube/mapping"
	"github.com/grapnel-dev/grapnel/internal/kube/operation"
	"github.com/grapnel-dev/grapnel/internal/kube/ready"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/redact"
	restoreengine "github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// version is stamped by the linker.
var version = "dev"

// options are the flags of the operator.
type options struct {
	leaderElect   bool
	probeAddress  string
	pprofAddress  string
	metrics       string
	secureMetrics bool
	pluginDir     string
	storeRoot     string
	scratchDir    string
	checkInterval time.Duration
	namespace     string
	maxBackups    int
	maxRestores   int
	maxDeletions  int
	syncInterval  time.Duration
	maxArchive    resource.QuantityValue
	restoreOrder  restoreengine.Order
	workers       int
	operations    run.OperationDefaults
	features      string
}

// featureAllVersions archives every served version of a group's resources.
const featureAllVersions = "EnableAPIGroupVersions"

// parseFeatures returns the features of a comma-separated list. All of them must
// be known.
func parseFeatures(list string) ([]string, error) {
	var features []string
	for feature := range strings.SplitSeq(list, ",") {
		switch feature = strings.TrimSpace(feature); feature {
		case "":
		case featureAllVersions:
			features = append(features, feature)
		default:
			return nil, fmt.Errorf("--features: %q is not known; known is %s", feature, featureAllVersions)
		}
	}
	return features, nil
}

// ownNamespace is where the operator runs, by default.
func ownNamespace() string { return cmp.Or(os.Getenv("POD_NAMESPACE"), "grapnel-system") }

func parseFlags() (options, zap.Options) {
	// etcd holds 8 GiB at most by its own advice, and an archive has each object twice.
	o := options{maxArchive: resource.QuantityValue{Quantity: resource.MustParse("64Gi")}}
	logging := zap.Options{}
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "run only while holding the leader lease, so that several replicas can stand by")
	flag.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.StringVar(&o.pprofAddress, "pprof-bind-address", "", "address of Go's profiles, for a look at processor time and memory; off by default. "+
		"They tell what is in memory: let nobody else reach it")
	flag.StringVar(&o.metrics, "metrics-bind-address", "0", "address of /metrics; 0 turns it off")
	flag.BoolVar(&o.secureMetrics, "metrics-secure", true, "serve metrics over TLS and only to whom the API server authorizes")
	flag.StringVar(&o.pluginDir, "plugin-dir", "/plugins", "folder with plugin binaries; Plugins name files in it")
	flag.StringVar(&o.storeRoot, "store-root", "", "folder that filesystem locations are relative to; empty refuses them")
	flag.StringVar(&o.scratchDir, "scratch-dir", os.TempDir(), "folder for the logs of runs that are not finished")
	flag.DurationVar(&o.checkInterval, "location-check-interval", time.Minute, "time between two checks of a storage location")
	flag.DurationVar(&o.syncInterval, "backup-sync-interval", time.Minute, "time between two looks for backups in a storage location that other systems stored")
	flag.StringVar(&o.namespace, "namespace", ownNamespace(), "namespace whose Backups and locations are watched")
	flag.IntVar(&o.maxBackups, "max-concurrent-backups", 4, "how many Backups may run at a time, besides those that only wait for operations; the others wait")
	flag.IntVar(&o.maxRestores, "max-concurrent-restores", 1, "how many Restores may run at a time, besides those that only wait for operations; the others wait")
	flag.IntVar(&o.maxDeletions, "max-concurrent-deletions", 4, "how many backups may be destroyed at a time; the other DeletionRuns wait")
	flag.Var(&o.maxArchive, "max-archive-size", "how many bytes the archive of a backup may have, decompressed; a Restore of a larger one fails")
	flag.IntVar(&o.workers, "restore-workers", restoreengine.DefaultWorkers, "how many objects of a Restore are written at a time")
	flag.DurationVar(&o.operations.Timeout, "default-item-operation-timeout", 4*time.Hour,
		"how long an operation of a plugin may take if neither the Backup or Restore nor the Plugin says so")
	flag.DurationVar(&o.operations.PollInterval, "item-operation-poll-interval", 10*time.Second,
		"time between two questions how far an operation is, if neither the Plugin nor the action says so; at least 100ms")
	flag.DurationVar(&o.operations.CancelTimeout, "item-operation-cancel-timeout", 5*time.Minute,
		"how long an operation of a plugin has to end after it was cancelled; then nobody knows how it ended")
	flag.TextVar(&o.restoreOrder, "restore-resource-priorities", restoreengine.DefaultOrder(),
		"resources that are restored first, one after the other, then \"-\" and those that are restored last")
	flag.StringVar(&o.features, "features", "", "comma-separated features to turn on: "+featureAllVersions)
	logging.BindFlags(flag.CommandLine)
	flag.Parse()
	return o, logging
}

func main() {
	opts, logging := parseFlags()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))
	if err := start(ctrl.SetupSignalHandler(), opts); err != nil {
		ctrl.Log.Error(err, "Stopping the operator")
		os.Exit(1)
	}
}

func start(ctx context.Context, opts options) error {
	ctrl.Log.Info("Starting the operator", "version", version, "namespace", opts.namespace)
	mgr, err := newManager(opts)
	if err != nil {
		return err
	}
	features, err := parseFeatures(opts.features)
	if err != nil {
		return err
	}
	if err := opts.operations.Validate(); err != nil {
		return err
	}
	redactor := redact.New()
	exited, changed := make(chan string, 64), make(chan string, 64)
	tell := func(names chan<- string) func(string) {
		return func(name string) {
			select {
			case names <- name:
			default: // a Plugin to which this much happens is looked at anyway
			}
		}
	}
	plugins := catalog.New(catalog.Options{
		Logger: ctrl.Log.WithName("plugin"), Redactor: redactor, LogLevel: "info", Features: features, Env: pluginEnv(opts),
		OnExit: tell(exited), OnChange: tell(changed),
	})
	opener := &location.Opener{
		Reader: mgr.GetAPIReader(), Root: opts.storeRoot, Redactor: redactor,
		Stores: plugins, Plugins: mgr.GetClient(), Scratch: opts.scratchDir,
	}
	if err := opener.RemoveLeftovers(); err != nil {
		ctrl.Log.Error(err, "Credentials are left in the scratch folder; remove them by hand")
	}
	if err := mgr.Add(closer{plugins: plugins, opener: opener}); err != nil {
		return fmt.Errorf("adding the plugin catalog: %w", err)
	}
	logs, err := runlog.New(opts.scratchDir, redactor)
	if err != nil {
		return err
	}
	p := parts{
		mgr: mgr, opts: opts, features: features, plugins: plugins,
		Environment: run.Environment{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Logs: logs, Redactor: redactor,
			Opener: opener, Recorder: mgr.GetEventRecorder("grapnel"), Metrics: metrics.Registry, Now: time.Now,
			Operations: opts.operations,
		},
	}
	for name, build := range p.controllers(exited, changed) {
		controller, err := build()
		if err == nil {
			err = controller.SetupWithManager(mgr)
		}
		if err != nil {
			return fmt.Errorf("setting up the controller %s: %w", name, err)
		}
	}
	return mgr.Start(ctx)
}

// pluginEnv returns the variables that Velero gives to its plugins, and that those
// count on.
func pluginEnv(opts options) map[string]string {
	return map[string]string{
		"VELERO_NAMESPACE":   opts.namespace,
		"VELERO_SCRATCH_DIR": opts.scratchDir,
		"LD_LIBRARY_PATH":    opts.pluginDir,
	}
}

func newManager(opts options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	serving := metricsserver.Options{BindAddress: opts.metrics, SecureServing: opts.secureMetrics}
	if opts.secureMetrics {
		serving.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	// Each operation that an action starts is recorded before the next object is shown to
	// it. The API server says itself when that is too much (priority and fairness); the
	// client would not send more than 20 requests in a second.
	cfg.QPS = -1
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, MapperProvider: mapping.New, Metrics: serving, HealthProbeBindAddress: opts.probeAddress, PprofBindAddress: opts.pprofAddress,
		// Whoever may create a Backup can read the whole cluster through it, so
		// those of other namespaces are not even looked at.
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{opts.namespace: {}},
			// Nobody reads who wrote which field, and it is half of a small object.
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{&v1alpha1.AsyncOperation{}: {Transform: operation.Compact}},
		},
		LeaderElection: opts.leaderElect, LeaderElectionID: "operator.grapnel.dev",
		LeaderElectionNamespace:       opts.namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("healthz", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	caches := &ready.Caches{Cache: mgr.GetCache(), Kinds: []client.Object{
		&v1alpha1.Backup{}, &v1alpha1.Restore{}, &v1alpha1.HookRun{}, &v1alpha1.AsyncOperation{},
		&v1alpha1.BackupStorageLocation{}, &v1alpha1.Plugin{}, &v1alpha1.DeletionRun{}, &v1alpha1.Schedule{},
	}}
	if err := errors.Join(mgr.AddReadyzCheck("caches", caches.Check), mgr.Add(caches)); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}

// closer ends every plugin process when the manager ends, and removes what they were
// given.
type closer struct {
	plugins *catalog.Catalog
	opener  *location.Opener
}

var _ manager.Runnable = closer{}

// Start waits for the end of the manager, then closes the catalog and the opener.
func (c closer) Start(ctx context.Context) error {
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	c.plugins.Close(drain)
	return c.opener.Close()
}
