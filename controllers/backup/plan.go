// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// plan validates the Backup, waits for a slot, takes the name in the store and
// records what will run. Nothing runs before, and nothing is owed.
func (r *Reconciler) plan(ctx context.Context, s *scope, plugins []v1alpha1.Plugin) (bool, error) {
	where, waiting, problems, err := r.driver.ChooseLocation(ctx, s, s.Object.Spec.StorageLocation, true)
	if err != nil || waiting {
		return false, err
	}
	if where != "" {
		s.Object.Status.StorageLocation = where
	}
	hooks, loading := run.Backup.HooksOf(s.Object, plugins)
	if loading != "" {
		s.AwaitPlugin(loading)
		return false, nil
	}
	errs := slices.Concat(validate(s.Object), problems, hooks.Errors)
	if len(errs) > 0 {
		return r.reject(s, errs, len(problems) == 0), nil
	}
	if !r.driver.Acquire(s) {
		return r.queued(s), nil
	}
	return r.begin(ctx, s)
}

// reject ends the Backup with everything that is wrong, which includes a name
// that is taken.
func (r *Reconciler) reject(s *scope, errs []string, located bool) bool {
	if located && backupstore.ValidateName(s.Object.Name) == nil {
		checked := r.check(s)
		if checked == nil {
			return false
		}
		errs = append(errs, r.storeProblems(s.Object.Status.StorageLocation, checked.Err)...)
	}
	s.Invalid(errs, r.Now())
	return true
}

// queued waits for a slot. What is wrong with the name is told before that.
func (r *Reconciler) queued(s *scope) bool {
	checked := r.check(s)
	if checked == nil {
		return false
	}
	if problems := r.storeProblems(s.Object.Status.StorageLocation, checked.Err); len(problems) > 0 {
		s.Invalid(problems, r.Now())
		return true
	}
	r.driver.AwaitSlot(s)
	return false
}

// check asks the store whether the name is free.
func (r *Reconciler) check(s *scope) *run.Ended[run.None] {
	s.Waiting(v1alpha1.ReasonValidating, "Asking the storage location whether the name is free")
	return run.InStore(r.driver, s, stepCheck, r.requestOf, run.Doing(r.Job.Check))
}

// begin takes the name and records the plan. It is made of what the API server
// says now, not of what a watch brought so far: a Plugin that was applied right
// before the Backup must not be left out.
func (r *Reconciler) begin(ctx context.Context, s *scope) (bool, error) {
	s.Waiting(v1alpha1.ReasonValidating, "Taking the name in the storage location")
	claimed := run.InStore(r.driver, s, stepClaim, r.requestOf, r.claim)
	if claimed == nil {
		return false, nil
	}
	if problems := r.storeProblems(s.Object.Status.StorageLocation, claimed.Err); len(problems) > 0 {
		s.Invalid(problems, r.Now())
		return true, nil
	}
	hooks, loading := run.Backup.HooksOf(s.Object, claimed.Value)
	switch {
	case loading != "":
		r.driver.Restart(s, stepClaim)
		s.AwaitPlugin(loading)
		s.Again(time.Second) // until the watch has brought what was read directly
		return false, nil
	case len(hooks.Errors) > 0:
		s.Invalid(hooks.Errors, r.Now())
		return true, nil
	}
	s.Object.Status.FormatVersion = job.FormatVersion
	if ttl := s.Object.Spec.TTL; ttl != nil {
		expiration := metav1.NewTime(r.Now().Add(ttl.Duration))
		s.Object.Status.Expiration = &expiration
	}
	return true, r.driver.Record(ctx, s, hooks)
}

// claim takes the name and reads the Plugins meanwhile.
func (r *Reconciler) claim(ctx context.Context, store *backupstore.Store, request job.Request) ([]v1alpha1.Plugin, error) {
	type read struct {
		plugins []v1alpha1.Plugin
		err     error
	}
	reading := make(chan read, 1)
	go func() {
		plugins, err := r.driver.Plugins(ctx, r.Reader)
		reading <- read{plugins, err}
	}()
	err := r.Job.Claim(ctx, store, request)
	got := <-reading
	if err == nil {
		err = got.err
	}
	return got.plugins, err
}

// storeProblems says what a person can do about what the store answered.
func (r *Reconciler) storeProblems(location string, err error) []string {
	if err == nil {
		return nil
	}
	message := r.Redactor.String(err.Error())
	if job.IsTaken(err) {
		return []string{message + "; choose another name, or remove that backup first"}
	}
	return []string{fmt.Sprintf("BackupStorageLocation %s can not be used: %s", location, message)}
}
