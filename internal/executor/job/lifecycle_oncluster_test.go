// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/job"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var errCancelled = errors.New("the run was canceled")

var _ = Describe("The lifecycle of Jobs", Label("hooks"), func() {
	It("returns the answer of a Job", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		x := r.run(t)
		pod := r.pod(t)
		if owner := metav1.GetControllerOf(pod); owner == nil || owner.Name != r.jobs(t)[0].Name {
			t.Fatalf("the pod belongs to %v", owner)
		}
		files := r.secrets(t)
		if len(files) != 1 || files[0].Name != pod.Spec.Volumes[0].Secret.SecretName || string(files[0].Data["subject.json"]) != `{"kind":"Backup"}` {
			t.Fatalf("the files are %v", files)
		}
		printed := make(chan struct{})
		r.node.prints(pod, func(w io.Writer) {
			_, _ = io.WriteString(w, "2026-01-01T00:00:01.5Z freezing orders\n2026-01-01T00:00:02Z password=hunter22\n")
			close(printed)
		})
		r.node.becomes(t, pod, corev1.PodRunning, running())
		<-printed
		r.node.becomes(t, pod, corev1.PodSucceeded, exited(0, `{"message":"froze orders","outputs":{"lsn":"0/16"}}`))
		<-x.done
		want := executor.Answer{Message: "froze orders", Outputs: map[string]string{"lsn": "0/16"}}
		if x.err != nil || !reflect.DeepEqual(x.answer, want) {
			t.Errorf("it returned %+v, %v; want %+v", x.answer, x.err, want)
		}
		if log := r.lines.String(); !strings.Contains(log, `"freezing orders"`) || !strings.Contains(log, "password=[REDACTED]") {
			t.Errorf("the log is %s", log)
		}
		r.recorded(t, call())
	})

	// An action that is not done: the next Job has the same name, and the pod of the
	// previous Job may still exist.
	It("starts another Job when it is called again", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		x := r.run(t)
		first := r.startsPod(t)
		r.node.becomes(t, first, corev1.PodSucceeded, exited(0, `{"message":"wait","retryAfterSeconds":1}`))
		<-x.done
		if x.err != nil || x.answer.RetryAfter != time.Second {
			t.Fatalf("it returned %+v, %v", x.answer, x.err)
		}
		second := call()
		second.Subject = []byte(`{"kind":"Backup","status":{}}`)
		x = r.execute(t.Context(), t, second)
		var pod *corev1.Pod
		await(t, "another pod", func() bool {
			for _, p := range r.pods(t) {
				if p.UID != first.UID {
					pod = &p
				}
			}
			return pod != nil
		})
		await(t, "its files", func() bool { return len(r.secrets(t)) == 1 })
		if files := r.secrets(t)[0]; string(files.Data["subject.json"]) != string(second.Subject) {
			t.Errorf("the second pod reads the subject %s", files.Data["subject.json"])
		}
		r.node.becomes(t, pod, corev1.PodSucceeded, exited(0, "done"))
		x.succeeds(t, "done")
		r.recorded(t, call())
	})

	// Stops the operator while the Job runs.
	It("follows its Job after a restart of the operator", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		ctx, stop := context.WithCancel(t.Context())
		x := r.execute(ctx, t, call())
		pod := r.startsPod(t)
		stop()
		x.fails(t, executor.Interrupted, "was interrupted before it answered")
		x = r.execute(t.Context(), t, call())
		await(t, "that it is followed", func() bool { return strings.Contains(r.lines.String(), "Following an existing Job") })
		if jobs := r.jobs(t); len(jobs) != 1 || jobs[0].DeletionTimestamp != nil {
			t.Errorf("the Jobs are %v", jobs)
		}
		r.node.becomes(t, pod, corev1.PodSucceeded, exited(0, "done"))
		x.succeeds(t, "done")
		r.recorded(t, call())
	})

	// Two operators that both consider themselves the leader.
	It("runs one Job for two operators", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		both := []*execution{r.execute(t.Context(), t, call()), r.execute(t.Context(), t, call())}
		pod := r.startsPod(t)
		await(t, "that it is followed", func() bool { return strings.Contains(r.lines.String(), "Following an existing Job") })
		if jobs := r.jobs(t); len(jobs) != 1 {
			t.Errorf("there are %d Jobs", len(jobs))
		}
		if pods := r.pods(t); len(pods) != 1 {
			t.Errorf("there are %d pods", len(pods))
		}
		r.node.becomes(t, pod, corev1.PodSucceeded, exited(0, "done"))
		for _, x := range both {
			x.succeeds(t, "done")
		}
		r.recorded(t, call())
	})

	// Another operator begins the next attempt, and nothing runs beside it.
	It("runs no attempt beside a later one", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		earlier := r.execute(t.Context(), t, call())
		pod := r.startsPod(t)
		next := call()
		next.Attempt = 2
		later := r.execute(t.Context(), t, next)
		<-earlier.done
		// It observes that its Job or its pod is deleted, or that there is a later attempt.
		if executor.ErrorKindOf(earlier.err) != executor.Unreachable {
			t.Errorf("the earlier attempt returned %v", earlier.err)
		}
		await(t, "the pod of the later attempt", func() bool {
			pods := r.pods(t)
			return len(pods) == 1 && pods[0].UID != pod.UID
		})
		pod = r.startsPod(t)
		r.run(t).fails(t, executor.Unreachable, "a later attempt has already begun")
		r.node.becomes(t, pod, corev1.PodSucceeded, exited(0, "done"))
		later.succeeds(t, "done")
		r.recorded(t, next)
	})

	// A Job fails while no operator runs.
	It("reports a Job that ended while the operator was away", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		ctx, stop := context.WithCancel(t.Context())
		x := r.execute(ctx, t, call())
		pod := r.startsPod(t)
		stop()
		<-x.done
		r.node.becomes(t, pod, corev1.PodFailed, exited(3, "no such database"))
		await(t, "that the Job failed", func() bool {
			status := r.jobs(t)[0].Status
			return len(status.Conditions) > 0 && status.Failed == 1
		})
		r.run(t).fails(t, executor.Failed, "ended with exit code 3: no such database")
		r.recorded(t, call())
	})

	It("deletes its Job when it is canceled", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		x := r.execute(ctx, t, call())
		r.startsPod(t)
		cancel(errCancelled)
		x.fails(t, executor.Interrupted, "was canceled before it answered")
		// Execute has waited for the deletion.
		if jobs, pods, secrets := r.jobs(t), r.pods(t), r.secrets(t); len(jobs)+len(pods)+len(secrets) > 0 {
			t.Errorf("%d Jobs, %d pods and %d Secrets remain", len(jobs), len(pods), len(secrets))
		}
	})

	// An attempt times out before its pod is scheduled.
	It("stops at its deadline", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		x := r.execute(ctx, t, call())
		x.fails(t, executor.Timeout, "did not start before its deadline: its ")
		r.nothingLeft(t)
	})

	// Abandons a run while no operator runs.
	It("stops what an abandoned run left behind", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		ctx, stop := context.WithCancel(t.Context())
		x := r.execute(ctx, t, call())
		r.startsPod(t)
		stop()
		<-x.done
		r.stop(t, call())
	})

	// A pod prints 100 MiB. What exceeds the limit is not read.
	It("cuts a log of 100 MiB", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		const size = 100 << 20
		line := "2026-01-01T00:00:01Z " + strings.Repeat("x", 1000) + "\n"
		x := r.run(t)
		pod := r.pod(t)
		sent := make(chan int, 1)
		r.node.prints(pod, func(w io.Writer) {
			n := 0
			for n < size {
				written, err := io.WriteString(w, line)
				n += written
				if err != nil {
					break
				}
			}
			sent <- n
		})
		r.node.becomes(t, pod, corev1.PodRunning, running())
		if n := <-sent; n >= size {
			t.Errorf("all %d bytes of the log were read", n)
		}
		await(t, "that the log is cut", func() bool {
			return strings.Contains(r.lines.String(), "longer than 1048576 bytes; the rest is dropped")
		})
		r.node.becomes(t, pod, corev1.PodSucceeded, exited(0, "done"))
		x.succeeds(t, "done")
		if n := len(r.lines.String()); n > 3*job.MaxLogBytes/2 {
			t.Errorf("the run's log has %d bytes", n)
		}
	})

	// A Job of another owner keeps its name.
	It("keeps a Job of another owner", func() {
		t := suite.Spec(GinkgoTB())
		r := cluster.room(t)
		x := r.run(t)
		name := r.pod(t).Labels[batchv1.JobNameLabel]
		e, err := job.New(r.options)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Stop(t.Context(), call()); err != nil {
			t.Fatal(err)
		}
		<-x.done
		theirs := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}}
		theirs.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "action", Image: image}}}
		theirs.Spec.Suspend = new(true)
		if err := r.admin.Create(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		r.run(t).fails(t, executor.Invalid, "Job "+name+" in namespace "+r.namespace+" already exists and was not created for this action: delete it")
		if jobs := r.jobs(t); len(jobs) != 1 || jobs[0].UID != theirs.UID {
			t.Errorf("the Jobs are %v", jobs)
		}
	})
})
