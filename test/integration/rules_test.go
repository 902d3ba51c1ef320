// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// checkRules checks what holds for every Backup, however it went, once it is done.
func checkRules(t testing.TB, s site, b *v1alpha1.Backup) {
	t.Helper()
	if t.Failed() {
		return // it may not have ended, and the reason is reported already
	}
	if latest(b).DeletionTimestamp.IsZero() {
		ended(t, b)
	} else {
		awaitGone(t, b)
	}
	last := latest(b)
	checkFinal(t, last)
	checkConditions(t, last)
	checkRuns(t, last)
	checkStore(t, s, last)
	checkSecrets(t, s, last)
}

// checkFinal checks that an outcome never changed.
func checkFinal(t testing.TB, b *v1alpha1.Backup) {
	t.Helper()
	var phase v1alpha1.RunPhase
	for _, version := range history(b) {
		if phase != "" && version.Status.Phase != phase {
			t.Errorf("the phase %s of Backup %s became %s", phase, b.Name, version.Status.Phase)
		}
		if version.Status.CompletionTimestamp != nil {
			phase = version.Status.Phase
		}
	}
	for _, run := range runsOf(b) {
		var phase v1alpha1.HookRunPhase
		for _, version := range history(run) {
			if phase != "" && version.Status.Phase != phase {
				t.Errorf("the phase %s of HookRun %s became %s", phase, run.Name, version.Status.Phase)
			}
			if version.Status.CompletionTimestamp != nil {
				phase = version.Status.Phase
			}
		}
	}
}

// checkConditions checks that the conditions say what the phase says.
func checkConditions(t testing.TB, b *v1alpha1.Backup) {
	t.Helper()
	good, bad := metav1.ConditionTrue, metav1.ConditionFalse
	if b.Status.Phase != v1alpha1.RunPhaseCompleted {
		good, bad = bad, good
	}
	for name, want := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionSucceeded: good, v1alpha1.ConditionReady: good,
		v1alpha1.ConditionReconciling: metav1.ConditionFalse, v1alpha1.ConditionStalled: bad,
	} {
		if got := conditionOf(b, name); got != want && b.DeletionTimestamp.IsZero() {
			t.Errorf("the condition %s of Backup %s, which ended %s, is %q, want %s", name, b.Name, b.Status.Phase, got, want)
		}
	}
	if conditionOf(b, v1alpha1.ConditionCleanupOwed) == metav1.ConditionTrue {
		t.Errorf("Backup %s still owes clean-up: %s", b.Name, describe(b))
	}
	if len(b.Finalizers) > 0 && b.DeletionTimestamp.IsZero() {
		t.Errorf("Backup %s keeps the finalizers %q", b.Name, b.Finalizers)
	}
}

// checkRuns checks that owed clean-up was done. That every HookRun has ended, and was
// let go, has been waited for.
func checkRuns(t testing.TB, b *v1alpha1.Backup) {
	t.Helper()
	for _, run := range runsOf(b) {
		if run.Spec.Hook == v1alpha1.HookPostBackup && run.Spec.Owed && run.Status.Phase != v1alpha1.HookRunPhaseCompleted {
			checkNotOwed(t, b, run)
		}
	}
}

// checkNotOwed checks that the PreBackup action to owed clean-up that did not run was
// never started, or that a person gave it up.
func checkNotOwed(t testing.TB, b *v1alpha1.Backup, post *v1alpha1.HookRun) {
	t.Helper()
	if b.Annotations[v1alpha1.AnnotationAbandonCleanup] == "true" {
		return
	}
	for _, run := range runsOf(b) {
		if run.Spec.Hook == v1alpha1.HookPreBackup && run.Spec.ActionName == post.Spec.ActionName && run.Status.StartTimestamp != nil {
			t.Errorf("PreBackup action %s of Backup %s was started and is not undone: %s", post.Spec.ActionName, b.Name, describe(post))
		}
	}
}

// checkStore checks that there is a whole backup in the store, or none and its name
// is free.
func checkStore(t testing.TB, s site, b *v1alpha1.Backup) {
	t.Helper()
	if b.Status.StorageLocation == "" {
		return // it was not validated so far
	}
	ctx := context.WithoutCancel(t.Context())
	store := s.open(ctx, t, b.Status.StorageLocation)
	if b.Status.Phase == v1alpha1.RunPhaseCompleted || b.Status.Phase == v1alpha1.RunPhasePartiallyFailed {
		_, manifest, err := store.ReadManifest(ctx, b.Name)
		if err != nil || manifest == nil || manifest.BackupUID != string(b.UID) {
			t.Errorf("the manifest of Backup %s is not its own: %v, %v", b.Name, manifest, err)
		}
		if err := store.Verify(ctx, b.Name); err != nil {
			t.Error(err)
		}
		return
	}
	var taken *storage.TakenError
	err := store.CheckClaim(ctx, b.Name, "another")
	if errors.As(err, &taken) && b.Status.StartTimestamp == nil {
		return // another one has the name
	}
	if err != nil {
		t.Errorf("the name of Backup %s, which ended %s, is not free: %v", b.Name, b.Status.Phase, err)
	}
	if _, err := store.GetFile(ctx, b.Name, storage.Contents); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("an archive of Backup %s, which ended %s, is left over: %v", b.Name, b.Status.Phase, err)
	}
}

// secrets are what the plugins of the tests know and must never be visible.
func secrets() []string {
	return []string{"hunter2", "abcdef123456", "k-123456", "MIIEvQIBADANBg", env.FaultPluginToken}
}

// checkSecrets checks that no secret is in what users read about a Backup.
func checkSecrets(t testing.TB, s site, b *v1alpha1.Backup) {
	t.Helper()
	told := map[string]any{"Backup": b, "events": eventsOf(b)}
	for _, run := range runsOf(b) {
		told["HookRun "+run.Name], told["events of "+run.Name] = history(run), eventsOf(run)
	}
	if b.Status.StorageLocation != "" {
		for _, file := range []storage.File{storage.Logs, storage.PostLogs, storage.Results} {
			told[string(file)] = s.file(t, b, file)
		}
	}
	for where, what := range told {
		text, err := json.Marshal(what)
		Expect(err).NotTo(HaveOccurred())
		for _, secret := range secrets() {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s of Backup %s has the secret %q:\n%s", where, b.Name, secret, text)
			}
		}
	}
}
