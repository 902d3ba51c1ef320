// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

const (
	// actionUnquiesce is the action of the events.
	actionUnquiesce = "Unquiesce"
	// maxNamed is how many workloads an event names.
	maxNamed = 5
)

// The causes in the events about a workload.
const (
	causeOverdue   = "it was quiesced for as long as maxQuiesceDuration allows, and the run that quiesced it had not ended"
	causeAbandoned = "the run that quiesced it ended without unquiescing it, or no longer exists"
)

// releaseEventReason returns the reason and the cause for an event about a workload that had these
// holders.
func releaseEventReason(holders, ended []string) (reason, cause string) {
	counts := func(uid string) bool { return !slices.Contains(ended, uid) }
	if len(holders) > 0 && !slices.ContainsFunc(holders, counts) {
		return v1alpha1.ReasonQuiesceAbandoned, causeAbandoned
	}
	return v1alpha1.ReasonQuiesceOverdue, causeOverdue
}

// emitReleaseEvents emits events about the workloads whose holds had expired, or whose holders had
// ended. A workload that needed no change gets none.
func (r *Reconciler) emitReleaseEvents(ctx context.Context, due map[quiesce.Ref]*metav1.PartialObjectMetadata, ended []string, result quiesce.Result) {
	lost := map[types.UID][]string{}
	for _, item := range result.Items {
		object, known := due[item.Ref]
		reason, cause := releaseEventReason(item.Holders, ended)
		switch {
		case !known:
			continue
		case item.Outcome == quiesce.Restored:
			r.emitWarningEvent(object, reason, "It was unquiesced: "+cause)
		case item.Outcome == quiesce.ChangedSince && item.RanWhileHeld:
			r.emitWarningEvent(object, reason, "It is left unchanged: it "+item.Text+"; "+cause)
		case item.Outcome == quiesce.Failed || item.Outcome == quiesce.Unreadable:
			r.emitWarningEvent(object, reason, "It could not be unquiesced yet: it "+item.Text+"; "+cause)
			continue
		default:
			continue
		}
		for _, holder := range item.Holders {
			lost[types.UID(holder)] = append(lost[types.UID(holder)], item.Ref.String())
		}
	}
	if len(lost) == 0 {
		return
	}
	runs, err := r.listBackupsAndRestores(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Emitting events for the runs whose workloads were quiesced too long failed")
		return
	}
	for _, run := range runs {
		names := lost[run.GetUID()]
		switch {
		case len(names) == 0:
		case slices.Contains(ended, string(run.GetUID())):
			r.emitWarningEvent(run, v1alpha1.ReasonQuiesceAbandoned, "Its workloads were still quiesced after it had ended, and were unquiesced: "+joinAbbreviated(names))
		default:
			r.emitWarningEvent(run, v1alpha1.ReasonQuiesceOverdue, fmt.Sprintf("Its workloads were quiesced for as long as maxQuiesceDuration allows, and it had not ended. "+
				"They run again, and may change while they are read; if the run needs longer, raise maxQuiesceDuration of its Plugin: %s", joinAbbreviated(names)))
		}
	}
}

func (r *Reconciler) emitWarningEvent(object client.Object, reason, text string) {
	r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, reason, actionUnquiesce, "%s", executor.OneLine(text))
}

// joinAbbreviated names the first maxNamed workloads and counts the others.
func joinAbbreviated(names []string) string {
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
