// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
)

// ChooseLocation returns the name of the location of a run, for reading or for
// writing too, if it can be used now. What is wrong with it is a problem; what may
// still come is waited for: a location that does not exist may come from the same
// kubectl apply as the run.
func (d *Driver[T]) ChooseLocation(ctx context.Context, s *Scope[T], wanted string, write bool) (name string, waiting bool, problems []string, err error) {
	choice, err := location.Choose(ctx, d.Client, s.Object.GetNamespace(), wanted, write)
	switch {
	case err != nil:
		return "", false, nil, err
	case choice.Waiting != "":
		s.Waiting(v1alpha1.ReasonWaitingForLocation, choice.Waiting)
		return "", true, nil, nil
	case choice.Missing != "":
		return "", d.grace(s, choice.Missing), []string{choice.Missing}, nil
	case choice.Problem != "":
		return "", false, []string{choice.Problem}, nil
	}
	return choice.Location.Name, false, nil, nil
}

// Prefix returns below which prefix of its location the files of a run are, and
// false if the location is gone.
func (d *Driver[T]) Prefix(ctx context.Context, object T) (prefix string, there bool) {
	var location v1alpha1.BackupStorageLocation
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: d.Location(object)}
	if err := d.Client.Get(ctx, key, &location); err != nil {
		return "", false
	}
	return location.Spec.Prefix, true
}

// grace says whether a location that does not exist is waited for.
func (d *Driver[T]) grace(s *Scope[T], missing string) bool {
	wait := s.Object.GetCreationTimestamp().Add(locationGrace).Sub(d.Now())
	if wait <= 0 {
		return false
	}
	s.Waiting(v1alpha1.ReasonWaitingForLocation, "Waiting a moment for the location: "+missing)
	s.Again(wait)
	return true
}
