// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backup/job"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// Opener opens a location.
type Opener interface {
	Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*location.Store, error)
}

// Reconciler moves Backups through their life. Every field without a default is
// required.
type Reconciler struct {
	Client client.Client
	// Reader reads past the cache.
	Reader   client.Reader
	Opener   Opener
	Job      *job.Job
	Logs     *runlog.Book
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	// Metrics is where the metrics are registered.
	Metrics prometheus.Registerer
	// MaxConcurrent is how many Backups may run at a time; 4 by default.
	MaxConcurrent int
	// AllVersions archives every served version of a group.
	AllVersions bool
	// Now is the clock; time.Now by default.
	Now func() time.Time

	driver   *run.Driver[*v1alpha1.Backup]
	metrics  *metrics
	progress run.Progress
}

// scope is one pass over one Backup.
type scope = run.Scope[*v1alpha1.Backup]

// SetupWithManager registers the controller and its background steps.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Opener == nil || r.Job == nil || r.Logs == nil || r.Metrics == nil {
		return errors.New("backup: a required field of the Reconciler is missing")
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	var err error
	if r.metrics, err = newMetrics(r.Metrics); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	r.driver = &run.Driver[*v1alpha1.Backup]{
		Kind: run.Backup, Client: r.Client, Reader: r.Reader, Recorder: r.Recorder, Redactor: r.Redactor,
		Metrics: r.Metrics, Schedule: scheduleOf, Slots: r.MaxConcurrent, Now: r.Now,
		New:     func() *v1alpha1.Backup { return &v1alpha1.Backup{} },
		NewList: func() client.ObjectList { return &v1alpha1.BackupList{} },
		Ignore:  func(b *v1alpha1.Backup) bool { return b.Spec.ImportedFrom != nil }, // a catalogue entry is never run
		Steps:   []string{stepCheck, stepClaim, stepArchive, stepRelease, stepAbandon, run.StepPostLog},
		Written: r.metrics.record, Forget: r.forget,
	}
	r.driver.Phases = []run.Phase[*v1alpha1.Backup]{
		r.plan, r.driver.PreActions, r.archive, r.abandon, r.driver.PostActions, r.driver.Finish(r.storePostLog, r.name),
	}
	controller, err := r.driver.Setup(mgr, "backup")
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return controller.Complete(r.driver)
}

// forget drops what this process knows of a Backup that is over.
func (r *Reconciler) forget(uid types.UID) {
	r.progress.Drop(uid)
	r.Logs.Remove(string(uid))
}
