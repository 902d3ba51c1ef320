// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
)

// ChooseLocation returns the name of the location of a run, if it can be used now for the given
// purpose. Otherwise it returns the problems, also while the run waits for them to be solved;
// see AwaitAdmission and AwaitLocationRecovery.
func (d *Driver[T]) ChooseLocation(ctx context.Context, s *Scope[T], wanted string, use location.Use) (name string, waiting bool, problems []string, err error) {
	choice, err := location.Choose(ctx, d.Client, s.Object.GetNamespace(), wanted, use)
	switch {
	case err != nil:
		return "", false, nil, err
	case choice.Waiting != "":
		s.MarkWaiting(v1alpha1.ReasonWaitingForLocation, choice.Waiting)
		return "", true, nil, nil
	case choice.Missing != "":
		problems = []string{choice.Missing}
		return "", d.AwaitAdmission(s, v1alpha1.ReasonWaitingForLocation, problems), problems, nil
	case choice.Problem != "":
		// Its Secret may come from the same kubectl apply, too. A DeletionRun has its own way to
		// wait.
		problems = []string{choice.Problem}
		return "", !d.Kind.HasSingleHookPoint() && d.AwaitLocationRecovery(s, problems), problems, nil
	}
	return choice.Location.Name, false, nil, nil
}

// LocationPrefix returns the prefix of the files of a run in its location, and false if the
// location does not exist.
func (d *Driver[T]) LocationPrefix(ctx context.Context, object T) (prefix string, there bool) {
	var location v1alpha1.BackupStorageLocation
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: d.Location(object)}
	if err := d.Client.Get(ctx, key, &location); err != nil {
		return "", false
	}
	return location.Spec.Prefix, true
}
