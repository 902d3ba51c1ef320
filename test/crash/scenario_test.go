// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// scenario is a run that is done again and again, each time hit somewhere else.
type scenario struct {
	// name of the lane.
	name string
	work work
	// pre and post are the faults of the actions; see FAULT_CALL in test/faultplugin.
	pre, post string
	// operations says that an action starts operations on objects, see
	// annotationOperation in test/faultplugin.
	operations bool
	// once says that an attempt that was interrupted is not repeated, unless it is owed.
	once  bool
	phase v1alpha1.RunPhase
	// prepare adds what makes the run end as it does.
	prepare func(t *testing.T, l *testOperator, d *disturbance)
	sweeps  []sweep
	// sampled says that one write of each class is hit: it differs from another one only later on,
	// or each run takes seconds.
	sampled bool
	// calls says that the operator is killed in every call of an action, too.
	calls bool
	// logged says that the logs of a run tell no less if the operator ended, as long
	// as they are kept.
	logged bool
	// alike, if set, returns the same for results that may differ.
	alike func(*testing.T, result) result
	// unanswered are the calls that do not get as far as to kill the operator.
	unanswered []string
}

// faults returns what FAULT_CALL says.
func (s scenario) faults() string {
	kind := s.work.kind()
	if kind.HasSingleHookPoint() {
		return string(kind.PreHookPoint) + "=" + s.pre
	}
	return string(kind.PreHookPoint) + "=" + s.pre + "," + string(kind.PostHookPoint) + "=" + s.post
}

// kills are the ways to be killed at a write.
func kills() []sweep {
	return []sweep{
		{how: killed, when: before, target: api},
		{how: killed, when: after, target: api},
		{how: killed, when: before, target: store},
		{how: killed, when: after, target: store},
	}
}

// thorough is every way to end.
func thorough() []sweep {
	all := append(kills(), sweep{how: asked, when: after, target: api}, sweep{how: pressed, when: after, target: api})
	all[1].events = true
	return all
}

// scenarios returns all of them. The first of a kind of work is an ordinary run.
func scenarios() []scenario {
	small, large := backups{data: smallData}, backups{data: largeData}
	cancelled := v1alpha1.RunPhaseCancelled
	return []scenario{
		{
			name: "done", work: small, pre: "outputs", post: "outputs", phase: v1alpha1.RunPhaseCompleted,
			prepare: nothing, sweeps: thorough(), calls: true, logged: true,
		},
		{
			name: "refused", work: small, pre: "error", post: "outputs", phase: v1alpha1.RunPhaseFailedPreBackupActions,
			prepare: nothing, sweeps: kills()[1:], calls: true, logged: true, sampled: true,
		},
		{
			name: "halted", work: small, pre: "wait", post: "outputs", phase: cancelled, prepare: cancelPre,
			sweeps: append(kills(), sweep{how: asked, when: after, target: api}), calls: true, sampled: true,
			unanswered: []string{"PreBackup:1 after"},
		},
		{
			name: "dropped", work: small, pre: "outputs", post: "outputs", phase: cancelled, prepare: cancelArchive,
			sweeps: kills()[1:], calls: true, sampled: true,
		},
		{
			name: "large", work: large, pre: "outputs", post: "outputs", phase: v1alpha1.RunPhaseCompleted,
			prepare: nothing, logged: true, sampled: true,
			sweeps: []sweep{
				{how: killed, when: before, target: store, only: archived},
				{how: killed, when: after, target: store, only: archived},
			},
		},
		{
			name: "removed", work: small, pre: "wait", post: "outputs", phase: cancelled, prepare: deletePre,
			sweeps: kills()[1:2], calls: true, sampled: true, unanswered: []string{"PreBackup:1 after"},
		},
		{
			// Writes of events tell of nothing new: those of Backups are the same.
			name: "restored", work: restores{defines: true}, pre: "outputs", post: "outputs", phase: v1alpha1.RunPhaseCompleted,
			prepare: nothing, calls: true, logged: true, sampled: true,
			sweeps: append(kills(),
				sweep{how: asked, when: after, target: api, only: own},
				sweep{how: pressed, when: after, target: api, only: placed}),
		},
		{
			// What a namespace needs comes along, and nothing else.
			name: "chosen", work: restores{defines: true, chosen: true}, pre: "outputs", post: "outputs", phase: v1alpha1.RunPhaseCompleted,
			prepare: nothing, logged: true,
			sweeps: []sweep{
				{how: killed, when: before, target: api, only: defined},
				{how: killed, when: after, target: api, only: defined},
			},
		},
		{
			name: "replaced", work: restores{policy: v1alpha1.ExistingResourcePolicyRecreate}, pre: "outputs", post: "outputs",
			phase: v1alpha1.RunPhaseCompleted, prepare: nothing, logged: true, alike: recreatedIsCreated, sampled: true,
			// Before a write is, but for that one, after the write before.
			sweeps: []sweep{{how: killed, when: after, target: api, only: placed}},
		},
		{
			name: "denied", work: restores{}, pre: "error", post: "outputs", phase: v1alpha1.RunPhaseFailedPreRestoreActions,
			prepare: nothing, sweeps: kills()[2:], logged: true, sampled: true,
		},
		{
			name: "stopped", work: restores{}, pre: "outputs", post: "outputs", phase: cancelled, prepare: cancelObjects,
			sweeps:  append(kills()[2:], sweep{how: killed, when: after, target: api, only: recorded}),
			sampled: true,
		},
		{
			name: "moved", work: backups{data: movedData}, operations: true, pre: "outputs", post: "outputs", phase: v1alpha1.RunPhaseCompleted,
			prepare: nothing, sampled: true,
			sweeps: []sweep{
				{how: killed, when: before, target: api, only: following},
				{how: killed, when: after, target: api, only: following},
				{how: asked, when: after, target: api, only: operated},
				{how: killed, when: before, target: store},
				{how: killed, when: after, target: store},
			},
		},
		{
			name: "carried", work: restores{operations: true}, operations: true, pre: "outputs", post: "outputs", phase: v1alpha1.RunPhaseCompleted,
			prepare: nothing, sampled: true,
			sweeps: []sweep{
				{how: killed, when: before, target: api, only: operated},
				{how: killed, when: after, target: api, only: following},
				{how: killed, when: after, target: store},
			},
		},
		{
			name: "destroyed", work: deletions{}, pre: "none", phase: v1alpha1.RunPhaseCompleted,
			prepare: nothing, calls: true, sampled: true, sweeps: append(kills(), sweep{how: asked, when: after, target: api}),
		},
		{
			// Its action is called three times, with pauses.
			name: "stranded", work: deletions{}, pre: "error", phase: v1alpha1.RunPhasePartiallyFailed, prepare: nothing, sampled: true,
			sweeps: []sweep{{how: killed, when: after, target: api, only: called}},
		},
	}
}

// undisturbed runs the scenario without any harm.
func (s scenario) undisturbed(t *testing.T, l *testOperator) (result, disturbance) {
	t.Helper()
	d := &disturbance{api: &trap{}, store: &trap{}, plugin: &trap{}}
	s.prepare(t, l, d)
	last, ends := l.run(t, *d)
	got := l.observe(t, last, ends)
	if ends > 0 || got.Phase != s.phase {
		t.Fatalf("the run ended %s, with %d ends of the operator: %+v\n%s", got.Phase, ends, got, l.op().LastLogLines())
	}
	return got, *d
}

// record runs the scenario twice: the first run also waits for the location and the
// plugin.
func (s scenario) record(t *testing.T, l *testOperator) (want result, recorded disturbance) {
	t.Helper()
	first, _ := s.undisturbed(t, l)
	want, recorded = s.undisturbed(t, l)
	if diff := cmp.Diff(first, want); diff != "" {
		t.Fatalf("two undisturbed runs differ:\n%s", diff)
	}
	return want, recorded
}
