// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("A Schedule when something fails", Label("schedule"), func() {
	Context("reports invalid fields until they are fixed", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			spoil func(*v1alpha1.ScheduleSpec)
			says  string
		}{
			"expression":       {func(spec *v1alpha1.ScheduleSpec) { spec.Schedule = "every night" }, "write five fields"},
			"never":            {func(spec *v1alpha1.ScheduleSpec) { spec.Schedule = "0 0 31 2 *" }, "never fires"},
			"time zone":        {func(spec *v1alpha1.ScheduleSpec) { spec.TimeZone = "Europe/Atlantis" }, "Europe/Berlin"},
			"zone in the line": {func(spec *v1alpha1.ScheduleSpec) { spec.Schedule = "TZ=Europe/Berlin 0 3 * * *" }, "set timeZone"},
			"label": {func(spec *v1alpha1.ScheduleSpec) {
				spec.Template.Metadata.Labels = map[string]v1alpha1.LabelValue{"a b": "c"}
			}, "spec.template.metadata.labels"},
			"annotation": {func(spec *v1alpha1.ScheduleSpec) {
				spec.Template.Metadata.Annotations = map[string]v1alpha1.ParameterValue{"/": "c"}
			}, "spec.template.metadata.annotations"},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				n := s.nightly()
				good := *n.Spec.DeepCopy()
				suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) { tc.spoil(&n.Spec) })
				for _, at := range []string{"1 02:00", "1 03:00"} {
					if result := s.at(at, n); result.RequeueAfter != 0 {
						t.Errorf("it is requeued after %v", result.RequeueAfter)
					}
				}
				s.expectMade()
				s.expectStatus(n, expect{Phase: "FailedValidation", Stalled: "FailedValidation"})
				if !strings.Contains(n.Status.Message, tc.says) {
					t.Errorf("the message is %q, and does not say %q", n.Status.Message, tc.says)
				}
				s.expectTold("Warning FailedValidation Validate: …" + tc.says)

				suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) { n.Spec = good })
				s.at("1 03:10", n)
				s.expectMade("1 03:00") // it was scheduled, and the spec was invalid at that time
				s.expectTold("Normal BackupCreated")
				if n.Status.Phase != v1alpha1.SchedulePhaseEnabled {
					t.Errorf("phase is %s", n.Status.Phase)
				}
			})
		}
	})

	It("makes up for nothing when it was never valid before", func() {
		t := GinkgoTB()
		s := newStage(t)
		n := s.fresh("each hour")
		s.at("1 12:00", n)
		suite.UpdateWithRetry(s.Env, n, func(n *v1alpha1.Schedule) { n.Spec.Schedule = "0 * * * *" })
		s.at("1 12:30", n)
		s.expectMade()
		s.expectStatus(n, expect{Phase: "Enabled", Next: "1 13:00", Ready: "Scheduled"})
		s.at("1 13:00", n)
		s.expectMade("1 13:00")
	})

	Context("skips a run whose name another Backup has", func() {
		for name, edit := range suite.SortedByName(map[string]func(*v1alpha1.Backup){
			"by a user":           func(b *v1alpha1.Backup) { b.Labels = nil },
			"by another Schedule": func(b *v1alpha1.Backup) { b.Labels[v1alpha1.LabelScheduleName] = "hourly" },
			"by an import":        func(b *v1alpha1.Backup) { b.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: "main"} },
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				n := s.nightly()
				other := s.made("1 03:00", edit)
				for _, at := range []string{"1 03:00", "1 03:01"} {
					s.at(at, n)
					s.expectStatus(n, expect{Phase: "Enabled", Next: "2 03:00", Skipped: "1 03:00", Reason: "NameTaken", Ready: "Scheduled"})
				}
				s.expectTold("Warning Skipped NameTaken: nothing ran …" + other.Name)
				version := other.ResourceVersion
				if !suite.GetIfExists(s.Env, other) || other.ResourceVersion != version {
					t.Error("the other Backup was touched")
				}
				s.Delete(other) // which was reported, and is settled
				s.at("1 03:02", n)
				s.expectMade()
				s.at("2 03:00", n)
				s.expectMade("2 03:00")
			})
		}
	})

	Context("continues after an interruption between any two steps", func() {
		created := expect{Phase: "Enabled", Last: "1 03:00", Next: "2 03:00", Active: 1, Ready: "Scheduled"}
		for name, tc := range suite.SortedByName(map[string]struct {
			status error
			blind  bool
		}{
			"before the status was written":         {status: errDown},
			"by a conflict":                         {status: errChanged},
			"and the cache is stale":                {status: errDown, blind: true},
			"by a conflict, and the cache is stale": {status: errChanged, blind: true},
		}) {
			It(name, func() {
				t := GinkgoTB()
				s := newStage(t)
				n := s.nightly()
				api := &broken{Client: s.Client, status: tc.status}
				s.r.Client = api
				s.now = s.time("1 03:00")
				if _, err := s.pass(n); (err != nil) != errors.Is(tc.status, errDown) {
					t.Errorf("the reconcile ended with %v", err)
				}
				s.expectMade("1 03:00")
				s.expectTold("Normal BackupCreated")
				if n.Status.LastScheduleTime != nil {
					t.Fatal("the status was written")
				}
				api.status, api.blind = nil, tc.blind
				want := created
				want.Backup = s.backupName("1 03:00")
				if tc.blind {
					want.Active = 0 // until the cache contains it
				}
				s.at("1 03:01", n)
				s.expectMade("1 03:00")
				s.expectStatus(n, want)
				s.expectTold()
				if api.writes != 1 {
					t.Errorf("the status was written %d times", api.writes)
				}
			})
		}
	})

	It("records a Backup before it is destroyed", func() {
		t := GinkgoTB()
		s := newStage(t)
		none := int32(0)
		n := s.nightly(func(spec *v1alpha1.ScheduleSpec) { spec.KeepFailed = &none })
		s.end(s.made("1 03:00"), "Failed", "1 03:05")
		api := &broken{Client: s.Client, status: errDown}
		s.r.Client, s.now = api, s.time("1 03:06")
		if _, err := s.pass(n); err == nil {
			t.Error("want an error")
		}
		s.expectDoomed()
		api.status = nil
		s.at("1 03:07", n)
		s.expectDoomed("1 03:00")
		s.Delete(s.backup("1 03:00"))
		s.at("1 03:08", n)
		s.expectMade()
	})

	It("retries while the API server rejects Backups", func() {
		t := GinkgoTB()
		s := newStage(t)
		n := s.nightly()
		api := &broken{Client: s.Client, create: apierrors.NewForbidden(schema.GroupResource{Resource: "backups"}, "x", errors.New("policy says no"))}
		s.r.Client, s.now = api, s.time("1 03:00")
		for range 2 {
			if _, err := s.pass(n); err == nil {
				t.Error("it is not retried")
			}
		}
		s.expectStatus(n, expect{Phase: "Enabled", Next: "2 03:00", Stalled: "BackupNotCreated"})
		if !strings.Contains(n.Status.Message, "policy says no") || !strings.Contains(n.Status.Message, "spec.template") {
			t.Errorf("message is %q", n.Status.Message)
		}
		s.expectTold("Warning BackupNotCreated Create: creating Backup " + s.backupName("1 03:00"))
		api.create = nil
		s.at("1 03:10", n)
		s.expectMade("1 03:00")
		s.expectStatus(n, expect{
			Phase: "Enabled", Last: "1 03:00", Backup: s.backupName("1 03:00"), Next: "2 03:00", Active: 1, Ready: "Scheduled",
		})
	})

	It("stops in a namespace that is being deleted", func() {
		t := GinkgoTB()
		s := newStage(t)
		n := s.nightly()
		refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "backups"}, "x", errors.New("it is being terminated"))
		refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating"}}
		s.r.Client = &broken{Client: s.Client, create: refusal}
		s.at("1 03:00", n)
		s.expectTold()
	})
})

// broken is an API server that fails at some requests.
type broken struct {
	client.Client
	// create and status fail if they are set.
	create, status error
	// blind makes lists empty, like those of a stale cache.
	blind bool
	// writes counts the status writes.
	writes int
}

func (b *broken) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if _, is := object.(*v1alpha1.Backup); is && b.create != nil {
		return b.create
	}
	return b.Client.Create(ctx, object, options...)
}

func (b *broken) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if b.blind {
		return nil
	}
	return b.Client.List(ctx, list, options...)
}

// Status implements client.Client.
func (b *broken) Status() client.SubResourceWriter { return brokenStatus{b.Client.Status(), b} }

type brokenStatus struct {
	client.SubResourceWriter
	b *broken
}

// Patch implements client.SubResourceWriter.
func (s brokenStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if s.b.status != nil {
		return s.b.status
	}
	s.b.writes++
	return s.SubResourceWriter.Patch(ctx, object, patch, options...)
}

var (
	errDown = errors.New("the API server is down")
	// errChanged is the error of the API server for a conflict.
	errChanged = apierrors.NewConflict(schema.GroupResource{Resource: "schedules"}, "nightly", errDown)
)
