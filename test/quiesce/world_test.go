// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// plane runs the controllers of Kubernetes, but no kubelet: pods are created and deleted as in a
// cluster, and stay Pending unless a test acts as the node.
var plane *controlplane.ControlPlane

var (
	_ = BeforeSuite(func(ctx SpecContext) {
		ctrl.SetLogger(logr.Discard())
		var err error
		plane, err = controlplane.Start(context.WithoutCancel(ctx), controlplane.Options{ControllerManager: true})
		Expect(err).NotTo(HaveOccurred())
		Expect(addNode(ctx)).To(Succeed())
	})
	_ = AfterSuite(func() {
		if plane != nil {
			Expect(plane.Stop()).To(Succeed())
		}
	})
)

func TestQuiesce(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Quiesce")
}

// addNode creates a node for DaemonSets.
func addNode(ctx context.Context) error {
	c, err := newClient(plane.Config())
	if err != nil {
		return err
	}
	return c.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"disk": "ssd"}}})
}

func newClient(cfg *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := quiesce.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.NewWithWatch(cfg, client.Options{Scheme: scheme})
}

// world is a namespace with a Quiescer that has all permissions.
type world struct {
	testing.TB
	client.WithWatch
	*quiesce.Quiescer
	ns string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	c, err := newClient(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, WithWatch: c, Quiescer: quiesce.New(c, quiesce.Options{OperatorNamespace: "grapnel-system"})}
	w.ns = w.namespace()
	return w
}

func (w *world) namespace() string {
	w.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	if err := w.Create(w.Context(), namespace); err != nil {
		w.Fatal(err)
	}
	return namespace.Name
}

// request returns a request of a run of this test for its namespace. A run unquiesces what it holds
// in any namespace, so other tests need other names.
func (w *world) request(run string) quiesce.Request {
	return quiesce.Request{Key: "hook-run", Attempt: 1, Holder: run + " of " + w.Name(), Namespaces: []string{w.ns}, WaitForPods: true}
}

// made creates objects as a user does.
func (w *world) made(objects ...client.Object) {
	w.Helper()
	for _, o := range objects {
		o.SetNamespace(w.ns)
		if err := w.Create(w.Context(), o, client.FieldOwner("kubectl-create")); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) read(o client.Object) {
	w.Helper()
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		w.Fatal(err)
	}
}

// until calls repeatedly until the call is done or fails, while the controllers of the cluster
// work.
func (w *world) until(call func(context.Context, quiesce.Request) (quiesce.Result, error), req quiesce.Request) (result quiesce.Result, err error) {
	w.Helper()
	suite.Eventually(w.TB, func() string {
		if result, err = call(w.Context(), req); err != nil || result.RetryAfter == 0 {
			return ""
		}
		return result.Message
	})
	return result, err
}

// done is like until, and fails the test on an error.
func (w *world) done(call func(context.Context, quiesce.Request) (quiesce.Result, error), req quiesce.Request) quiesce.Result {
	w.Helper()
	result, err := w.until(call, req)
	if err != nil {
		w.Fatalf("failed: %v", err)
	}
	return result
}

// failed returns the error of a call that must fail.
func (w *world) failed(call func(context.Context, quiesce.Request) (quiesce.Result, error), req quiesce.Request) (quiesce.Result, *quiesce.Error) {
	w.Helper()
	result, err := w.until(call, req)
	failed := new(quiesce.Error)
	if !errors.As(err, &failed) {
		w.Fatalf("it did not fail: %q, %v", result.Message, err)
	}
	return result, failed
}

// outcome returns the outcome for a workload; "" if the result does not contain it.
func outcome(r quiesce.Result, kind quiesce.WorkloadKind, name string) quiesce.Outcome {
	for _, i := range r.Items {
		if i.Kind == kind && i.Name == name {
			return i.Outcome
		}
	}
	return ""
}

func says(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

// kubectl runs kubectl in the namespace of the test.
func (w *world) kubectl(args ...string) {
	w.Helper()
	args = append([]string{"--kubeconfig", plane.KubeconfigPath(), "--namespace", w.ns}, args...)
	if out, err := exec.CommandContext(w.Context(), plane.KubectlPath(), args...).CombinedOutput(); err != nil {
		w.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
}

// pods returns the pods of the namespace that have not terminated.
func (w *world) pods() []corev1.Pod {
	w.Helper()
	var list corev1.PodList
	if err := w.List(w.Context(), &list, client.InNamespace(w.ns)); err != nil {
		w.Fatal(err)
	}
	return list.Items
}

// awaitPods waits until an application has the wanted number of pods; "" counts all.
func (w *world) awaitPods(app string, want int) {
	w.Helper()
	suite.Eventually(w.TB, func() string {
		n := 0
		for _, pod := range w.pods() {
			if app == "" || pod.Labels["app"] == app {
				n++
			}
		}
		if n == want {
			return ""
		}
		return fmt.Sprintf("%d pods of %q, want %d", n, app, want)
	})
}

// starts starts a pod, as a node does.
func (w *world) starts(pod corev1.Pod) {
	w.Helper()
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}
	if err := w.SubResource("binding").Create(w.Context(), &pod, binding); err != nil {
		w.Fatal(err)
	}
	w.read(&pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now())}}
	if err := w.Status().Update(w.Context(), &pod); err != nil {
		w.Fatal(err)
	}
}

// ends terminates the containers of a pod, as a node does.
func (w *world) ends(pod corev1.Pod) {
	w.Helper()
	if err := w.Delete(w.Context(), &pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
}
