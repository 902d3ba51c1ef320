// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/runner"
)

// The steps of a run that take time. The runner carries them out.
const (
	stepCheck   = "check"
	stepClaim   = "claim"
	stepArchive = "archive"
	stepRelease = "release"
	stepAbandon = "abandon"
	stepPostLog = "postlog"
)

func steps() []string {
	return []string{stepCheck, stepClaim, stepArchive, stepRelease, stepAbandon, stepPostLog}
}

// stepResult is what a step found out; each fills what it knows.
type stepResult struct {
	plugins []v1alpha1.Plugin
	made    job.Result
	logged  bool
}

type (
	ended = runner.Outcome[stepResult]
	store = location.Store
)

func stepID(uid types.UID, step string) string { return string(uid) + "/" + step }

var errStopped = errors.New("the backup is being cancelled")

// inStore carries out a step with the open location. It returns nil while the
// step runs; the step begins once the status of this pass is written.
func (r *Reconciler) inStore(
	ctx context.Context, s *scope, step string, bsl *v1alpha1.BackupStorageLocation,
	work func(context.Context, *store, job.Request) (stepResult, error),
) (*ended, error) {
	id := stepID(s.backup.UID, step)
	if outcome, known := r.steps.State(id); known {
		return outcome, nil
	}
	s.then(func(context.Context) error {
		request, err := r.requestOf(s)
		if err != nil {
			return err
		}
		started := r.steps.Ensure(id, ownerOf(s.backup), func(ctx context.Context) (stepResult, error) {
			return r.withStore(ctx, s.backup, bsl, func(opened *store) (stepResult, error) {
				return work(ctx, opened, request)
			})
		})
		if !started {
			s.again(time.Second)
		}
		return nil
	})
	return nil, ctx.Err()
}

// withStore opens the location for the time of a step.
func (r *Reconciler) withStore(
	ctx context.Context, b *v1alpha1.Backup, bsl *v1alpha1.BackupStorageLocation, work func(*store) (stepResult, error),
) (result stepResult, err error) {
	if bsl == nil {
		bsl = &v1alpha1.BackupStorageLocation{}
		key := types.NamespacedName{Namespace: b.Namespace, Name: b.Status.StorageLocation}
		if err := r.Client.Get(ctx, key, bsl); err != nil {
			return stepResult{}, fmt.Errorf("reading BackupStorageLocation %s: %w", key.Name, err)
		}
	}
	opened, err := r.Opener.Open(ctx, bsl)
	if err != nil {
		return stepResult{}, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	return work(opened)
}

// stopSteps cancels steps, and says whether one still runs.
func (r *Reconciler) stopSteps(uid types.UID, names ...string) (busy bool) {
	for _, name := range names {
		id := stepID(uid, name)
		if outcome, known := r.steps.State(id); known && outcome == nil {
			r.steps.Cancel(id, errStopped)
			busy = true
		}
	}
	return busy
}

// The pause before a step after the outcome is repeated, and how long it is: a
// store that is gone must not hold a Backup for ever.
const (
	retryPause = 5 * time.Second
	retryLimit = 10 * time.Minute
)

// repeatStep plans to carry out a failed step again. When it failed for too long
// it is given up, which somebody should know; so it is at once when a Backup is
// deleted whose location is gone.
func (r *Reconciler) repeatStep(s *scope, step, what string, err error) bool {
	message := what + " failed: " + r.Redactor.String(err.Error())
	// Of a namespace that is being deleted the location goes first, and no other
	// can be created in its place.
	hopeless := apierrors.IsNotFound(err) && !s.backup.DeletionTimestamp.IsZero()
	if hopeless || r.Now().Sub(s.backup.Status.CompletionTimestamp.Time) > retryLimit {
		s.then(func(ctx context.Context) error {
			r.event(ctx, s.backup, corev1.EventTypeWarning, "LogLost", "Finish", message+"; it is not tried again")
			return nil
		})
		return false
	}
	s.finishing(v1alpha1.ReasonStoringLogs, message+"; it is tried again")
	s.again(retryPause)
	s.then(func(context.Context) error {
		r.steps.Forget(stepID(s.backup.UID, step))
		return nil
	})
	return true
}

// storeProblems says what a person can do about what the store answered.
func (r *Reconciler) storeProblems(location string, answered *ended) []string {
	if answered.Err == nil {
		return nil
	}
	message := r.Redactor.String(answered.Err.Error())
	if job.IsTaken(answered.Err) {
		return []string{message + "; choose another name, or remove that backup first"}
	}
	return []string{fmt.Sprintf("BackupStorageLocation %s can not be used: %s", location, message)}
}

// plugins lists every Plugin.
func (r *Reconciler) plugins(ctx context.Context, reader client.Reader) ([]v1alpha1.Plugin, error) {
	var list v1alpha1.PluginList
	if err := reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing the Plugins: %w", err)
	}
	return list.Items, nil
}
