// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

const (
	// The targets for each object, in milliseconds and in microseconds.
	itemTarget      = 0.3
	inProcessTarget = 10

	itemPlugin = "bench-nothing"
	itemLabel  = "bench.grapnel.dev/items"
	itemAction = "bench.example.io/nothing"
	// itemBytes is about the size of an object, which is sent and comes back.
	itemBytes = 2000
)

// items is what backups yield whose objects an action sees that does nothing.
type items struct {
	objects int
	// without and with are seconds of the archive phase by round, plainly and with the
	// action of a plugin; engine and inProcess those of the engine alone, plainly and
	// with an action in the same process.
	without, with, engine, inProcess []float64
	limit                            raw.CallTimes
}

// measureItems backs up a fifth of the mix, by turns with and without an action.
func (m mix) measureItems(ctx context.Context, e *environment) (items, error) {
	few, objects := m.few()
	i := items{objects: len(objects)}
	e.note("Backing up %d objects that an action sees", i.objects)
	if err := createItemPlugin(ctx, e); err != nil {
		return i, err
	}
	err := e.withOperator(ctx, func(*operator.Operator) error {
		if err := waitForPlugin(ctx, e.client, itemPlugin); err != nil {
			return err
		}
		for round := range m.rounds {
			if err := i.round(ctx, e, round, namespaceNames(few)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return i, err
	}
	if err := i.measureInProcess(ctx, e, m.rounds, namespaceNames(few)); err != nil {
		return i, err
	}
	e.note("An action of a plugin: %.2f s, without %.2f s; in the same process: %.2f s, without %.2f s",
		raw.Median(i.with), raw.Median(i.without), raw.Median(i.inProcess), raw.Median(i.engine))
	request := raw.CallRequest{Calls: i.objects, Workers: backup.DefaultActionWorkers, Bytes: itemBytes}
	return i, e.askLimit(ctx, request, &i.limit, "call")
}

// createItemPlugin installs the plugin whose action does nothing.
func createItemPlugin(ctx context.Context, e *environment) error {
	if err := e.installPlugin(ctx, "test/perf/nothing"); err != nil {
		return err
	}
	return e.client.Create(ctx, &v1alpha1.Plugin{
		ObjectMeta: metav1.ObjectMeta{Name: itemPlugin},
		Spec: v1alpha1.PluginSpec{
			Executor: v1alpha1.Executor{Process: &v1alpha1.ProcessExecutor{Command: "nothing"}},
			Actions: []v1alpha1.PluginAction{{
				Name: itemAction, Kind: v1alpha1.ActionKindBackupItem,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{itemLabel: "yes"}},
			}},
		},
	})
}

// round makes a backup without the action and one with it.
func (i *items) round(ctx context.Context, e *environment, round int, namespaces []string) error {
	for name, seconds := range map[string]*[]float64{"plain": &i.without, "seen": &i.with} {
		b := newBackup(fmt.Sprintf("items-%s-%d", name, round), namespaces...)
		if name == "seen" {
			b.Labels = map[string]string{itemLabel: "yes"}
		}
		took, err := archivePhase(ctx, e, b, i.objects)
		if err != nil {
			return err
		}
		if err := e.client.Get(ctx, client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		if planned := len(b.Status.ItemActions) > 0; planned != (name == "seen") {
			return fmt.Errorf("an action was planned for the Backup %s: %t", b.Name, planned)
		}
		*seconds = append(*seconds, took)
	}
	return nil
}

// measureInProcess runs the engine by itself, with and without an action in the same
// process.
func (i *items) measureInProcess(ctx context.Context, e *environment, rounds int, namespaces []string) error {
	cluster, err := backup.NewCluster(e.plane.Config(), rawclient.ListOptions{})
	if err != nil {
		return err
	}
	engine := backup.New(cluster, backup.Options{})
	for range rounds {
		for seconds, actions := range map[*[]float64][]itemaction.BackupAction{&i.engine: nil, &i.inProcess: {idle{}}} {
			start := time.Now()
			result, err := engine.WriteArchive(ctx, backup.ArchiveRequest{
				Selection: selection.Spec{IncludedNamespaces: namespaces}, StartTime: start, Actions: actions,
			}, io.Discard)
			if err != nil {
				return err
			}
			if result.Items < i.objects || result.Results.ErrorCount > 0 {
				return fmt.Errorf("the engine archived %d objects of %d, with %d errors", result.Items, i.objects, result.Results.ErrorCount)
			}
			*seconds = append(*seconds, time.Since(start).Seconds())
		}
	}
	return nil
}

// idle is an action in the same process that does nothing.
type idle struct{}

func (idle) Name() string { return "idle" }

func (idle) AppliesTo(schema.GroupResource) bool { return true }

func (idle) Execute(context.Context, itemaction.BackupItem) (itemaction.Result, error) {
	return itemaction.Result{}, nil
}

// figures of actions on objects.
func (i *items) figures() []figure {
	each := func(seconds float64) float64 { return seconds * 1000 / float64(i.objects) }
	return []figure{
		newFigure("added for each object by an action of a plugin that does nothing", "ms",
			each(raw.Median(i.with)-raw.Median(i.without)), each(i.limit.Seconds), itemTarget),
		newFigure("added for each object by an action in the same process", "µs",
			1000*each(raw.Median(i.inProcess)-raw.Median(i.engine)), 0, inProcessTarget),
	}
}
