// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/factory"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

const operatorNamespace = "grapnel-system"

var errRefused = errors.New("refused by the test")

// world is a cluster with everything that executors need.
type world struct {
	t      *testing.T
	client client.WithWatch
	*factory.Builder

	mu sync.Mutex
	// created are the objects that were created; onCreate and onGet may reject a request.
	created  []client.Object
	onCreate func(client.Object) error
	onGet    func(client.Object) error
	onList   func(client.ObjectList) error
	// podLists are the options of the lists of pods.
	podLists []client.ListOptions
	// commands are the commands that ran in pods.
	commands []command
	events   *events.FakeRecorder
}

// command is a command that ran in a pod.
type command struct {
	pod, container string
	words          []string
	stdin          string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t}
	base := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
	w.client = interceptor.NewClient(base, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.mu.Lock()
			w.created = append(w.created, o)
			w.mu.Unlock()
			if w.onCreate != nil {
				if err := w.onCreate(o); err != nil {
					return err
				}
			}
			return c.Create(ctx, o, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.onGet != nil {
				if err := w.onGet(o); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if w.onList != nil {
				if err := w.onList(l); err != nil {
					return err
				}
			}
			if err := c.List(ctx, l, opts...); err != nil {
				return err
			}
			return w.paginate(l, opts)
		},
	})
	redactor := redact.New()
	w.events = events.NewFakeRecorder(10)
	w.Builder = &factory.Builder{
		Recorder: w.events,
		Client:   w.client, Logs: w, CommandRunner: w, Namespace: operatorNamespace, Redactor: redactor, Logger: logr.Discard(),
		Quiescer: quiesce.New(w.client, quiesce.Options{OperatorNamespace: operatorNamespace, Redactor: redactor}),
	}
	return w
}

// paginate cuts a list of pods into the pages that its client requests.
func (w *world) paginate(l client.ObjectList, opts []client.ListOption) error {
	pods, ok := l.(*corev1.PodList)
	if !ok {
		return nil
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	w.mu.Lock()
	w.podLists = append(w.podLists, *options)
	w.mu.Unlock()
	limit, from := int(options.Limit), 0
	if options.Continue != "" {
		var err error
		if from, err = strconv.Atoi(options.Continue); err != nil {
			return err
		}
	}
	pods.Items = pods.Items[from:]
	if limit > 0 && len(pods.Items) > limit {
		pods.Items, pods.Continue = pods.Items[:limit], strconv.Itoa(from+limit)
	}
	return nil
}

// PodLogs implements job.Logs.
func (w *world) PodLogs(context.Context, string, string, string, bool) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}

// Exec implements podexec.CommandRunner: every command succeeds.
func (w *world) Exec(_ context.Context, namespace, pod, container string, words []string, stdin io.Reader, _, _ io.Writer) error {
	read, err := io.ReadAll(stdin)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commands = append(w.commands, command{pod: namespace + "/" + pod, container: container, words: words, stdin: string(read)})
	return err
}

// pluginOf returns a Plugin with one executor and actions "freeze" of these kinds.
func pluginOf(of v1alpha1.Executor, kinds ...v1alpha1.ActionKind) *v1alpha1.Plugin {
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "freezer"}, Spec: v1alpha1.PluginSpec{Executor: of}}
	for _, kind := range kinds {
		plugin.Spec.Actions = append(plugin.Spec.Actions, v1alpha1.PluginAction{Kind: kind, Name: "freeze"})
	}
	return plugin
}

// build builds a Plugin, which must be valid, and returns the executor of its action of a kind.
func (w *world) build(plugin *v1alpha1.Plugin, kind v1alpha1.ActionKind) executor.Executor {
	w.t.Helper()
	built, err := w.Build(plugin)
	if err != nil {
		w.t.Fatal(err)
	}
	run := built.Executors[catalog.ActionID{Kind: string(kind), Name: "freeze"}]
	if run == nil {
		w.t.Fatalf("there is no %s among %v", kind, built.Executors)
	}
	return run
}

// callFor returns a call at a point for a Backup or Restore.
func callFor(point, subject string) executor.Call {
	return executor.Call{Point: point, Action: "freeze", Key: "7f1d-uid", Attempt: 1, Subject: []byte(subject)}
}

const aBackup = `{"kind":"Backup","metadata":{"name":"nightly","uid":"b-1"},"spec":{"includedNamespaces":["shop"]}}`

func namespaces(names ...string) []client.Object {
	var objects []client.Object
	for _, name := range names {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return objects
}

func runningPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), Labels: map[string]string{"app": "db"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "db"}, {Name: "tools"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "db", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "tools", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}
}

func secret(namespace, name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

// wantError checks the kind of an error and a part of its text.
func wantError(t *testing.T, err error, kind executor.ErrorKind, part string) {
	t.Helper()
	if err == nil || executor.ErrorKindOf(err) != kind || !strings.Contains(err.Error(), part) {
		t.Errorf("error is %s %v\nwant %s with %q", executor.ErrorKindOf(err), err, kind, part)
	}
}
