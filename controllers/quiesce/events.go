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

	"github.com/grapnel-dev/grapnel/internal/executor"
	workloads "github.com/grapnel-dev/grapnel/internal/quiesce"
	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

const (
	// ReasonQuiesceOverdue surfaces when a workload was quiesced for as long as it may.
	ReasonQuiesceOverdue = "QuiesceOverdue"
	// ReasonQuiesceAbandoned surfaces when a workload was still quiesced for runs of which none
	// would give it back.
	ReasonQuiesceAbandoned = "QuiesceAbandoned"
	// actionUnquiesce is what was done about it.
	actionUnquiesce = "Unquiesce"
	// maxNamed is how many workloads an event names.
	maxNamed = 5
)

// The two causes of a give-back, as a workload is told.
const (
	causeOverdue   = "it was quiesced for as long as maxQuiesceDuration allows, and the run that had it quiesced had not ended"
	causeAbandoned = "the run that had it quiesced has ended without giving it back, or does not exist any more"
)

// releaseEventReason returns the reason of an event about a workload that had these holders, and what
// it says.
func releaseEventReason(holders, ended []string) (reason, cause string) {
	counts := func(uid string) bool { return !slices.Contains(ended, uid) }
	if len(holders) > 0 && !slices.ContainsFunc(holders, counts) {
		return ReasonQuiesceAbandoned, causeAbandoned
	}
	return ReasonQuiesceOverdue, causeOverdue
}

// emitReleaseEvents says what became of the workloads whose time was over, or whose holders had ended. That
// nothing had to be done about one is not worth a warning.
func (r *Reconciler) emitReleaseEvents(ctx context.Context, due map[state.Ref]*metav1.PartialObjectMetadata, ended []string, result workloads.Result) {
	lost := map[types.UID][]string{}
	for _, item := range result.Items {
		object, known := due[item.Ref]
		reason, cause := releaseEventReason(item.Holders, ended)
		switch {
		case !known:
			continue
		case item.Outcome == state.Restored:
			r.emitWarningEvent(object, reason, "It was given back: "+cause)
		case item.Outcome == state.ChangedSince && item.RanWhileHeld:
			r.emitWarningEvent(object, reason, "It is left as it is: it "+item.Text+"; "+cause)
		case item.Outcome == workloads.Failed || item.Outcome == state.Unreadable:
			r.emitWarningEvent(object, reason, "It could not be given back yet: it "+item.Text+"; "+cause)
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
		ctrl.LoggerFrom(ctx).Error(err, "Nobody could be told for whom workloads were quiesced too long")
		return
	}
	for _, run := range runs {
		names := lost[run.GetUID()]
		switch {
		case len(names) == 0:
		case slices.Contains(ended, string(run.GetUID())):
			r.emitWarningEvent(run, ReasonQuiesceAbandoned, "Its workloads were still quiesced after it had ended, and were given back: "+joinAbbreviated(names))
		default:
			r.emitWarningEvent(run, ReasonQuiesceOverdue, fmt.Sprintf("Its workloads were quiesced for as long as maxQuiesceDuration allows, and it had not ended. "+
				"They run again, and may be changed while they are read; if it needs longer, raise maxQuiesceDuration of its Plugin: %s", joinAbbreviated(names)))
		}
	}
}

func (r *Reconciler) emitWarningEvent(object client.Object, reason, text string) {
	r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, reason, actionUnquiesce, "%s", executor.OneLine(text))
}

// joinAbbreviated names the first of them and counts the others.
func joinAbbreviated(names []string) string {
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
