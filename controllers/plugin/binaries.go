// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// binaryWatcher reloads Plugins when their binary is created, changed or removed. It is a
// Runnable of the manager and ends with it.
type binaryWatcher struct {
	reconciler *Reconciler
	enqueue    func(types.NamespacedName)
	// reported are the programs that no Plugin names and that were already logged.
	reported map[string]bool
}

// Start watches until ctx is done. If the directory cannot be watched, the operator
// continues and detects changes when it is restarted.
func (b *binaryWatcher) Start(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("plugin-dir")
	ctx = ctrl.LoggerInto(ctx, log)
	b.reported = map[string]bool{}
	b.handleChanges(ctx, nil)
	watch := Watcher{
		Dir: filepath.Clean(b.reconciler.Dir), DebounceInterval: b.reconciler.DebounceInterval,
		OnChange: func(paths []string) { b.handleChanges(ctx, paths) },
		OnError:  func(err error) { log.Error(err, "Some changes of the plugin directory will not be detected") },
	}
	if err := watch.Run(ctx); err != nil {
		log.Error(err, "Changes of the plugin directory will not be detected; restart the operator after a change")
		<-ctx.Done()
	}
	return nil
}

// handleChanges reloads the Plugins whose binary is one of paths, or is below one.
func (b *binaryWatcher) handleChanges(ctx context.Context, paths []string) {
	var plugins v1alpha1.PluginList
	if err := b.reconciler.Client.List(ctx, &plugins); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the Plugins")
		return
	}
	named := map[string]bool{}
	for i := range plugins.Items {
		p := &plugins.Items[i]
		if p.Spec.Executor.Process == nil {
			continue
		}
		path := b.reconciler.binaryPath(p.Spec.Executor.Process)
		named[path] = true
		if slices.ContainsFunc(paths, func(changed string) bool {
			return path == changed || strings.HasPrefix(path, changed+string(filepath.Separator))
		}) {
			b.reconciler.reloadRequested.addName(p.Name)
			b.enqueue(types.NamespacedName{Name: p.Name})
		}
	}
	b.logUnusedBinaries(ctx, named)
}

// logUnusedBinaries logs programs that no Plugin names. They are never executed just because they
// are in the directory.
func (b *binaryWatcher) logUnusedBinaries(ctx context.Context, named map[string]bool) {
	found := map[string]bool{}
	dir := filepath.Clean(b.reconciler.Dir) + string(filepath.Separator) // it may be a link
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || named[path] {
			return nil //nolint:nilerr // an unreadable file cannot be suggested
		}
		if info, err := entry.Info(); err == nil && info.Mode().Perm()&0o111 != 0 {
			found[path] = true
		}
		return nil
	})
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if !b.reported[path] {
			ctrl.LoggerFrom(ctx).Info("A program in the plugin directory is not used: create a Plugin that names it", "path", path)
		}
	}
	b.reported = found
}

// nameSet is a set that is safe for concurrent use.
type nameSet struct {
	mu  sync.Mutex
	all map[string]bool
}

func (n *nameSet) addName(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.all == nil {
		n.all = map[string]bool{}
	}
	n.all[name] = true
}

// takeName removes a name and reports whether it was there.
func (n *nameSet) takeName(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.all[name]
	delete(n.all, name)
	return was
}
