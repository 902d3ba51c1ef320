// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// patience is how long a run may take that takes a second on an idle machine.
const patience = 2 * time.Minute

// disturbance is what happens to one run.
type disturbance struct {
	// api and store spring at writes for the Backup. Both are required.
	api, store *trap
	// lostNode takes the operator's disk away, too, each time it ends.
	lostNode bool
	// polite says that the operator is asked to end: it has to end well.
	polite bool
	// onEvent, if set, is told what the API server tells of Backups and HookRuns.
	onEvent func(object client.Object)
}

// run creates a Backup and stays with it to its end, through every end of the
// operator. It returns its last state and how often the operator ended.
func (l *lane) run(t *testing.T, d disturbance) (last *v1alpha1.Backup, ends int) {
	t.Helper()
	l.runs++
	backup := fmt.Sprintf("%s-%03d", l.name, l.runs)
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the run does not end"))
	defer cancel()
	events := l.follow(ctx, t)

	for gate, armed := range map[*gate]*trap{l.api: d.api, l.store: d.store} {
		armed.backup = backup
		gate.arm(armed)
	}
	object := &v1alpha1.Backup{ObjectMeta: l.meta(backup)}
	object.Labels = map[string]string{laneLabel: l.name}
	object.Spec.IncludedNamespaces = []v1alpha1.NamePattern{v1alpha1.NamePattern(l.data)}
	l.create(t, object)

	for over := false; !over; {
		select {
		case <-ctx.Done():
			t.Fatalf("Backup %s: %v: %s\n--- log of the operator\n%s", backup, context.Cause(ctx), l.describe(backup), l.op().LastLines())
		case <-l.op().Done():
			ends++
			l.startAgain(t, d)
		case event := <-events:
			seen, ok := event.Object.(client.Object)
			if !ok {
				t.Fatalf("the API server ended a watch: %v", event.Object)
			}
			if d.onEvent != nil {
				d.onEvent(seen)
			}
			if b, ok := seen.(*v1alpha1.Backup); ok && b.Name == backup {
				last, over = b, finished(b) || event.Type == watch.Deleted
			}
		}
	}
	// The end of a run can be seen before the operator was hit for its last write.
	for hits := l.disarm(d); ends < hits; ends++ {
		<-l.op().Done()
		l.startAgain(t, d)
	}
	return last, ends
}

// disarm ends the traps of a run, and returns how often the operator was hit.
func (l *lane) disarm(d disturbance) (hits int) {
	for gate, armed := range map[*gate]*trap{l.api: d.api, l.store: d.store} {
		gate.arm(nil)
		hits += armed.disarm()
	}
	return hits
}

func (l *lane) startAgain(t *testing.T, d disturbance) {
	t.Helper()
	if err := l.op().Err(); d.polite && err != nil {
		t.Errorf("the operator that was asked to end ended with %v\n--- its log\n%s", err, l.op().LastLines())
	}
	if d.lostNode {
		l.wipe(t)
	}
	l.start(t)
}

// finished says whether the operator has nothing left to do for a Backup and has
// let it go.
func finished(b *v1alpha1.Backup) bool {
	if b.Status.CompletionTimestamp == nil || len(b.Finalizers) > 0 {
		return false
	}
	for _, c := range b.Status.Conditions {
		if c.Type == v1alpha1.ConditionReconciling {
			return c.Status == "False"
		}
	}
	return false
}

// follow watches the Backups and HookRuns of the lane until ctx ends.
func (l *lane) follow(ctx context.Context, t *testing.T) <-chan watch.Event {
	t.Helper()
	merged := make(chan watch.Event)
	for _, list := range []client.ObjectList{&v1alpha1.BackupList{}, &v1alpha1.HookRunList{}} {
		w, err := l.client.Watch(ctx, list, client.InNamespace(l.name))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer w.Stop()
			for event := range w.ResultChan() {
				select {
				case merged <- event:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return merged
}

// describe says how a Backup stands, for a failure.
func (l *lane) describe(backup string) string {
	var b v1alpha1.Backup
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := l.client.Get(ctx, client.ObjectKey{Namespace: l.name, Name: backup}, &b); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s %q, finalizers %v, conditions %+v", b.Status.Phase, b.Status.Message, b.Finalizers, b.Status.Conditions)
	var runs v1alpha1.HookRunList
	if err := l.client.List(ctx, &runs, client.InNamespace(l.name)); err != nil {
		return err.Error()
	}
	for i := range runs.Items {
		if run := &runs.Items[i]; run.Spec.Subject.Name == backup {
			text += fmt.Sprintf("\n%s %s %s: %+v", run.Spec.Hook, run.Spec.PluginName, run.Spec.DesiredState, run.Status)
		}
	}
	return text
}
