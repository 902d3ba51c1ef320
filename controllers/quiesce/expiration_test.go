// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Quiesced workloads", Label("hooks"), func() {
	It("costs nothing when there are none", func() {
		t := GinkgoTB()
		s := newStage(t)
		s.shop()
		if again := s.sleeps(0); again != 0 {
			t.Errorf("it is requeued after %s", again)
		}
	})

	It("are unquiesced when their holds expire, and not before", func() {
		t := GinkgoTB()
		s := newStage(t)
		s.shop()
		suite.Create(s.Env, deployment("idle", 0))
		hangs := s.backup("hangs")
		s.backup("other")
		s.quiesce(string(hangs.UID), 90*time.Minute)
		all := append(allStopped[:2:2], "Deployment idle", "Deployment web", "Job one", "ReplicaSet one", "StatefulSet one")
		for since, again := range map[time.Duration]time.Duration{0: time.Hour, 89 * time.Minute: time.Minute} {
			if got := s.sleeps(since); got != again {
				t.Errorf("after %s it is requeued after %s, want %s", since, got, again)
			}
		}
		s.expectStopped(all...)
		result, err := s.at(90 * time.Minute)
		if err != nil || result.RequeueAfter != 0 {
			t.Fatalf("at the deadline it is requeued after %s: %v", result.RequeueAfter, err)
		}
		s.expectStopped("Deployment idle")
		const ended = "one: Warning QuiesceOverdue Unquiesce: It was unquiesced…maxQuiesceDuration"
		s.expectTold("CronJob "+ended, "DaemonSet "+ended, strings.Replace("Deployment "+ended, "one", "web", 1), "Job "+ended,
			"ReplicaSet "+ended, "StatefulSet "+ended,
			"Backup hangs: Warning QuiesceOverdue Unquiesce: Its workloads were quiesced for as long…CronJob "+s.Namespace+"/one, DaemonSet "+
				s.Namespace+"/one, Deployment "+s.Namespace+"/web, Job "+s.Namespace+"/one, ReplicaSet "+s.Namespace+"/one and 1 more")
		if again := s.sleeps(91 * time.Minute); again != 0 {
			t.Errorf("afterwards it is requeued after %s", again)
		}
		web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "web"}}
		if suite.GetIfExists(s.Env, web); *web.Spec.Replicas != 3 || web.Labels[quiesce.Label] != "" {
			t.Errorf("web has %d replicas and the labels %v", *web.Spec.Replicas, web.Labels)
		}
		late, err := s.quiescer.Unquiesce(t.Context(), s.request(string(hangs.UID), 0))
		if err != nil || !strings.Contains(late.Message, "6 unquiesced earlier") {
			t.Errorf("the Backup that continued gets %q: %v", late.Message, err)
		}
		if suite.GetIfExists(s.Env, web); web.Annotations[quiesce.Annotation] != "" {
			t.Errorf("remaining annotations: %v", web.Annotations)
		}
	})

	It("stay quiesced while another run may hold them", func() {
		t := GinkgoTB()
		s := newStage(t)
		suite.Create(s.Env, deployment("web", 3))
		first, second := s.backup("first"), s.backup("second")
		restore := suite.Create(s.Env, &v1alpha1.Restore{
			ObjectMeta: metav1.ObjectMeta{Name: "third"}, Spec: v1alpha1.RestoreSpec{BackupName: "first"},
		})
		s.quiesce(string(first.UID), time.Minute)
		s.quiesce(string(second.UID), 3*time.Minute)
		s.quiesce(string(restore.UID), 2*time.Minute)
		if again := s.sleeps(2 * time.Minute); again != time.Minute {
			t.Errorf("it is requeued after %s", again)
		}
		s.expectStopped("Deployment web")
		if _, err := s.at(3 * time.Minute); err != nil {
			t.Fatal(err)
		}
		s.expectStopped()
		s.expectTold("Deployment web: ", "Backup first: ", "Backup second: ", "Restore third: ")
	})

	It("are not polled when they have no deadline", func() {
		t := GinkgoTB()
		s := newStage(t)
		suite.Create(s.Env, deployment("web", 3))
		s.quiesce(string(s.backup("long").UID), 0)
		if again := s.sleeps(10000 * time.Hour); again != 0 {
			t.Errorf("it is requeued after %s", again)
		}
		s.expectStopped("Deployment web")
	})

	It("are left alone when a user changed them", func() {
		t := GinkgoTB()
		s := newStage(t)
		web := suite.Create(s.Env, deployment("web", 3))
		scaled := suite.Create(s.Env, deployment("scaled", 3))
		s.quiesce(string(s.backup("a").UID), time.Minute)
		suite.UpdateWithRetry(s.Env, scaled, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) })
		suite.GetIfExists(s.Env, web)
		restored := deployment("restored", 0)
		restored.Annotations, restored.Labels = web.Annotations, web.Labels
		suite.Create(s.Env, restored)
		strange := deployment("strange", 0)
		strange.Annotations, strange.Labels = map[string]string{quiesce.Annotation: "{"}, map[string]string{quiesce.Label: "true"}
		suite.Create(s.Env, strange)
		if _, err := s.at(time.Minute); err != nil {
			t.Fatal(err)
		}
		s.expectStopped("Deployment restored", "Deployment strange")
		s.expectTold("Deployment web: Warning QuiesceOverdue Unquiesce: It was unquiesced",
			"Deployment scaled: Warning QuiesceOverdue Unquiesce: It is left unchanged…it was set to 7 replicas in the meantime", "Backup a: Warning QuiesceOverdue")
		if suite.GetIfExists(s.Env, scaled); *scaled.Spec.Replicas != 7 || scaled.Labels[quiesce.Label] != "" {
			t.Errorf("the workload that a user scaled has %d replicas and the labels %v", *scaled.Spec.Replicas, scaled.Labels)
		}
	})

	It("are retried when one fails", func() {
		t := GinkgoTB()
		s := newStage(t)
		suite.Create(s.Env, deployment("web", 3))
		suite.Create(s.Env, deployment("api", 3))
		s.quiesce(string(s.backup("a").UID), time.Minute)
		broken := &refusing{Client: s.Client, name: "web"}
		s.r.Quiescer = quiesce.New(broken, quiesce.Options{Now: s.r.Now})
		if _, err := s.at(time.Minute); err == nil {
			t.Error("no error, so it is not retried")
		}
		s.expectStopped("Deployment web")
		s.expectTold("Deployment api: Warning QuiesceOverdue Unquiesce: It was unquiesced", "Deployment web: Warning QuiesceOverdue…no connection",
			"Backup a: Warning QuiesceOverdue…/api")
		broken.name = ""
		if _, err := s.at(time.Minute); err != nil {
			t.Fatal(err)
		}
		s.expectStopped()
		s.expectTold("Deployment web: Warning QuiesceOverdue Unquiesce: It was unquiesced", "Backup a: Warning QuiesceOverdue…/web")
	})

	It("are unquiesced once by two operators", func() {
		t := GinkgoTB()
		s := newStage(t)
		s.shop()
		s.quiesce(string(s.backup("a").UID), time.Minute)
		s.now = s.start.Add(time.Minute)
		var done sync.WaitGroup
		for range 2 {
			done.Go(func() {
				other := *s.r
				other.Recorder = nobody{}
				if _, err := other.Reconcile(t.Context(), ctrl.Request{}); err != nil {
					t.Error(err)
				}
			})
		}
		done.Wait()
		s.expectStopped()
	})
})

// refusing is an API server that rejects changes to one workload.
type refusing struct {
	client.Client
	mu   sync.Mutex
	name string
}

func (r *refusing) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if object.GetName() == r.name {
		return errors.New("no connection")
	}
	return r.Client.Patch(ctx, object, patch, options...)
}
