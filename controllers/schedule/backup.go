// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/retention"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

// cancelReplacedBackups cancels the Backups that a newer one replaces.
func (p *reconcileScope) cancelReplacedBackups(ctx context.Context) error {
	for _, name := range p.decision.Cancel {
		b := p.observed.backups[name].DeepCopy()
		if b.Spec.DesiredState == v1alpha1.DesiredStateCancel {
			continue
		}
		// Without a resource version: a running Backup changes all the time.
		patch := client.MergeFrom(b.DeepCopy())
		b.Spec.DesiredState = v1alpha1.DesiredStateCancel
		if err := p.r.Client.Patch(ctx, b, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("canceling Backup %s, which a newer one replaces: %w", name, err)
		}
		p.emitEvent(ctx, b, corev1.EventTypeNormal, v1alpha1.ReasonReplaced, "Cancel",
			"Canceled Backup "+name+" for a newer one: concurrencyPolicy is Replace")
	}
	return nil
}

// createDueBackup creates the Backup that is due or was requested. If that fails, nothing is recorded.
func (p *reconcileScope) createDueBackup(ctx context.Context) {
	due := p.decision.Create
	if due == nil {
		return
	}
	b := newBackup(p.s, *due)
	err := p.r.Client.Create(ctx, b)
	switch {
	case err == nil:
		p.backupCreated = true
		p.observed.runs = append(p.observed.runs, retention.ToRuns(p.s.Name, []v1alpha1.Backup{*b})...)
		p.r.Metrics.recordCreated(p.s.Name)
		note := fmt.Sprintf("Created Backup %s for %s", b.Name, due.Scheduled.Format(time.RFC3339))
		if due.Request != "" {
			note = fmt.Sprintf("Created Backup %s, requested manually", b.Name)
		}
		p.emitEvent(ctx, b, corev1.EventTypeNormal, v1alpha1.ReasonBackupCreated, "Create", note)
	case apierrors.IsAlreadyExists(err):
		p.resolveNameConflict(ctx, b)
	default:
		p.createError = fmt.Errorf("creating Backup %s: %w", b.Name, err)
	}
}

// resolveNameConflict handles an existing Backup that has the name of the one to create.
func (p *reconcileScope) resolveNameConflict(ctx context.Context, b *v1alpha1.Backup) {
	var there v1alpha1.Backup
	if err := p.r.Reader.Get(ctx, client.ObjectKeyFromObject(b), &there); err != nil {
		p.createError = fmt.Errorf("reading Backup %s, which already exists: %w", b.Name, err)
		return
	}
	if _, created := retention.NominalTimeBy(&there, p.s.Name); created {
		return // it was created before, but the cache does not contain it yet
	}
	due := p.decision.Create
	p.decision.Create = nil
	if due.Request != "" {
		p.decision.RunRequest = &schedule.HandledRequest{
			Value: due.Request, Reason: v1alpha1.ReasonNameTaken,
			Message: fmt.Sprintf("there is a Backup %s that this Schedule did not create; request a run again", b.Name),
		}
		return
	}
	t := p.decision.LastSchedule
	p.decision.LastSchedule = fromStatusTime(p.original.Status.LastScheduleTime)
	p.decision.LastSkipped = t
	p.decision.Skipped = append(p.decision.Skipped, schedule.Skip{
		Reason: v1alpha1.ReasonNameTaken, Time: t,
		Message: fmt.Sprintf("nothing ran at %s: there is a Backup %s that this Schedule did not create; rename the Schedule, or remove what creates it",
			t.Format(time.RFC3339), b.Name),
	})
}

// newBackup returns the Backup of a Schedule for a time.
func newBackup(s *v1alpha1.Schedule, due schedule.RunToCreate) *v1alpha1.Backup {
	labels, annotations := templateMetadata(s)
	labels[v1alpha1.LabelScheduleName] = names.LabelValue(s.Name)
	annotations[v1alpha1.AnnotationScheduledTime] = due.Scheduled.Format(time.RFC3339)
	delete(annotations, v1alpha1.AnnotationRunRequestedAt)
	if due.Request != "" {
		annotations[v1alpha1.AnnotationRunRequestedAt] = due.Request
	}
	b := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: due.Name, Labels: labels, Annotations: annotations},
		Spec:       *s.Spec.Template.Spec.DeepCopy(),
	}
	b.Spec.DesiredState, b.Spec.ImportedFrom = v1alpha1.DesiredStateRun, nil
	if b.Spec.TTL == nil && s.Spec.KeepSucceeded != nil {
		b.Spec.TTL = &metav1.Duration{} // the number determines how long it is kept, and not the default of the operator
	}
	if stored := b.Spec.Metadata; stored != nil {
		// An import of the backup from its location also sets these.
		for key := range stored.Labels {
			if names.IsTrackingKey(key) {
				delete(stored.Labels, key)
			}
		}
	}
	return b
}

// templateMetadata returns the labels and annotations of the template for Backups. Neither is nil.
func templateMetadata(s *v1alpha1.Schedule) (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, map[string]string{}
	for key, value := range s.Spec.Template.Metadata.Labels {
		if !names.IsTrackingKey(key) {
			labels[key] = string(value)
		}
	}
	for key, value := range s.Spec.Template.Metadata.Annotations {
		if !names.IsTrackingKey(key) {
			annotations[key] = string(value)
		}
	}
	return labels, annotations
}

// isNamespaceTerminating reports whether a creation failed because the namespace is being deleted,
// and the Schedule with it.
func isNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
