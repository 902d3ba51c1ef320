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
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/grpclog"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/health"
	"github.com/grapnel-dev/grapnel/internal/lease"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/operation"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/redact"
	restoreengine "github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/scratch"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
)

// version is stamped by the linker.
var version = "dev"

// options are the flags of the operator.
type options struct {
	leaderElect           bool
	lease                 leaderElectionTimes
	probeAddress          string
	pprofAddress          string
	metricsAddress        string
	secureMetrics         bool
	downloadAddress       string
	downloadURL           string
	pluginDir             string
	storeRoot             string
	scratchDir            string
	logRuns               bool
	locationCheckInterval time.Duration
	namespace             string
	maxBackups            int
	maxRestores           int
	maxDeletions          int
	syncInterval          time.Duration
	maxArchiveSize        resource.QuantityValue
	maxScratchSize        resource.QuantityValue
	restoreOrder          restoreengine.Order
	restoreWorkers        int
	operations            lifecycle.OperationDefaults
	limits                lifecycle.Limits
	admissionGrace        time.Duration
	defaultBackupTTL      time.Duration
	features              string
	pluginFeatures        string
	tracing               tracingOptions
}

// featureAllVersions archives every served version of a group's resources.
const featureAllVersions = "EnableAPIGroupVersions"

// parseFeatures returns the features of a comma-separated list. It rejects unknown
// features.
func parseFeatures(list string) ([]string, error) {
	var features []string
	for feature := range strings.SplitSeq(list, ",") {
		switch feature = strings.TrimSpace(feature); feature {
		case "":
		case featureAllVersions:
			features = append(features, feature)
		default:
			return nil, fmt.Errorf("--features: unknown feature %q; the supported feature is %s", feature, featureAllVersions)
		}
	}
	return features, nil
}

// pluginFeatures returns what plugins get with --features: the features of the operator, and those
// of a comma-separated list, whose names only plugins know.
func pluginFeatures(features []string, list string) []string {
	all := slices.Clone(features)
	for feature := range strings.SplitSeq(list, ",") {
		if feature = strings.TrimSpace(feature); feature != "" && !slices.Contains(all, feature) {
			all = append(all, feature)
		}
	}
	return all
}

// pluginLogLevel returns the most verbose level that the operator's output shows. It is at least
// info, which the logs of runs contain whatever the output shows.
func pluginLogLevel(output logr.Logger) string {
	switch {
	case output.V(2).Enabled():
		return "trace"
	case output.V(1).Enabled():
		return "debug"
	default:
		return "info"
	}
}

// operatorNamespace returns the default namespace of the operator.
func operatorNamespace() string { return cmp.Or(os.Getenv("POD_NAMESPACE"), "grapnel-system") }

func parseFlags() (options, zap.Options) {
	o := options{maxArchiveSize: resource.QuantityValue{Quantity: *resource.NewQuantity(archive.DefaultTotalBytes, resource.BinarySI)}}
	logging := zap.Options{}
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "run only while holding the leader lease, which allows standby replicas")
	o.lease.bindFlags(flag.CommandLine)
	flag.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.StringVar(&o.pprofAddress, "pprof-bind-address", "", "address of Go's CPU and memory profiles (pprof); off by default. "+
		"They reveal the content of memory: restrict access to the address")
	flag.StringVar(&o.metricsAddress, "metrics-bind-address", "0", "address of /metrics; 0 disables it")
	flag.BoolVar(&o.secureMetrics, "metrics-secure", true, "serve metrics over TLS, and only to clients that the API server authorizes")
	flag.StringVar(&o.downloadAddress, "download-bind-address", "0", "address at which the operator serves the files of DownloadRequests; 0 disables it")
	flag.StringVar(&o.downloadURL, "download-url", "", "https URL at which clients reach that address directly; "+
		"if empty, they go through the API server and the Service grapnel-downloads")
	flag.StringVar(&o.pluginDir, "plugin-dir", "/plugins", "directory with plugin binaries; Plugins name files in it")
	flag.StringVar(&o.storeRoot, "store-root", "", "directory that filesystem locations are relative to; if empty, such locations are refused")
	flag.StringVar(&o.scratchDir, "scratch-dir", os.TempDir(), "directory for archives, logs, journals and credentials of runs while they are in progress")
	flag.DurationVar(&o.locationCheckInterval, "location-check-interval", time.Minute, "time between two checks of a storage location that does not set it")
	flag.DurationVar(&o.syncInterval, "backup-sync-interval", time.Minute, "time between two syncs of a storage location that does not set it, which import the backups of other systems")
	flag.BoolVar(&o.logRuns, "log-runs", true, "log what runs log, with the name of the run; false leaves it to the files of the run")
	flag.StringVar(&o.namespace, "namespace", operatorNamespace(), "namespace whose Backups and locations are watched")
	flag.IntVar(&o.maxBackups, "max-concurrent-backups", 4, "how many Backups may run at a time, not counting those that only wait for operations; the others wait")
	flag.IntVar(&o.maxRestores, "max-concurrent-restores", 1, "how many Restores may run at a time, not counting those that only wait for operations; the others wait")
	flag.IntVar(&o.maxDeletions, "max-concurrent-deletions", 4, "how many backups may be destroyed at a time; the other DeletionRuns wait")
	flag.Var(&o.maxArchiveSize, "max-archive-size", "maximum size of the decompressed archive of a backup, in bytes; a Backup that needs more fails, and so does a Restore of a larger archive")
	flag.Var(&o.maxScratchSize, "max-scratch-size", "maximum total size of the archives in --scratch-dir, in bytes; a run that needs more fails. "+
		"0 means that only the volume limits it; set it below the sizeLimit of an emptyDir")
	flag.IntVar(&o.restoreWorkers, "restore-workers", restoreengine.DefaultWorkers, "how many objects of a Restore are written at a time")
	flag.DurationVar(&o.operations.Timeout, "default-item-operation-timeout", 4*time.Hour,
		"how long an operation of a plugin may take if neither the Backup or Restore nor the Plugin sets it")
	flag.DurationVar(&o.operations.PollInterval, "item-operation-poll-interval", 10*time.Second,
		"time between two polls of an operation if neither the Plugin nor the action sets it; at least 100ms")
	flag.DurationVar(&o.operations.CancelTimeout, "item-operation-cancel-timeout", 5*time.Minute,
		"how long an operation of a plugin may take to end after it was canceled; after that its outcome is unknown")
	flag.DurationVar(&o.admissionGrace, "admission-grace", 2*time.Minute,
		"how long a new Backup or Restore waits for a location, a backup or Plugins that it needs and that do not exist, and how long these and DeletionRuns wait for Plugins that are not ready; with 0, they do not wait")
	flag.DurationVar(&o.defaultBackupTTL, "default-backup-ttl", 30*24*time.Hour,
		"how long a Backup is kept whose spec does not set a ttl when it starts; with 0, until it is deleted")
	flag.DurationVar(&o.limits.RunTimeout, "default-run-timeout", 24*time.Hour,
		"how long a Backup, Restore or DeletionRun may take from its recorded plan to its outcome if its spec does not set it, not counting its operations")
	flag.DurationVar(&o.limits.StuckStepTimeout, "stuck-step-timeout", time.Minute,
		"how long canceled work of a run may take to stop, for example on a volume that does not respond; after that the run ends without it, and owed clean-up runs")
	flag.TextVar(&o.restoreOrder, "restore-resource-priorities", restoreengine.DefaultOrder(),
		"resources that are restored first, in this order, then \"-\" and those that are restored last")
	flag.StringVar(&o.features, "features", "", "comma-separated features to enable: "+featureAllVersions)
	flag.StringVar(&o.pluginFeatures, "plugin-features", "", "comma-separated features that plugins next to the operator get in addition to --features, "+
		"as Velero's get those of its server, for example EnableCSI")
	o.tracing.bindFlags(flag.CommandLine)
	logging.BindFlags(flag.CommandLine)
	flag.Parse()
	return o, logging
}

func main() {
	opts, logging := parseFlags()
	redactor := redact.New()
	setRedactingLogger(redactor, &logging)
	if limit := softMemoryLimit(host.ContainerMemoryLimit(), os.Getenv("GOMEMLIMIT")); limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	if err := runOperator(ctrl.SetupSignalHandler(), opts, redactor); err != nil {
		ctrl.Log.Error(err, "Stopping the operator")
		os.Exit(1)
	}
}

// setRedactingLogger sends everything that the operator and its libraries log through a redactor. A
// library may log an answer of a store or of the API server. The default logger of slog is also that
// of package log, to which the servers of net/http write.
func setRedactingLogger(redactor *redact.Redactor, logging *zap.Options) {
	logger := redactor.Logger(zap.New(zap.UseFlagOptions(logging)))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	setTracingLogger(logger.WithName("tracing"))
	handler := logr.ToSlogHandler(logger)
	slog.SetDefault(slog.New(handler))
	failures := slog.NewLogLogger(handler, slog.LevelError).Writer() // by default, gRPC logs only errors
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, failures))
}

// softMemoryLimit returns the heap size in bytes above which the garbage collector works harder.
// Without it, a heap that has just doubled could get the operator killed with all its runs. 0 leaves
// the limit to Go, which reads GOMEMLIMIT itself. A fifth of the container's limit is reserved for
// plugins and for memory outside the heap.
func softMemoryLimit(container int64, environment string) int64 {
	if environment != "" {
		return 0
	}
	return container / 5 * 4
}

func runOperator(ctx context.Context, opts options, redactor *redact.Redactor) error {
	ctrl.Log.Info("Starting the operator", "version", version, "namespace", opts.namespace)
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster: %w", err)
	}
	election, err := newLeaderElection(cfg, opts)
	if err != nil {
		return err
	}
	output := logr.Discard()
	if opts.logRuns {
		output = ctrl.Log
	}
	logs, err := runlog.New(opts.scratchDir, redactor, output)
	if err != nil {
		return err
	}
	steps, err := lifecycle.Open(opts.scratchDir, ctrl.Log.WithName("journal"))
	if err != nil {
		return err
	}
	// The sender of the termination signal may kill the operator a moment later. That is no crash.
	defer context.AfterFunc(ctx, steps.Close)()
	defer steps.Close()
	go election.exitWhenLeaseLost(context.WithoutCancel(ctx), steps.Close)
	mgr, err := newManager(ctx, cfg, opts, election)
	if err != nil {
		return err
	}
	features, err := parseFeatures(opts.features)
	if err != nil {
		return err
	}
	if err := errors.Join(opts.operations.Validate(), opts.limits.Validate(), validateDefaultTTL(opts.defaultBackupTTL)); err != nil {
		return err
	}
	if err := checkCRDs(ctx, mgr); err != nil {
		return err
	}
	tracer, err := opts.tracing.newTracer(ctx)
	if err != nil {
		return err
	}
	defer stopTracing(ctx, tracer)
	exited, changed := make(chan string, 64), make(chan string, 64)
	pluginOptions := catalogOptions(opts, redactor, election)
	pluginOptions.Features = pluginFeatures(features, opts.pluginFeatures)
	pluginOptions.OnExit, pluginOptions.OnChange = newNotifyFunc(exited), newNotifyFunc(changed)
	plugins := catalog.New(pluginOptions)
	opener := newLocationOpener(mgr, opts, redactor, election)
	opener.Stores = plugins
	if opener.Metrics, err = location.NewMetrics(metrics.Registry); err != nil {
		return fmt.Errorf("registering the metrics of stores: %w", err)
	}
	if err := opener.RemoveLeftovers(); err != nil {
		ctrl.Log.Error(err, "Credentials are left in the scratch directory; remove them manually")
	}
	if err := mgr.Add(shutdownRunnable{plugins: plugins, opener: opener}); err != nil {
		return fmt.Errorf("adding the plugin catalog: %w", err)
	}
	p := controllerSetup{
		mgr: mgr, opts: opts, features: features, plugins: plugins, fence: election.fence,
		scratch: &scratch.Dir{Path: opts.scratchDir, Limit: opts.maxScratchSize.Value()},
		Dependencies: lifecycle.Dependencies{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Logs: logs, Redactor: redactor,
			Opener: opener, Recorder: mgr.GetEventRecorder("grapnel"), Metrics: metrics.Registry, Now: time.Now,
			Operations: opts.operations, Limits: opts.limits, Journal: steps, AdmissionGrace: opts.admissionGrace,
			OnOperationsChange: new(gcTuner).setOperations, Tracer: tracer,
		},
	}
	if err := p.setupControllers(ctx, exited, changed); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// minDefaultTTL is the shortest default ttl. With a shorter one, a typing error would expire every new backup before a
// person can notice.
const minDefaultTTL = time.Hour

// validateDefaultTTL returns an error if backups cannot be kept that long.
func validateDefaultTTL(ttl time.Duration) error {
	if ttl != 0 && ttl < minDefaultTTL {
		return fmt.Errorf("--default-backup-ttl is %s: it must be 0, which keeps backups until they are deleted, or at least %s", ttl, minDefaultTTL)
	}
	return nil
}

// newNotifyFunc returns a function that sends a name.
func newNotifyFunc(names chan<- string) func(string) {
	return func(name string) {
		select {
		case names <- name:
		default: // a Plugin with so many notifications is reconciled anyway
		}
	}
}

// catalogOptions returns the options of the plugin catalog. An operator that may not be the leader
// calls no plugin.
func catalogOptions(opts options, redactor *redact.Redactor, election election) catalog.Options {
	return catalog.Options{
		Logger: ctrl.Log.WithName("plugin"), Redactor: redactor, LogLevel: pluginLogLevel(ctrl.Log), Env: pluginEnvironment(opts), Fence: election.fence.WaitForLease,
	}
}

// newLocationOpener returns the opener of locations. Only the leader writes to them.
func newLocationOpener(mgr ctrl.Manager, opts options, redactor *redact.Redactor, election election) *location.Opener {
	return &location.Opener{
		Reader: mgr.GetAPIReader(), Root: opts.storeRoot, Redactor: redactor, Fence: election.fence,
		Plugins: mgr.GetClient(), Scratch: opts.scratchDir,
	}
}

// pluginEnvironment returns the variables that Velero sets for its plugins and that plugins
// rely on.
func pluginEnvironment(opts options) map[string]string {
	return map[string]string{
		"VELERO_NAMESPACE":   opts.namespace,
		"VELERO_SCRATCH_DIR": opts.scratchDir,
		"LD_LIBRARY_PATH":    opts.pluginDir,
	}
}

func newManager(ctx context.Context, cfg *rest.Config, opts options, election election) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme)) // read by checkCRDs
	serving := metricsserver.Options{BindAddress: opts.metricsAddress, SecureServing: opts.secureMetrics}
	if opts.secureMetrics {
		serving.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	// Each operation that an action starts is recorded before the action gets the next object.
	// The API server throttles requests itself (priority and fairness). The client's default
	// limit of 20 requests per second is too low.
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.Wrap(election.fence.WrapTransport)
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, MapperProvider: newRESTMapper, Metrics: serving, HealthProbeBindAddress: opts.probeAddress, PprofBindAddress: opts.pprofAddress,
		// A user who may create a Backup can read the whole cluster through it. Therefore Backups
		// in other namespaces are not even read.
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{opts.namespace: {}},
			// Nothing reads managedFields, and they are half the size of a small object.
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject:         map[client.Object]cache.ByObject{&v1alpha1.AsyncOperation{}: {Transform: operation.CompactForCache}},
		},
		LeaderElection: opts.leaderElect, LeaderElectionID: lease.Name, LeaderElectionResourceLockInterface: election.lock,
		LeaseDuration: &opts.lease.duration, RenewDeadline: &opts.lease.renewDeadline, RetryPeriod: &opts.lease.retryPeriod,
		LeaderElectionReleaseOnCancel: true,
		BaseContext:                   func() context.Context { return ctrl.LoggerInto(context.WithoutCancel(ctx), ctrl.Log) },
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	watchdog := &health.Watchdog{Gatherer: metrics.Registry, Ping: func(ctx context.Context) error { return pingAPIServer(ctx, mgr) }}
	if err := errors.Join(mgr.AddHealthzCheck("reconciles", watchdog.Check), mgr.Add(watchdog)); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	caches := &health.Caches{Cache: mgr.GetCache(), Kinds: newKinds()}
	if err := errors.Join(mgr.AddReadyzCheck("caches", caches.Check), mgr.Add(caches)); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	return mgr, nil
}

// pingAPIServer requests the version of the API server.
func pingAPIServer(ctx context.Context, mgr ctrl.Manager) error {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return err
	}
	return client.RESTClient().Get().AbsPath("/version").Do(ctx).Error()
}

// shutdownRunnable stops every plugin process when the manager stops, and removes the files that
// were passed to the plugins.
type shutdownRunnable struct {
	plugins *catalog.Catalog
	opener  *location.Opener
}

var _ manager.Runnable = shutdownRunnable{}

// Start waits until the manager stops, then closes the catalog and the opener.
func (c shutdownRunnable) Start(ctx context.Context) error {
	<-ctx.Done()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	c.plugins.Close(drain)
	return c.opener.Close()
}
