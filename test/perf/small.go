// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

const (
	smallNamespace = "bench-small"
	smallObjects   = 3
	smallRuns      = 20
	atOnce         = 20

	// The targets, in seconds.
	smallTarget  = 0.300
	hookTarget   = 0.050
	atOnceTarget = 3

	// smallFiles is how many files of a small backup wait for each other: the
	// claim, the archive, the other files (which are written together), the log,
	// and the two manifests.
	smallFiles = 6

	pluginName = "bench"
	hookLabel  = "bench.grapnel.dev/hook"
	hookAction = "bench.example.io/nothing"
)

// small is what small backups yield.
type small struct {
	// without and with are the seconds from creation to completion, without and with an action.
	without, with []float64
	// writesWithout and writesWith are the writes that a client saw.
	writesWithout, writesWith []float64
	// atOnce is the seconds of 20 at once by round.
	atOnce []float64
	limit  raw.RunTimes
}

// measureSmall measures small backups with one operator, then the limit without
// any.
func measureSmall(ctx context.Context, e *environment, rounds int) (small, error) {
	var s small
	e.note("Running small backups")
	if err := createSmall(ctx, e); err != nil {
		return s, err
	}
	err := e.withOperator(ctx, func(*operator.Operator) error {
		if err := waitForPlugin(ctx, e.client, pluginName); err != nil {
			return err
		}
		// The first one also waits for the check of the location.
		if _, err := runBackups(ctx, e.client, newBackup("small-first", smallNamespace)); err != nil {
			return err
		}
		if err := s.oneByOne(ctx, e); err != nil {
			return err
		}
		return s.allAtOnce(ctx, e, rounds)
	})
	if err != nil {
		return s, err
	}
	e.note("A client saw %.0f status writes of a small backup, and %.0f more with an action",
		raw.Median(s.writesWithout), raw.Median(s.writesWith)-raw.Median(s.writesWithout))
	return s, s.measureLimit(ctx, e)
}

// createSmall creates what small backups contain, and the plugin.
func createSmall(ctx context.Context, e *environment) error {
	if err := createNamespaces(ctx, e, smallNamespace); err != nil {
		return err
	}
	settings := func() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: smallNamespace, Name: "settings"} }
	objects := []client.Object{
		&corev1.ConfigMap{ObjectMeta: settings(), Data: map[string]string{"key": "value"}},
		&corev1.Secret{ObjectMeta: settings(), StringData: map[string]string{"key": "value"}},
		&corev1.ServiceAccount{ObjectMeta: settings()},
		&v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: pluginName}, Spec: v1alpha1.PluginSpec{
			Executor: v1alpha1.Executor{Process: &v1alpha1.ProcessExecutor{
				Command: "fault",
				Env:     []v1alpha1.EnvVar{{Name: "FAULT_ACTIONS", Value: string(v1alpha1.ActionKindPreBackup) + ":" + hookAction}},
			}},
			Actions: []v1alpha1.PluginAction{{
				Name: hookAction, Kind: v1alpha1.ActionKindPreBackup,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{hookLabel: "yes"}},
			}},
		}},
	}
	for _, o := range objects {
		if err := e.client.Create(ctx, o); err != nil {
			return fmt.Errorf("creating %T %s: %w", o, o.GetName(), err)
		}
	}
	return nil
}

// createNamespaces creates namespaces by name.
func createNamespaces(ctx context.Context, e *environment, names ...string) error {
	for _, name := range names {
		if err := e.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("creating the namespace %s: %w", name, err)
		}
	}
	return nil
}

// waitForPlugin waits until a plugin runs.
func waitForPlugin(ctx context.Context, c client.WithWatch, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the plugin is not ready"))
	defer cancel()
	err := await(ctx, c, &v1alpha1.PluginList{}, func(plugin *v1alpha1.Plugin) (bool, error) {
		return plugin.Name == name && meta.IsStatusConditionTrue(plugin.Status.Conditions, v1alpha1.ConditionReady), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the Plugin %s: %w", name, err)
	}
	return nil
}

// oneByOne runs backups without and with an action by turns, each after the end
// of the one before it.
func (s *small) oneByOne(ctx context.Context, e *environment) error {
	for i := range smallRuns {
		plain := newBackup(fmt.Sprintf("small-%d", i), smallNamespace)
		hooked := newBackup(fmt.Sprintf("small-hook-%d", i), smallNamespace)
		hooked.Labels = map[string]string{hookLabel: "yes"}
		seconds, writes, err := one(ctx, e, i, plain, 0)
		if err != nil {
			return err
		}
		s.without, s.writesWithout = append(s.without, seconds), append(s.writesWithout, writes)
		if seconds, writes, err = one(ctx, e, i, hooked, 1); err != nil {
			return err
		}
		s.with, s.writesWith = append(s.with, seconds), append(s.writesWith, writes)
	}
	return nil
}

// one runs the i-th small backup.
func one(ctx context.Context, e *environment, i int, backup *v1alpha1.Backup, actions int) (seconds, writes float64, err error) {
	if err := raw.OutOfStep(ctx, i); err != nil {
		return 0, 0, err
	}
	seen, err := runBackups(ctx, e.client, backup)
	if err != nil {
		return 0, 0, err
	}
	return seen[0].latency().Seconds(), float64(seen[0].writes), checkSmall(seen[0], actions)
}

// checkSmall checks that a backup did what is measured.
func checkSmall(seen *observation[*v1alpha1.Backup], actions int) error {
	status := seen.last.Status
	ran := 0
	if status.PreBackupActionsStatuses != nil {
		ran = len(*status.PreBackupActionsStatuses)
	}
	if status.Progress == nil || status.Progress.ItemsBackedUp < smallObjects || ran != actions {
		return fmt.Errorf("the Backup %s should have %d objects and %d actions: %+v, %d actions",
			seen.last.Name, smallObjects, actions, status.Progress, ran)
	}
	return nil
}

// allAtOnce creates 20 backups at once, again in every round.
func (s *small) allAtOnce(ctx context.Context, e *environment, rounds int) error {
	for round := range rounds {
		var backups []*v1alpha1.Backup
		for i := range atOnce {
			backups = append(backups, newBackup(fmt.Sprintf("at-once-%d-%d", round, i), smallNamespace))
		}
		seen, err := runBackups(ctx, e.client, backups...)
		if err != nil {
			return err
		}
		first, last := seen[0].posted, seen[0].completed
		for _, o := range seen {
			if o.posted.Before(first) {
				first = o.posted
			}
			if o.completed.After(last) {
				last = o.completed
			}
		}
		s.atOnce = append(s.atOnce, last.Sub(first).Seconds())
	}
	return nil
}

// measureLimit does the same requests and writes as a small backup, without an
// operator.
func (s *small) measureLimit(ctx context.Context, e *environment) error {
	lists, err := namespacedCollections(e, smallNamespace)
	if err != nil {
		return err
	}
	object := map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Backup", "spec": newBackup("", smallNamespace).Spec,
	}
	content, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("writing a Backup: %w", err)
	}
	return e.askLimit(ctx, raw.RunRequest{
		Collection: fmt.Sprintf("/apis/%s/namespaces/%s/backups", v1alpha1.GroupVersion, operator.Namespace),
		Object:     content, Patches: int(raw.Median(s.writesWithout)), Lists: lists,
		Files: smallFiles, Dir: filepath.Join(e.dir, "limit"), Count: smallRuns, AtOnce: atOnce,
	}, &s.limit, "run")
}

// namespacedCollections returns the URL paths of every kind that can be listed in
// a namespace, in its preferred version.
func namespacedCollections(e *environment, namespace string) ([]string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(e.plane.Config())
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	groups, err := discovery.ServerPreferredNamespacedResources(client)
	if err != nil {
		return nil, fmt.Errorf("asking what the API server serves: %w", err)
	}
	var out []string
	listed := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "get"}}, groups)
	for _, group := range listed {
		root := "/apis/"
		if group.GroupVersion == "v1" {
			root = "/api/"
		}
		for _, resource := range group.APIResources {
			out = append(out, root+group.GroupVersion+"/namespaces/"+namespace+"/"+resource.Name)
		}
	}
	return out, nil
}

// figures of small backups.
func (s *small) figures() []figure {
	const ms = 1000
	without, with := raw.Median(s.without), raw.Median(s.with)
	added := raw.Median(s.writesWith) - raw.Median(s.writesWithout)
	return []figure{
		newFigure(fmt.Sprintf("backup of %d objects, median of %d", smallObjects, smallRuns), "ms",
			without*ms, s.limit.Seconds*ms, smallTarget*ms),
		newFigure("added by a process action that does nothing", "ms",
			(with-without)*ms, added*s.limit.WriteSeconds*ms, hookTarget*ms),
		newFigure(fmt.Sprintf("%d backups of %d objects at once", atOnce, smallObjects), "s",
			raw.Median(s.atOnce), s.limit.AtOnceSeconds, atOnceTarget),
	}
}
