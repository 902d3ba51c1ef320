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
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
)

// exploding panics where something is listed.
type exploding struct{ client.Reader }

// List implements client.Reader.
func (exploding) List(context.Context, client.ObjectList, ...client.ListOption) error { panic("boom") }

// TestClaimNameAndListPlugins_Panic checks that a panic while listing the Plugins becomes an
// error of the Backup that claims its name meanwhile, and does not end the operator.
func TestClaimNameAndListPlugins_Panic(t *testing.T) {
	r := &Reconciler{
		Dependencies: lifecycle.Dependencies{Reader: exploding{}}, Runner: &backup.Runner{Now: time.Now}, driver: &lifecycle.Driver[*v1alpha1.Backup]{Kind: lifecycle.BackupKind},
	}
	_, err := r.claimNameAndListPlugins(t.Context(), storage.New(memory.New(), ""), backup.Request{Namespace: "ns", Name: "nightly", UID: "u-1"})
	if !errors.As(err, new(*panics.Error)) {
		t.Errorf("the error is %v", err)
	}
}
