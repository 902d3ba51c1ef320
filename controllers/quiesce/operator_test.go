// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// A recorder that discards events.
type nobody struct{}

// Eventf implements events.EventRecorder.
func (nobody) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// operate runs the controller in a manager, with the real clock.
func (s *stage) operate() *Reconciler {
	s.t.Helper()
	var r *Reconciler
	s.StartManager(func(mgr ctrl.Manager) error {
		r = &Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Quiescer: s.quiescer, Recorder: mgr.GetEventRecorder("grapnel")}
		return r.SetupWithManager(mgr)
	})
	return r
}

// awaitReplicas waits until a Deployment has the wanted replicas.
func (s *stage) awaitReplicas(d *appsv1.Deployment, want int32) {
	s.t.Helper()
	suite.WaitFor(s.Env, d, func(d *appsv1.Deployment) string {
		if *d.Spec.Replicas == want && d.Labels[quiesce.Label] == "" {
			return ""
		}
		return fmt.Sprintf("it has %d replicas and the labels %v", *d.Spec.Replicas, d.Labels)
	})
}

var _ = Describe("Quiesced workloads", Label("hooks"), func() {
	It("are found by the watch, and at the start", func() {
		t := GinkgoTB()
		s := newStage(t)
		before, hangs := suite.Create(s.Env, deployment("before", 2)), s.backup("hangs")
		s.now = s.start.Add(-time.Hour)
		s.quiesce(string(hangs.UID), time.Minute)
		r := s.operate()
		s.awaitReplicas(before, 2)
		s.WaitForEvent(before, "Warning QuiesceOverdue: It was unquiesced")
		s.WaitForEvent(hangs, "Warning QuiesceOverdue: Its workloads were quiesced")

		meanwhile := suite.Create(s.Env, deployment("meanwhile", 3))
		suite.Create(s.Env, deployment("runs", 3))
		s.now = time.Now()
		s.quiesce(string(s.backup("a").UID), 2*time.Second)
		s.awaitReplicas(meanwhile, 3)

		// Objects that are not quiesced are not cached.
		suite.Eventually(t, func() string {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(quiesce.Deployment.GroupVersionKind())
			if err := r.workloadReader.List(t.Context(), list); err != nil {
				return err.Error()
			}
			for _, object := range list.Items {
				if object.Namespace == s.Namespace {
					return "the cache still contains  " + object.Name
				}
			}
			return ""
		})
	})
})

// TestSetupWithManager_MissingFields: missing fields are reported before anything runs.
func TestSetupWithManager_MissingFields(t *testing.T) {
	t.Parallel()
	if err := new(Reconciler).SetupWithManager(nil); err == nil {
		t.Error("no error for missing fields")
	}
}
