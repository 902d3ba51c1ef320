// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// processes are operators that run one after the other on the same disk.
type processes struct {
	t   *testing.T
	dir string
	d   *Driver[*v1alpha1.Backup]
}

// next starts an operator; the previous one may have crashed.
func (p *processes) next(objects ...client.Object) {
	p.t.Helper()
	p.d = driverWith(p.t, nil, objects...)
	var err error
	if p.d.Journal, err = Open(p.dir, logr.Discard()); err != nil {
		p.t.Fatal(err)
	}
	p.d.recordGateStart()
}

// try starts a step of a Backup, if it is admitted, as a reconcile would.
func (p *processes) try(b *v1alpha1.Backup, step string, pre ...*v1alpha1.HookRun) AttemptAdmission {
	p.t.Helper()
	s := newScope(BackupKind, b)
	s.Pre = pre
	admission, err := p.d.AdmitAttempt(p.t.Context(), s, step)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, f := range s.afterUpdate {
		if err := f(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
	}
	if admission == AttemptAdmitted {
		p.d.Journal.Begin(journalID(b.UID, step))
	}
	return admission
}

func TestAdmitAttempt_Crashes(t *testing.T) {
	p := &processes{t: t, dir: t.TempDir()}
	b := queued("poison", 1)
	for crashes := range int32(3) {
		p.next()
		if got := p.try(b, "archive"); got != AttemptAdmitted {
			t.Fatalf("after %d crashes: %v, want that the attempt is admitted", crashes, got)
		}
		if c := b.Status.Crashes; (c == nil) != (crashes == 0) || (c != nil && *c != v1alpha1.StepCrashes{Step: "archive", Count: crashes}) {
			t.Errorf("after %d crashes the status has %+v", crashes, c)
		}
	}
	p.next()
	for range 2 { // the outcome may have to wait
		if got := p.try(b, "archive"); got != AttemptRefused || b.Status.Crashes.Count != 3 {
			t.Errorf("after the last crash: %v with %+v, want that the attempt is refused", got, b.Status.Crashes)
		}
	}
	if got := p.try(b, "abandon"); got != AttemptAdmitted {
		t.Errorf("another step: %v, want that the attempt is admitted", got)
	}
}

// TestAdmitAttempt_Bystander has one run that crashes the operator, and expects that another
// run, which is always active meanwhile, is not blamed.
func TestAdmitAttempt_Bystander(t *testing.T) {
	p := &processes{t: t, dir: t.TempDir()}
	poison, bystander := queued("poison", 1), queued("bystander", 2)
	for range 10 {
		p.next()
		first, second := p.try(poison, "archive"), p.try(bystander, "archive")
		switch {
		case second == AttemptRefused:
			t.Fatal("the bystander was given up")
		case first == AttemptRefused:
			if second == AttemptHeld {
				second = p.try(bystander, "archive")
			}
			if second != AttemptAdmitted {
				t.Errorf("without the poison the bystander is %v", second)
			}
			return
		}
	}
	t.Error("the run that crashes the operator was never given up")
}

// TestAdmitAttempt_NewPoison has a run whose last attempt runs alone when a new run starts and
// crashes the operator. The culprit is unknown until one of them runs without the other.
func TestAdmitAttempt_NewPoison(t *testing.T) {
	p := &processes{t: t, dir: t.TempDir()}
	innocent, poison := queued("innocent", 1), queued("poison", 2)
	innocent.Status.Crashes = &v1alpha1.StepCrashes{Step: "archive", Count: 2}
	for range 10 {
		p.next()
		if p.try(innocent, "archive") == AttemptRefused {
			t.Fatalf("the innocent run was given up, after %+v", innocent.Status.Crashes)
		}
		switch p.try(poison, "archive") {
		case AttemptRefused:
			return
		case AttemptHeld: // the innocent run gets its turn, and ends
			p.d.Journal.Begin(journalID(innocent.UID, "archive"))()
			innocent.Status.Crashes = nil
			if got := p.try(poison, "archive"); got != AttemptAdmitted {
				t.Errorf("without the innocent run the other one is %v", got)
			}
		case AttemptAdmitted:
		}
	}
	t.Error("the run that crashes the operator was never given up")
}

// TestAdmitAttempt_CrashesInCompany has a run that crashes the operator beside a new run each
// time.
func TestAdmitAttempt_CrashesInCompany(t *testing.T) {
	p := &processes{t: t, dir: t.TempDir()}
	poison := queued("poison", 1)
	for crashes := range 10 {
		p.next()
		if p.try(poison, "archive") == AttemptRefused {
			if crashes > 5 {
				t.Errorf("the run was given up after %d crashes, want at most 5", crashes)
			}
			return
		}
		p.try(queued(fmt.Sprintf("new-%d", crashes), 2), "archive")
	}
	t.Error("the run that crashes the operator was never given up")
}

// TestAdmitAttempt_IsolationEnds has two runs with two crashes each, one of which runs alone for
// hours.
func TestAdmitAttempt_IsolationEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		// frozen means that a Pre action of the waiting run was called.
		frozen bool
		waits  time.Duration
		want   AttemptAdmission
	}{
		"its turn may still come":              {frozen: true, waits: 9 * time.Minute, want: AttemptHeld},
		"its application is down for too long": {frozen: true, waits: 10 * time.Minute, want: AttemptRefused},
		"nothing is down":                      {waits: 10 * time.Hour, want: AttemptHeld},
	} {
		t.Run(name, func(t *testing.T) {
			p := &processes{t: t, dir: t.TempDir()}
			p.next()
			now := noon
			p.d.Now = func() time.Time { return now }
			other, b := queued("other", 1), queued("nightly", 2)
			for _, o := range []*v1alpha1.Backup{other, b} {
				o.Status.Crashes = &v1alpha1.StepCrashes{Step: "archive", Count: 2}
			}
			var pre []*v1alpha1.HookRun
			if tc.frozen {
				pre = []*v1alpha1.HookRun{run(BackupKind.PreHookPoint, "freeze", v1alpha1.HookRunPhaseCompleted)}
				pre[0].Status.StartTimestamp = &metav1.Time{Time: noon}
			}
			if got := p.try(other, "archive"); got != AttemptAdmitted {
				t.Fatalf("the first attempt is %v", got)
			}
			if got := p.try(b, "archive", pre...); got != AttemptHeld {
				t.Fatalf("the second attempt is %v at once, want that it waits", got)
			}
			now = now.Add(tc.waits)
			if got := p.try(b, "archive", pre...); got != tc.want {
				t.Errorf("it is %v, want %v", got, tc.want)
			}
			if tc.want != AttemptRefused {
				return
			}
			p.d.Journal.Begin(journalID(other.UID, "archive"))()
			if got := p.try(b, "archive", pre...); got != AttemptRefused {
				t.Errorf("the attempt is %v while the outcome is decided, want that it is refused", got)
			}
			ended := ExecuteStep(p.d, newScope(BackupKind, b), "archive", func() (func(context.Context) (NoValue, error), error) { return nil, nil })
			if ended == nil || !IsCrashed(ended.Err) || !strings.Contains(ended.Err.Error(), "could not start within 10m0s") {
				t.Errorf("the step ended with %+v", ended)
			}
		})
	}
}

func TestAdmitAttempt_OrderlyEnd(t *testing.T) {
	p := &processes{t: t, dir: t.TempDir()}
	b := queued("nightly", 1)
	for range 5 {
		p.next()
		if got := p.try(b, "archive"); got != AttemptAdmitted {
			t.Fatalf("the attempt is %v, want that it is admitted", got)
		}
		p.d.Journal.Close()
	}
	if b.Status.Crashes != nil {
		t.Errorf("the status has %+v", b.Status.Crashes)
	}
}

func TestAdmitAttempt_CleanupGoesFirst(t *testing.T) {
	owing := queued("owing", 1)
	owing.Status.CompletionTimestamp = &metav1.Time{Time: noon}
	conditions.Set(owing, v1alpha1.ConditionCleanupOwed, metav1.ConditionTrue, v1alpha1.ReasonCleanupPending, "thaw")
	open := owing.DeepCopy()
	open.Status.CompletionTimestamp = nil
	post := func(edit func(run *v1alpha1.HookRun)) *v1alpha1.HookRun {
		run := &v1alpha1.HookRun{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "thaw", Labels: map[string]string{v1alpha1.LabelParentUID: string(owing.UID)}}}
		run.Spec.Owed = true
		edit(run)
		return run
	}
	attempted := func(at time.Time) func(run *v1alpha1.HookRun) {
		return func(run *v1alpha1.HookRun) {
			run.Status.Attempts = []v1alpha1.HookAttempt{{Number: 1, StartTimestamp: v1alpha1.NewMicroTime(at)}}
		}
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		after   time.Duration
		want    AttemptAdmission
	}{
		"nothing is owed":                     {want: AttemptAdmitted},
		"clean-up was not tried":              {objects: []client.Object{owing, post(func(*v1alpha1.HookRun) {})}, want: AttemptHeld},
		"it was tried before the start":       {objects: []client.Object{owing, post(attempted(noon.Add(-time.Minute)))}, want: AttemptHeld},
		"it was tried":                        {objects: []client.Object{owing, post(attempted(noon.Add(time.Second)))}, want: AttemptAdmitted},
		"it cannot be tried":                  {objects: []client.Object{owing, post(func(*v1alpha1.HookRun) {})}, after: 30 * time.Second, want: AttemptAdmitted},
		"it is not owed":                      {objects: []client.Object{owing, post(func(run *v1alpha1.HookRun) { run.Spec.Owed = false })}, want: AttemptAdmitted},
		"it belongs to a run that has to end": {objects: []client.Object{open, post(func(*v1alpha1.HookRun) {})}, want: AttemptAdmitted},
		"it is done": {objects: []client.Object{owing, post(func(run *v1alpha1.HookRun) {
			run.Status.CompletionTimestamp = &metav1.Time{Time: noon}
		})}, want: AttemptAdmitted},
	} {
		t.Run(name, func(t *testing.T) {
			p := &processes{t: t, dir: t.TempDir()}
			p.next(tc.objects...)
			p.d.Now = func() time.Time { return noon.Add(tc.after) }
			b := queued("next", 5)
			b.UID = types.UID("u-next")
			if got := p.try(b, "archive"); got != tc.want {
				t.Errorf("it is %v, want %v", got, tc.want)
			}
		})
	}
}
