// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

// emitDecisionEvents emits events for skipped times, once they are recorded in the status.
func (p *reconcileScope) emitDecisionEvents(ctx context.Context) {
	was := &p.original.Status
	if p.createError != nil {
		if was.Message != p.s.Status.Message {
			p.emitEvent(ctx, nil, corev1.EventTypeWarning, v1alpha1.ReasonBackupNotCreated, "Create", p.s.Status.Message)
		}
		return
	}
	for _, skip := range p.decision.Skipped {
		told := skip.Time.Equal(fromStatusTime(was.LastSkippedTime)) && string(skip.Reason) == was.LastSkippedReason
		if skip.Reason == schedule.ReasonTooManyMissed {
			told = !p.backupCreated
		}
		if told {
			continue
		}
		p.r.Metrics.recordSkipped(p.s.Name, string(skip.Reason))
		p.emitEvent(ctx, nil, eventTypeForReason(skip.Reason), v1alpha1.ReasonSkipped, string(skip.Reason), skip.Message)
	}
	p.emitRunRequestEvent(ctx)
}

// emitRunRequestEvent emits an event for a request that created no Backup, once it is recorded as handled.
func (p *reconcileScope) emitRunRequestEvent(ctx context.Context) {
	if request := p.decision.RunRequest; request != nil && request.Message != "" {
		p.emitEvent(ctx, nil, eventTypeForReason(request.Reason), v1alpha1.ReasonRunRequestIgnored, string(request.Reason),
			"No Backup was created on request: "+request.Message)
	}
}

// eventTypeForReason returns Warning if a person should check why no Backup was created.
func eventTypeForReason(reason schedule.SkipReason) string {
	switch reason {
	case schedule.ReasonSuspended, schedule.ReasonSkipImmediately, schedule.ReasonConcurrencyForbid,
		schedule.ReasonOutdated, schedule.ReasonRunExists:
		return corev1.EventTypeNormal // as configured
	default:
		return corev1.EventTypeWarning
	}
}

// emitEvent logs a message and emits an event about the Schedule, optionally related to a Backup.
func (p *reconcileScope) emitEvent(ctx context.Context, about *v1alpha1.Backup, level, reason, action, note string) {
	note = executor.OneLine(note)
	ctrl.LoggerFrom(ctx).Info(note, "reason", reason)
	if about == nil {
		p.r.Recorder.Eventf(p.s, nil, level, reason, action, "%s", note)
		return
	}
	p.r.Recorder.Eventf(p.s, about, level, reason, action, "%s", note)
}
