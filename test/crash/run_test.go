// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// patience is how long a run may take that takes a second on an idle machine.
const patience = 2 * time.Minute

// disturbance is what happens to one run.
type disturbance struct {
	// api and store spring at writes for the run, and plugin at those of the CSI plugin. All but
	// plugin are required.
	api, store, plugin *trap
	// survives is true if the traps hit something else than the operator.
	survives bool
	// lostNode takes the operator's disk away, too, each time it ends.
	lostNode bool
	// polite is true if the operator gets a signal to stop: it must exit without an error.
	polite bool
	// onEvent, if set, is called with the watch events of runs and HookRuns.
	onEvent func(object client.Object)
}

// run makes one run of the lane's work.
func (l *testOperator) run(t *testing.T, d disturbance) (last lifecycle.Object, ends int) {
	t.Helper()
	l.runs++
	object := l.work.begin(t, l, fmt.Sprintf("%s-%03d", l.name, l.runs))
	object.SetLabels(l.labels())
	return l.follow(t, object, d)
}

// follow creates a run and stays with it to its end, through every end
// of the operator. It returns its last state and how often the operator ended.
func (l *testOperator) follow(t *testing.T, object lifecycle.Object, d disturbance) (last lifecycle.Object, ends int) {
	t.Helper()
	name := object.GetName()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the run does not end"))
	defer cancel()
	events := l.watch(ctx)

	for gate, armed := range l.traps(d) {
		armed.run = name
		gate.arm(armed)
	}
	l.create(t, object)

	at := progress{uid: object.GetUID()}
	for !at.over() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v: %s\n--- log of the operator\n%s", name, context.Cause(ctx), l.describe(name, at.last), l.op().LastLogLines())
		case <-l.op().Done():
			ends++
			l.startAgain(t, d)
		case event := <-events:
			told, ok := event.Object.(client.Object)
			if !ok {
				t.Fatalf("the API server ended a watch: %v", event.Object)
			}
			if d.onEvent != nil {
				d.onEvent(told)
			}
			at.tell(told, event.Type == watch.Deleted)
		}
	}
	// The end of a run can be seen before the operator was hit for its last write.
	for hits := l.disarm(d); !d.survives && ends < hits; ends++ {
		<-l.op().Done()
		l.startAgain(t, d)
	}
	return at.last, ends
}

// progress is what the watch has reported about a run.
type progress struct {
	uid     types.UID
	last    lifecycle.Object
	deleted bool
	// noted are the backups that the operator remembers, see package tombstone.
	noted tombstone.Records
}

func (p *progress) tell(object client.Object, deleted bool) {
	switch o := object.(type) {
	case *corev1.ConfigMap:
		if o.Name == tombstone.ConfigMapName(location) {
			p.noted = o.Data
		}
	case lifecycle.Object:
		if o.GetUID() == p.uid {
			p.last, p.deleted = o, deleted
		}
	}
}

// over reports whether nothing more is written for the run.
func (p *progress) over() bool {
	if p.last == nil || (!p.deleted && !finished(p.last)) {
		return false
	}
	// A Backup is noted beside everything else, or when the operator has started again.
	_, isBackup := p.last.(*v1alpha1.Backup)
	return !isBackup || !lifecycle.IsCompletedOrPartiallyFailed(p.last) || p.noted.IsCreatedHere(p.last.GetName(), string(p.uid))
}

// traps returns the traps of a run by the gate that each belongs to.
func (l *testOperator) traps(d disturbance) map[*serverProxy]*trap {
	traps := map[*serverProxy]*trap{l.api: d.api, l.store: d.store}
	if l.csi != nil && d.plugin != nil {
		traps[l.csi] = d.plugin
	}
	return traps
}

// disarm ends the traps of a run, and returns how often they have sprung.
func (l *testOperator) disarm(d disturbance) (hits int) {
	for gate, armed := range l.traps(d) {
		gate.arm(nil)
		if n := armed.disarm(); armed.spring != nil {
			hits += n
		}
	}
	return hits
}

func (l *testOperator) startAgain(t *testing.T, d disturbance) {
	t.Helper()
	if err := l.op().Err(); d.polite && err != nil {
		t.Errorf("the operator that was asked to end ended with %v\n--- its log\n%s", err, l.op().LastLogLines())
	}
	if d.lostNode {
		l.wipe(t)
	}
	l.start(t)
}

// finished reports whether the operator has nothing left to do for a run and has let it
// go.
func finished(s lifecycle.Object) bool {
	reconciling := conditions.Get(s, v1alpha1.ConditionReconciling)
	return s.Run().CompletionTimestamp != nil && len(s.GetFinalizers()) == 0 && reconciling != nil && reconciling.Status == metav1.ConditionFalse
}

// watch watches the runs and HookRuns of the lane, and what is noted of Backups, until ctx
// ends.
func (l *testOperator) watch(ctx context.Context) <-chan watch.Event {
	merged := make(chan watch.Event)
	for _, list := range []client.ObjectList{
		&v1alpha1.BackupList{}, &v1alpha1.RestoreList{}, &v1alpha1.DeletionRunList{}, &v1alpha1.HookRunList{}, &corev1.ConfigMapList{},
	} {
		go func() {
			for l.forward(ctx, list, merged) {
			}
		}()
	}
	return merged
}

// forward sends the events of a watch to a channel until the watch or ctx ends, and reports whether to watch again: the
// cache of a busy API server may be behind.
func (l *testOperator) forward(ctx context.Context, list client.ObjectList, into chan<- watch.Event) (again bool) {
	w, err := l.client.Watch(ctx, list, client.InNamespace(l.name))
	if err != nil {
		select {
		case into <- watch.Event{Type: watch.Error, Object: &metav1.Status{Message: err.Error()}}:
		case <-ctx.Done():
		}
		return false
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error && apierrors.IsTimeout(apierrors.FromObject(event.Object)) {
			return true
		}
		select {
		case into <- event:
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// describe says how a run stands, for a failure.
func (l *testOperator) describe(name string, last lifecycle.Object) string {
	if last == nil {
		return "it was not observed"
	}
	text := fmt.Sprintf("%s %q, finalizers %v, conditions %+v", last.GetPhase(), last.Run().Message, last.GetFinalizers(), last.Run().Conditions)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var runs v1alpha1.HookRunList
	if err := l.client.List(ctx, &runs, client.InNamespace(l.name)); err != nil {
		return err.Error()
	}
	for i := range runs.Items {
		if run := &runs.Items[i]; run.Spec.ParentRef.Name == name {
			text += fmt.Sprintf("\n%s %s %s: %+v", run.Spec.Hook, run.Spec.ActionName, run.Spec.DesiredState, run.Status)
		}
	}
	return text
}
