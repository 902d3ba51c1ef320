// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/job"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

const (
	image = "registry.example/freeze:1"
	// patience is how long a test waits for something that takes milliseconds on an idle machine.
	patience = 2 * time.Minute
)

var cluster *site

// The suite runs Jobs on a real API server, with the controllers for Jobs, quotas and garbage
// collection. It simulates the node.
var _ = BeforeSuite(func() {
	plane, err := controlplane.Start(context.Background(), controlplane.Options{ControllerManager: true})
	Expect(err).NotTo(HaveOccurred())
	cluster = &site{plane: plane}
	cluster.admin, err = client.NewWithWatch(plane.Config(), client.Options{})
	Expect(err).NotTo(HaveOccurred())
	cluster.node = newNode(GinkgoTB(), cluster.admin, "node-1")
})

var _ = AfterSuite(func() {
	if cluster == nil {
		return
	}
	if cluster.node != nil {
		cluster.node.stop()
	}
	Expect(cluster.plane.Stop()).To(Succeed())
})

func TestExecutor_OnCluster(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Executor of Jobs")
}

// site is the test cluster.
type site struct {
	plane *controlplane.ControlPlane
	admin client.WithWatch
	node  *node
	count int
}

// room is a namespace that enforces the restricted pod security standard, and an operator with the
// permissions that the package documentation lists.
type room struct {
	*site
	namespace string
	options   job.Options
	lines     *record
}

// record is the log output.
type record struct {
	mu  sync.Mutex
	all []string
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.all, "\n")
}

func (r *record) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, args)
	}, funcr.Options{})
}

// room creates a room for a spec.
func (s *site) room(t testing.TB) *room {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "jobs-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := s.admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	r := &room{site: s, namespace: namespace.Name, lines: &record{}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "default"}}
	await(t, "the namespace's account", func() bool { return s.admin.Get(t.Context(), client.ObjectKeyFromObject(account), account) == nil })
	s.count++
	user := fmt.Sprintf("operator-%d", s.count)
	config, err := s.plane.AddUser(user)
	if err != nil {
		t.Fatal(err)
	}
	r.grant(t, user)
	own, err := client.NewWithWatch(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r.options = job.Options{
		Client: own, Logs: job.NewLogs(clients.CoreV1()), Plugin: "freezer", Namespace: r.namespace, Image: image, Redactor: redact.New(),
	}
	return r
}

// grant gives a user the permissions that doc.go lists.
func (r *room) grant(t testing.TB, user string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: r.namespace, Name: "operator"}
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"get", "list", "watch", "create", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "operator"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		},
	} {
		if err := r.admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func call() executor.Call {
	return executor.Call{
		Point: executor.PointPreBackup, Action: "example.io/freeze", Key: "7f1d-uid", Attempt: 1, Subject: []byte(`{"kind":"Backup"}`),
		Parameters: map[string]string{"db": "orders"},
	}
}

// execution is a call of Execute that runs in the background.
type execution struct {
	done   chan struct{}
	answer executor.Answer
	err    error
}

// execute calls Execute, with a deadline of ten minutes.
func (r *room) execute(ctx context.Context, t testing.TB, call executor.Call) *execution {
	t.Helper()
	e, err := job.New(r.options)
	if err != nil {
		t.Fatal(err)
	}
	x := &execution{done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(logr.NewContext(ctx, r.lines.logger()), 10*time.Minute)
	go func() {
		defer close(x.done)
		defer cancel()
		x.answer, x.err = e.Execute(ctx, call)
	}()
	t.Cleanup(func() {
		cancel()
		<-x.done
	})
	return x
}

// run executes the usual call.
func (r *room) run(t testing.TB) *execution {
	t.Helper()
	return r.execute(t.Context(), t, call())
}

// succeeds waits for an answer with that message.
func (x *execution) succeeds(t testing.TB, message string) {
	t.Helper()
	<-x.done
	if x.err != nil || x.answer.Message != message {
		t.Errorf("it returned %+v, %v; want the message %q", x.answer, x.err, message)
	}
}

// fails waits for an error of that kind whose text contains part.
func (x *execution) fails(t testing.TB, kind executor.ErrorKind, part string) {
	t.Helper()
	<-x.done
	if x.err == nil || executor.ErrorKindOf(x.err) != kind || !strings.Contains(x.err.Error(), part) {
		t.Errorf("error is %s %v\nwant %s with %q", executor.ErrorKindOf(x.err), x.err, kind, part)
	}
}

func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return is(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// jobs returns the existing Jobs; pods returns their pods, secrets their files.
func (r *room) jobs(t testing.TB) []batchv1.Job {
	t.Helper()
	var list batchv1.JobList
	if err := r.admin.List(t.Context(), &list, client.InNamespace(r.namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (r *room) pods(t testing.TB) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := r.admin.List(t.Context(), &list, client.InNamespace(r.namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (r *room) secrets(t testing.TB) []corev1.Secret {
	t.Helper()
	var list corev1.SecretList
	if err := r.admin.List(t.Context(), &list, client.InNamespace(r.namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// pod waits for the only pod.
func (r *room) pod(t testing.TB) *corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	await(t, "a pod", func() bool {
		pods = r.pods(t)
		return len(pods) > 0
	})
	if len(pods) != 1 {
		t.Fatalf("there are %d pods", len(pods))
	}
	return &pods[0]
}

// startsPod waits for the pod, and starts it.
func (r *room) startsPod(t testing.TB) *corev1.Pod {
	t.Helper()
	pod := r.pod(t)
	r.node.becomes(t, pod, corev1.PodRunning, running())
	return pod
}

// recorded cleans up as the caller of Execute does after it recorded the answer, and fails the test
// if the Job did not keep the answer until then.
func (r *room) recorded(t testing.TB, of executor.Call) {
	t.Helper()
	if n := len(r.jobs(t)); n != 1 {
		t.Errorf("there are %d Jobs, want the one that keeps the answer until it is recorded", n)
	}
	r.stop(t, of)
}

// stop removes what a call left behind, and waits until nothing remains.
func (r *room) stop(t testing.TB, of executor.Call) {
	t.Helper()
	e, err := job.New(r.options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := e.Stop(ctx, of); err != nil {
		t.Error(err)
	}
	r.nothingLeft(t)
}

// nothingLeft waits until nothing remains: pods are garbage-collected after their Job.
func (r *room) nothingLeft(t testing.TB) {
	t.Helper()
	if jobs, secrets := r.jobs(t), r.secrets(t); len(jobs)+len(secrets) > 0 {
		t.Errorf("%d Jobs and %d Secrets remain", len(jobs), len(secrets))
	}
	await(t, "the end of the pods", func() bool { return len(r.pods(t)) == 0 })
}
