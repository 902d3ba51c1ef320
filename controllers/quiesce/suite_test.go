// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var cluster suite.Cluster

var (
	_ = BeforeSuite(func() { Expect(cluster.Start()).To(Succeed()) })
	_ = AfterSuite(func() { Expect(cluster.Stop()).To(Succeed()) })
)

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Quiesce controller")
}

// stage is a namespace in which a test quiesces workloads and reconciles at chosen times, which are
// relative to start.
type stage struct {
	*suite.Env
	t          testing.TB
	start, now time.Time
	told       []string
	quiescer   *quiesce.Quiescer
	r          *Reconciler
}

func newStage(t testing.TB) *stage {
	t.Helper()
	s := &stage{Env: cluster.NewEnv(t), t: t, start: time.Now().UTC().Truncate(time.Second)}
	s.now = s.start
	clock := func() time.Time { return s.now }
	s.quiescer = quiesce.New(s.Client, quiesce.Options{Now: clock})
	// Ignore what others quiesce in this cluster.
	own := client.NewNamespacedClient(s.Client, s.Namespace)
	s.r = &Reconciler{Client: own, APIReader: s.Client, Quiescer: s.quiescer, Recorder: s, Now: clock, workloadReader: own}
	return s
}

// Eventf implements events.EventRecorder.
func (s *stage) Eventf(object, _ runtime.Object, level, reason, action, note string, args ...any) {
	named, _ := object.(client.Object)
	kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1alpha1.")
	if metadata, ok := object.(*metav1.PartialObjectMetadata); ok {
		kind = metadata.Kind
	}
	s.told = append(s.told, fmt.Sprintf("%s %s: %s %s %s: ", kind, named.GetName(), level, reason, action)+fmt.Sprintf(note, args...))
}

// expectTold checks that exactly these events were emitted, in any order, since its last call. Each
// has a prefix, and optionally words after a "…" that follow somewhere.
func (s *stage) expectTold(want ...string) {
	s.t.Helper()
	told := slices.Clone(s.told)
	s.told = nil
	for _, text := range want {
		beginning, words, _ := strings.Cut(text, "…")
		i := slices.IndexFunc(told, func(told string) bool {
			return strings.HasPrefix(told, beginning) && strings.Contains(told, words)
		})
		if i < 0 {
			s.t.Errorf("no event %q, but %q", text, told)
			continue
		}
		told = slices.Delete(told, i, i+1)
	}
	if len(told) > 0 {
		s.t.Errorf("unexpected events %q", told)
	}
}

// at reconciles at a time.
func (s *stage) at(since time.Duration) (ctrl.Result, error) {
	s.t.Helper()
	s.now = s.start.Add(since)
	return s.r.Reconcile(s.t.Context(), ctrl.Request{})
}

// sleeps reconciles at a time when nothing is due, and returns the requeue delay.
func (s *stage) sleeps(since time.Duration) time.Duration {
	s.t.Helper()
	result, err := s.at(since)
	if err != nil {
		s.t.Fatal(err)
	}
	s.expectTold()
	return result.RequeueAfter
}

// quiesce quiesces everything for a run, for at most the given time.
func (s *stage) quiesce(holder string, most time.Duration) {
	s.t.Helper()
	result, err := s.quiescer.Quiesce(s.t.Context(), s.request(holder, most))
	if err != nil || len(result.Items) == 0 {
		s.t.Fatalf("quiesced %v: %v", result.Items, err)
	}
}

func (s *stage) request(holder string, most time.Duration) quiesce.Request {
	return quiesce.Request{Holder: holder, Namespaces: []string{s.Namespace}, MaxQuiesceDuration: most}
}

func (s *stage) backup(name string) *v1alpha1.Backup {
	s.t.Helper()
	return suite.Create(s.Env, &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// template returns a pod template for pods that never start.
func template(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			Containers:   []corev1.Container{{Name: "main", Image: "registry.invalid/app"}},
			NodeSelector: map[string]string{"disk": "ssd"},
		},
	}
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name), Template: template(name)},
	}
}

// shop creates one workload of each kind.
func (s *stage) shop() {
	s.t.Helper()
	ended := template("job")
	ended.Spec.RestartPolicy = corev1.RestartPolicyNever
	suite.Create(s.Env, deployment("web", 3))
	for _, object := range []client.Object{
		&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2)), Selector: selector("db"), Template: template("db")}},
		&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(1)), Selector: selector("old"), Template: template("old")}},
		&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: selector("agent"), Template: template("agent")}},
		&batchv1.Job{Spec: batchv1.JobSpec{Template: ended}},
		&batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: ended}}}},
	} {
		object.SetName("one")
		suite.Create(s.Env, object)
	}
}

// stopped returns the quiesced workloads.
func (s *stage) stopped() []string {
	s.t.Helper()
	var names []string
	add := func(off bool, kind quiesce.WorkloadKind, name string) {
		if off {
			names = append(names, string(kind)+" "+name)
		}
	}
	list := func(list client.ObjectList) {
		if err := s.Client.List(s.t.Context(), list, client.InNamespace(s.Namespace)); err != nil {
			s.t.Fatal(err)
		}
	}
	var deployments appsv1.DeploymentList
	list(&deployments)
	for _, o := range deployments.Items {
		add(*o.Spec.Replicas == 0, quiesce.Deployment, o.Name)
	}
	var statefulSets appsv1.StatefulSetList
	list(&statefulSets)
	for _, o := range statefulSets.Items {
		add(*o.Spec.Replicas == 0, quiesce.StatefulSet, o.Name)
	}
	var replicaSets appsv1.ReplicaSetList
	list(&replicaSets)
	for _, o := range replicaSets.Items {
		add(*o.Spec.Replicas == 0, quiesce.ReplicaSet, o.Name)
	}
	var daemonSets appsv1.DaemonSetList
	list(&daemonSets)
	for _, o := range daemonSets.Items {
		add(len(o.Spec.Template.Spec.NodeSelector) == 2, quiesce.DaemonSet, o.Name)
	}
	var jobs batchv1.JobList
	list(&jobs)
	for _, o := range jobs.Items {
		add(*o.Spec.Suspend, quiesce.Job, o.Name)
	}
	var cronJobs batchv1.CronJobList
	list(&cronJobs)
	for _, o := range cronJobs.Items {
		add(*o.Spec.Suspend, quiesce.CronJob, o.Name)
	}
	slices.Sort(names)
	return names
}

// allStopped is the result of stopped for the whole shop.
var allStopped = []string{"CronJob one", "DaemonSet one", "Deployment web", "Job one", "ReplicaSet one", "StatefulSet one"}

func (s *stage) expectStopped(want ...string) {
	s.t.Helper()
	if got := s.stopped(); !slices.Equal(got, want) {
		s.t.Errorf("quiesced are %q, want %q", got, want)
	}
}
