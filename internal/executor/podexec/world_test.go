// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

func TestMain(m *testing.M) {
	// The heartbeat of a WebSocket detects a closed connection within 5 s.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"),
		goleak.IgnoreTopFunction("github.com/onsi/ginkgo/v2/internal/interrupt_handler.(*InterruptHandler).registerForInterrupts.func2"))
}

var aCall = executor.Call{Point: executor.PointPreBackup, Action: "a.io/b", Key: "k", Attempt: 1, Subject: []byte("{}")}

// command is a command that was run.
type command struct {
	namespace, pod, container string
	command                   []string
	stdin                     string
	stdout, stderr            io.Writer
}

func (c *command) name() string { return c.namespace + "/" + c.pod }

// world is a cluster with a command runner.
type world struct {
	t       *testing.T
	client  client.Client
	options podexec.Options
	// handle implements a command; nil is success.
	handle func(context.Context, *command) error

	mu       sync.Mutex
	commands []*command
	log      strings.Builder
}

func newWorld(t *testing.T, pods ...*corev1.Pod) *world {
	t.Helper()
	builder := fake.NewClientBuilder()
	for _, pod := range pods {
		builder = builder.WithObjects(pod)
	}
	w := &world{t: t, client: builder.Build()}
	w.options = podexec.Options{
		Reader: podexec.ReaderFunc(w.read), CommandRunner: w, Selector: labels.SelectorFromSet(labels.Set{"app": "db"}),
		Namespaces: func(context.Context, executor.Call) ([]string, error) { return []string{"shop"}, nil },
		Command:    []string{"/bin/freeze"}, Redactor: redact.New(),
	}
	return w
}

func (w *world) read(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := w.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	return list.Items, err
}

// Exec implements podexec.CommandRunner.
func (w *world) Exec(
	ctx context.Context, namespace, pod, container string, argv []string, stdin io.Reader, stdout, stderr io.Writer,
) error {
	input, err := io.ReadAll(stdin)
	if err != nil {
		return err
	}
	c := &command{namespace: namespace, pod: pod, container: container, command: argv, stdin: string(input), stdout: stdout, stderr: stderr}
	w.mu.Lock()
	w.commands = append(w.commands, c)
	w.mu.Unlock()
	if w.handle == nil {
		return nil
	}
	return w.handle(ctx, c)
}

func (w *world) execute(ctx context.Context, call executor.Call) (executor.Answer, error) {
	w.t.Helper()
	e, err := podexec.New(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	log := funcr.New(func(_, args string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.log.WriteString(args + "\n")
	}, funcr.Options{})
	return e.Execute(logr.NewContext(ctx, log), call)
}

func (w *world) calls() []*command {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.commands)
}

// called returns the names of the pods in which commands were run, in order.
func (w *world) called() []string {
	var names []string
	for _, c := range w.calls() {
		names = append(names, c.name())
	}
	return names
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// add adds a pod.
func (w *world) add(pod *corev1.Pod) {
	w.t.Helper()
	status := pod.Status
	err := w.client.Create(w.t.Context(), pod)
	pod.Status = status
	if err := errors.Join(err, w.client.Status().Update(w.t.Context(), pod)); err != nil {
		w.t.Error(err)
	}
}

// remove removes a pod.
func (w *world) remove(namespace, name string) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
		w.t.Error(err)
	}
}

// change changes a pod's status.
func (w *world) change(namespace, name string, change func(*corev1.Pod)) {
	w.t.Helper()
	var pod corev1.Pod
	err := w.client.Get(w.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &pod)
	change(&pod)
	if err := errors.Join(err, w.client.Status().Update(w.t.Context(), &pod)); err != nil {
		w.t.Error(err)
	}
}

// running returns a pod that is ready. Its container is main.
func running(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name + "#1"),
			Labels: map[string]string{"app": "db"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{up("main")},
		},
	}
}

func up(container string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: container, ContainerID: "containerd://" + container + "1",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}
}

// terminating returns a pod that is being deleted.
func terminating(pod *corev1.Pod) *corev1.Pod {
	now := metav1.Now()
	pod.DeletionTimestamp, pod.Finalizers = &now, []string{"a.io/hold"}
	return pod
}

// owned returns a pod with a controller.
func owned(pod *corev1.Pod, uid types.UID) *corev1.Pod {
	yes := true
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: string(uid), UID: uid, Controller: &yes}}
	return pod
}

func exitCode(code int) error {
	return exec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
}

func wantError(t testing.TB, err error, kind executor.ErrorKind, text string) {
	t.Helper()
	if executor.ErrorKindOf(err) != kind || !strings.Contains(err.Error(), text) {
		t.Fatalf("error is %s %v, want %s %q", executor.ErrorKindOf(err), err, kind, text)
	}
}
