// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
)

// pluginLoadTimeout is how long a location waits for its Plugin after the start of the
// operator.
const pluginLoadTimeout = time.Minute

// ObjectStores provides the ObjectStores of plugins. *catalog.Catalog implements it.
type ObjectStores interface {
	// ObjectStore returns how to call the store that a plugin keeps for a location.
	ObjectStore(spec catalog.StoreSpec) pluginclient.ResolveFunc[pluginclient.ObjectStore]
	// ReleaseStore ends the processes of a deleted location.
	ReleaseStore(ctx context.Context, location string)
	// LoadAttempted returns a channel that is closed after the first attempt to load the plugin.
	LoadAttempted(plugin string) <-chan struct{}
}

// openPluginStore opens a location of a plugin. The first call starts the process, which
// continues after the location is closed.
func (o *Opener) openPluginStore(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*Store, error) {
	if o.Stores == nil {
		return nil, fmt.Errorf("%w: this operator runs no plugins", ErrInvalidSpec)
	}
	spec := bsl.Spec.Plugin
	provider, err := o.waitForProvider(ctx, bsl)
	if err != nil {
		return nil, err
	}
	credential, err := o.readCredential(ctx, bsl)
	if err != nil {
		if errors.Is(err, errNoCredential) && o.credentials.dropUnusedCredentials(bsl.UID) {
			o.releaseProcesses(ctx, bsl.UID)
		}
		return nil, err
	}
	file, closer, err := o.credentials.acquireCredentialFile(o.Scratch, bsl, provider.Name, credential)
	if err != nil {
		return nil, err
	}
	resolve := o.Stores.ObjectStore(catalog.StoreSpec{
		Plugin: provider.Name, Name: spec.Provider, Location: string(bsl.UID), Config: providerConfig(bsl, file),
	})
	if o.credentials.isLocationDeleted(bsl.UID) {
		o.releaseProcesses(ctx, bsl.UID) // a concurrent release may have missed this process
		return nil, errors.Join(errLocationDeleted, closer())
	}
	if _, _, err := resolve(); err != nil {
		return nil, errors.Join(newNotReadyError(provider, spec.Provider, err), closer())
	}
	log := logr.FromContextOrDiscard(ctx).WithValues("location", bsl.Name)
	objects := pluginclient.NewStore(pluginclient.NewCaller(resolve, o.Redactor), pluginclient.StoreOptions{
		Action: spec.Provider, Bucket: spec.Bucket, Log: log, CallTimeout: pluginCallTimeout(provider, spec.Provider),
	})
	return o.newStore(objects, bsl, closer), nil
}

// releaseProcesses ends the processes of a location, each after its last open call.
func (o *Opener) releaseProcesses(ctx context.Context, uid types.UID) {
	noWait, cancel := context.WithCancel(ctx)
	cancel()
	o.Stores.ReleaseStore(noWait, string(uid))
}

// ReleaseDeletedLocation releases everything that is kept for deleted locations of that name:
// processes, after their last open call, and credentials files.
func (o *Opener) ReleaseDeletedLocation(ctx context.Context, key types.NamespacedName) {
	o.stuckCalls.pruneLocation(key)
	o.Metrics.deleteSeries(key.Name)
	for _, uid := range o.credentials.markLocationsDeleted(key) {
		o.releaseProcesses(ctx, uid)
	}
}

// ReleaseReplacedLocation is ReleaseDeletedLocation for one location, if another location of the
// same name exists. The location cannot be opened afterwards, even if it was never opened before.
func (o *Opener) ReleaseReplacedLocation(ctx context.Context, uid types.UID) {
	if o.credentials.markLocationReplaced(uid) {
		o.releaseProcesses(ctx, uid)
	}
}

// RemoveLeftovers removes the credentials files of a killed operator, because their
// locations may have been deleted since. It is called when the operator starts, and keeps the
// files that this Opener has written.
func (o *Opener) RemoveLeftovers() error { return o.credentials.clearLeftovers(o.Scratch) }

// Close removes all credentials files. It is called when no plugin is running any longer. No
// location of a plugin can be opened afterwards.
func (o *Opener) Close() error { return o.credentials.removeAllFiles() }

// waitForProvider returns the Plugin that provides the ObjectStore of a location, ready or
// not, once loading it was attempted.
func (o *Opener) waitForProvider(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*v1alpha1.Plugin, error) {
	name := bsl.Spec.Plugin.Provider
	all, err := listSortedPlugins(ctx, o.Plugins)
	if err != nil {
		return nil, err
	}
	found := providersReadyFirst(all, name)
	if len(found) == 0 {
		return nil, fmt.Errorf("no Plugin provides the ObjectStore %q: %s", name, o.missingProviderAdvice(bsl, all))
	}
	chosen := found[0]
	ctx, cancel := context.WithTimeout(ctx, pluginLoadTimeout)
	defer cancel()
	select {
	case <-o.Stores.LoadAttempted(chosen.Name):
		return chosen, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the Plugin %s, which provides the ObjectStore %q, has not been started yet: %w", chosen.Name, name, ctx.Err())
	}
}

func listSortedPlugins(ctx context.Context, reader client.Reader) ([]v1alpha1.Plugin, error) {
	var list v1alpha1.PluginList
	if err := reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing the Plugins: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Plugin) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

// providersReadyFirst returns the Plugins that provide an ObjectStore, ready ones
// first: of two Plugins that register the same name, only one is ready.
func providersReadyFirst(all []v1alpha1.Plugin, name string) []*v1alpha1.Plugin {
	var ready, others []*v1alpha1.Plugin
	for i := range all {
		provides := slices.ContainsFunc(all[i].Status.Actions, func(action v1alpha1.ProvidedAction) bool {
			return action.Kind == v1alpha1.ActionKindObjectStore && action.Name == name
		})
		switch {
		case !provides:
		case conditions.IsTrue(&all[i], v1alpha1.ConditionReady):
			ready = append(ready, &all[i])
		default:
			others = append(others, &all[i])
		}
	}
	return append(ready, others...)
}

// missingProviderAdvice returns why there is no provider, and what to do.
func (o *Opener) missingProviderAdvice(bsl *v1alpha1.BackupStorageLocation, all []v1alpha1.Plugin) string {
	if last := o.credentials.lastProviderPlugin(bsl.UID); last != "" && !slices.ContainsFunc(all, func(p v1alpha1.Plugin) bool { return p.Name == last }) {
		return fmt.Sprintf("the Plugin %s, which provided it, was deleted; create it again, or change spec.plugin.provider", last)
	}
	var unknown []string
	for i := range all {
		if len(all[i].Status.Actions) == 0 && !conditions.IsTrue(&all[i], v1alpha1.ConditionReady) {
			unknown = append(unknown, all[i].Name)
		}
	}
	if len(unknown) > 0 {
		return "these Plugins have not been loaded, and what they provide is not known: " + strings.Join(unknown[:min(len(unknown), 5)], ", ")
	}
	return "create the Plugin, or fix spec.plugin.provider"
}

// newNotReadyError returns why a Plugin does not provide its ObjectStore.
func newNotReadyError(plugin *v1alpha1.Plugin, name string, err error) error {
	text := err.Error()
	ready := conditions.Get(plugin, v1alpha1.ConditionReady)
	if ready != nil && !conditions.IsTrue(plugin, v1alpha1.ConditionReady) {
		text = ready.Message
	}
	return fmt.Errorf("the Plugin %s, which provides the ObjectStore %q, is not ready: %s", plugin.Name, name, text)
}

// ProviderFingerprint returns a string that changes whenever a location with that provider
// should be reconciled again.
func ProviderFingerprint(ctx context.Context, reader client.Reader, name string) (string, error) {
	all, err := listSortedPlugins(ctx, reader)
	if err != nil {
		return "", err
	}
	var state strings.Builder
	for _, plugin := range providersReadyFirst(all, name) {
		_, _ = fmt.Fprintf(&state, "%s %s %s", plugin.UID, plugin.Status.Digest, pluginCallTimeout(plugin, name))
		if ready := conditions.Get(plugin, v1alpha1.ConditionReady); ready != nil {
			_, _ = fmt.Fprintf(&state, " %s %s %d", ready.Status, ready.Message, ready.ObservedGeneration)
		}
		_ = state.WriteByte('\n')
	}
	return state.String(), nil
}

// pluginCallTimeout returns the timeout of one call according to the Plugin, or 0.
func pluginCallTimeout(plugin *v1alpha1.Plugin, name string) time.Duration {
	for _, action := range plugin.Spec.Actions {
		if action.Kind == v1alpha1.ActionKindObjectStore && action.Name == name && action.Timeout != nil {
			return action.Timeout.Duration
		}
	}
	return 0
}

// providerConfig returns the configuration of an ObjectStore, as Velero passes it. The prefix is
// only information for the store: it is already part of every key.
func providerConfig(bsl *v1alpha1.BackupStorageLocation, credentialsFile string) map[string]string {
	config := map[string]string{}
	for key, value := range bsl.Spec.Plugin.Config {
		config[key] = string(value)
	}
	config["bucket"], config["prefix"] = bsl.Spec.Plugin.Bucket, bsl.Spec.Prefix
	// Some plugins reject unknown keys.
	if len(bsl.Spec.Plugin.CACert) > 0 {
		config["caCert"] = string(bsl.Spec.Plugin.CACert)
	}
	if credentialsFile != "" {
		config["credentialsFile"] = credentialsFile
	}
	return config
}
