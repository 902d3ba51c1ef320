// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

// measureDeletionLimit measures the limit of deletions: the same writes to the API and calls of the
// store, by as many workers as there are slots, while no operator runs. A DeletionRun that has ended
// is the pattern.
func (m *deleted) measureDeletionLimit(ctx context.Context, e *environment) error {
	if err := m.storeAllExpired(ctx, e); err != nil {
		return err
	}
	var deletions v1alpha1.DeletionRunList
	var backups v1alpha1.BackupList
	if err := errors.Join(
		e.client.List(ctx, &deletions, client.InNamespace(operator.Namespace), client.Limit(1)),
		e.client.List(ctx, &backups, client.InNamespace(operator.Namespace)),
	); err != nil {
		return fmt.Errorf("listing the Backups and DeletionRuns: %w", err)
	}
	if len(deletions.Items) == 0 {
		return errors.New("the DeletionRuns no longer exist")
	}
	stored := slices.DeleteFunc(backups.Items, func(b v1alpha1.Backup) bool { return b.Spec.TTL == nil })
	requests, err := deletionRequests(e.client, &deletions.Items[0], stored)
	if err != nil {
		return err
	}
	var sent raw.SendTimes
	if err := e.askLimit(ctx, requests, &sent, "send"); err != nil {
		return err
	}
	removing, err := removeStored(ctx, e, stored)
	m.deletionLimit = sent.Seconds + removing
	e.note("The same writes take %.1f s, and the same calls of the store %.1f s", sent.Seconds, removing)
	return err
}

// deletionRequests returns the writes of each deletion: the creation of the DeletionRun, its record on
// the Backup, its status, the deletion of the Backup, and the removal of the finalizers.
func deletionRequests(c client.Client, ended *v1alpha1.DeletionRun, backups []v1alpha1.Backup) (raw.SendRequest, error) {
	created := &v1alpha1.DeletionRun{Spec: ended.Spec}
	record, err1 := finalizersPatch([]string{v1alpha1.FinalizerStoredData})
	remove, err2 := finalizersPatch(nil)
	if err := errors.Join(err1, err2); err != nil {
		return raw.SendRequest{}, err
	}
	runsPath := fmt.Sprintf("/apis/%s/namespaces/%s/deletionruns", v1alpha1.GroupVersion, operator.Namespace)
	backupsPath := fmt.Sprintf("/apis/%s/namespaces/%s/backups", v1alpha1.GroupVersion, operator.Namespace)
	var steps [][]raw.Message
	for i := range backups {
		created.ObjectMeta = metav1.ObjectMeta{
			Namespace: operator.Namespace, Name: fmt.Sprintf("limit-%05d", i), Finalizers: []string{v1alpha1.FinalizerRun},
		}
		body, err := encode(c, created)
		if err != nil {
			return raw.SendRequest{}, err
		}
		run, backup := runsPath+"/"+created.Name, backupsPath+"/"+backups[i].Name
		messages := []raw.Message{
			{Path: runsPath, Body: body},
			{Path: backup, Patch: true, Body: record},
		}
		for _, message := range []string{"queued", "surveying", "planned", "removed", "destroyed"} {
			status := ended.Status
			status.Message = message
			patch, err := json.Marshal(map[string]any{"status": status})
			if err != nil {
				return raw.SendRequest{}, fmt.Errorf("encoding a patch: %w", err)
			}
			messages = append(messages, raw.Message{Path: run + "/status", Patch: true, Body: patch})
		}
		messages = append(messages,
			raw.Message{Path: backup, Delete: true},
			raw.Message{Path: backup, Patch: true, Body: remove},
			raw.Message{Path: run, Patch: true, Body: remove})
		if steps == nil {
			steps = make([][]raw.Message, len(messages))
		}
		for step := range messages {
			steps[step] = append(steps[step], messages[step])
		}
	}
	return raw.SendRequest{Workers: deletionSlots, Steps: steps}, nil
}

func finalizersPatch(finalizers []string) (json.RawMessage, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return patch, nil
}

// removeStored removes the files of Backups, and returns how many seconds it took.
func removeStored(ctx context.Context, e *environment, backups []v1alpha1.Backup) (seconds float64, err error) {
	objects, err := filesystem.Open(filepath.Dir(e.store()), filepath.Base(e.store()))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, objects.Close()) }()
	store := storage.New(objects, "")
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletionSlots)
	for i := range backups {
		group.Go(func() error {
			if _, _, err := store.ReadManifest(ctx, backups[i].Name); err != nil {
				return err
			}
			return store.DeleteOwned(ctx, backups[i].Name, string(backups[i].UID))
		})
	}
	err = group.Wait()
	return time.Since(began).Seconds(), err
}
