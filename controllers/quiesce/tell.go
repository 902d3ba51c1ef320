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
	workloads "github.com/grapnel-dev/grapnel/internal/quiesce"
	"github.com/grapnel-dev/grapnel/internal/quiesce/state"
)

const (
	// ReasonQuiesceOverdue surfaces when a workload was quiesced for as long as it may.
	ReasonQuiesceOverdue = "QuiesceOverdue"
	// actionUnquiesce is what was done about it.
	actionUnquiesce = "Unquiesce"
	// maxNamed is how many workloads an event names.
	maxNamed = 5
)

// tell says what became of the workloads whose time was over. That nothing had to be done
// about one is not worth a warning.
func (r *Reconciler) tell(ctx context.Context, due map[state.Ref]*metav1.PartialObjectMetadata, result workloads.Result) {
	lost := map[types.UID][]string{}
	for _, item := range result.Items {
		object, known := due[item.Ref]
		switch {
		case !known:
			continue
		case item.Outcome == state.Restored:
			r.warn(object, "It was given back: it was quiesced for as long as maxQuiesceDuration allows, and the run that had it quiesced had not ended")
		case item.Outcome == state.Changed && item.Started:
			r.warn(object, "It is left as it is: it was quiesced for as long as maxQuiesceDuration allows, but it "+item.Text)
		case item.Outcome == workloads.Failed || item.Outcome == state.Unreadable:
			r.warn(object, "It was quiesced for as long as maxQuiesceDuration allows, and could not be given back yet: it "+item.Text)
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
	runs, err := r.runs(ctx)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Nobody could be told for whom workloads were quiesced too long")
		return
	}
	for _, run := range runs {
		if names := lost[run.GetUID()]; len(names) > 0 {
			r.warn(run, fmt.Sprintf("Its workloads were quiesced for as long as maxQuiesceDuration allows, and it had not ended. "+
				"They run again, and may be changed while they are read: %s", some(names)))
		}
	}
}

func (r *Reconciler) warn(object client.Object, text string) {
	r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, ReasonQuiesceOverdue, actionUnquiesce, "%s", executor.OneLine(text))
}

// runs returns all Backups and Restores: a state has UIDs, no names.
func (r *Reconciler) runs(ctx context.Context) ([]client.Object, error) {
	var backups v1alpha1.BackupList
	var restores v1alpha1.RestoreList
	if err := r.Client.List(ctx, &backups); err != nil {
		return nil, fmt.Errorf("listing the Backups: %w", err)
	}
	if err := r.Client.List(ctx, &restores); err != nil {
		return nil, fmt.Errorf("listing the Restores: %w", err)
	}
	var all []client.Object
	for i := range backups.Items {
		all = append(all, &backups.Items[i])
	}
	for i := range restores.Items {
		all = append(all, &restores.Items[i])
	}
	return all, nil
}

// some names the first of them and counts the others.
func some(names []string) string {
	slices.Sort(names)
	if more := len(names) - maxNamed; more > 0 {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
