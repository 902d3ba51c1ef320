// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/panics"
)

// exploding panics where something is listed.
type exploding struct{ client.Reader }

// List implements client.Reader.
func (exploding) List(context.Context, client.ObjectList, ...client.ListOption) error { panic("boom") }

// TestClaimNameAndListPlugins_Panic checks that a panic while listing the Plugins becomes an
// error of the Backup that claims its name meanwhile, and does not end the operator.
func TestClaimNameAndListPlugins_Panic(t *testing.T) {
	r := &Reconciler{
		Dependencies: run.Dependencies{Reader: exploding{}}, Runner: &job.Runner{Now: time.Now}, driver: &run.Driver[*v1alpha1.Backup]{Kind: run.BackupKind},
	}
	_, err := r.claimNameAndListPlugins(t.Context(), backupstore.New(memory.New(), ""), job.Request{Namespace: "ns", Name: "nightly", UID: "u-1"})
	if !errors.As(err, new(*panics.Error)) {
		t.Errorf("the error is %v", err)
	}
}
