// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

const (
	// eventuallyTimeout is the time limit for steps that take milliseconds on an idle
	// machine.
	eventuallyTimeout = time.Minute
	// LabelTest is the label on the cluster-scoped objects of a test, with its namespace as
	// value.
	LabelTest = "grapnel.dev/test"
)

// Cluster is the API server of a suite. Start and Stop are for BeforeSuite and AfterSuite; the other
// methods are safe for concurrent use.
type Cluster struct {
	plane *controlplane.ControlPlane
}

// Start starts the API server with the kinds of Grapnel.
func (c *Cluster) Start() error {
	ctrl.SetLogger(logr.Discard()) // each test has a logger of its own
	_, file, _, _ := runtime.Caller(0)
	crds := filepath.Join(filepath.Dir(file), "..", "..", "..", "config", "crd", "bases")
	var err error
	c.plane, err = controlplane.Start(context.Background(), controlplane.Options{CRDPaths: []string{crds}})
	return err
}

// Stop stops the API server, if it was started.
func (c *Cluster) Stop() error {
	if c.plane == nil {
		return nil
	}
	return c.plane.Stop()
}

// Env is the environment of one test in the cluster.
type Env struct {
	t testing.TB
	// Namespace is the namespace of the test.
	Namespace string
	// Client is the administrator's client; it reads from the API server, not from a cache.
	Client client.Client

	plane *controlplane.ControlPlane
}

// NewEnv returns the environment of a test.
func (c *Cluster) NewEnv(t testing.TB) *Env {
	t.Helper()
	admin, err := client.New(c.plane.Config(), client.Options{Scheme: newScheme()})
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return &Env{t: t, Namespace: namespace.Name, Client: admin, plane: c.plane}
}

func newScheme() *k8sruntime.Scheme {
	scheme := k8sruntime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// StartManager starts a manager that sees the test's namespace, and the cluster-scoped
// Plugins with the test's label, with the controllers that setup adds. The returned
// function stops the manager and waits for its end; the cleanup of the test also does this.
func (e *Env) StartManager(setup func(ctrl.Manager) error) (stop func()) {
	e.t.Helper()
	skip := true // skip the check for unique names: tests have many managers
	mgr, err := ctrl.NewManager(e.plane.Config(), ctrl.Options{
		Scheme: newScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Logger:     newTestLogger(e.t),
		Controller: config.Controller{SkipNameValidation: &skip},
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{e.Namespace: {}},
			ByObject: map[client.Object]cache.ByObject{
				&v1alpha1.Plugin{}: {Label: labels.SelectorFromSet(labels.Set{LabelTest: e.Namespace})},
			},
		},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	if err := setup(mgr); err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			e.t.Errorf("the manager ended: %v", err)
		}
	})
	e.t.Cleanup(stop)
	return stop
}

// newTestLogger logs to a test until the test ends: the event recorder continues for a
// moment after its manager.
func newTestLogger(t testing.TB) logr.Logger {
	t.Helper()
	var mu sync.Mutex
	ended := false
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	})
	return funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			t.Log(prefix, args)
		}
	}, funcr.Options{})
}

// Create creates an object, in the test's namespace or with its label, and returns it as
// stored.
func Create[T client.Object](e *Env, object T) T {
	e.t.Helper()
	object.SetNamespace(e.Namespace)
	object.SetLabels(labels.Merge(object.GetLabels(), labels.Set{LabelTest: e.Namespace}))
	if err := e.Client.Create(e.t.Context(), object); err != nil {
		e.t.Fatal(err)
	}
	return object
}

// GetIfExists reads an object again, and reports whether it still exists.
func GetIfExists[T client.Object](e *Env, object T) bool {
	e.t.Helper()
	err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		e.t.Fatal(err)
	}
	return err == nil
}

// UpdateWithRetry reads an object, changes it and writes it, and retries on conflicts.
func UpdateWithRetry[T client.Object](e *Env, object T, change func(T)) {
	e.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := e.Client.Get(e.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return e.Client.Update(e.t.Context(), object)
	})
	if err != nil {
		e.t.Fatal(err)
	}
}

// Delete deletes an object without waiting for its removal.
func (e *Env) Delete(object client.Object) {
	e.t.Helper()
	if err := e.Client.Delete(e.t.Context(), object); err != nil {
		e.t.Fatal(err)
	}
}

// WaitFor waits until wrong returns "" for an object. object contains the last version that
// was read.
func WaitFor[T client.Object](e *Env, object T, wrong func(T) string) {
	e.t.Helper()
	Eventually(e.t, func() string {
		if !GetIfExists(e, object) {
			return "the object does not exist"
		}
		return wrong(object)
	})
}

// WaitForDeletion waits until an object no longer exists.
func (e *Env) WaitForDeletion(object client.Object) {
	e.t.Helper()
	Eventually(e.t, func() string {
		if GetIfExists(e, object) {
			return "the object still exists, with the finalizers " + strings.Join(object.GetFinalizers(), ", ")
		}
		return ""
	})
}

// ListEventsFor returns the events for an object as "Type Reason: note".
func (e *Env) ListEventsFor(object client.Object) []string {
	e.t.Helper()
	var list eventsv1.EventList
	if err := e.Client.List(e.t.Context(), &list); err != nil {
		e.t.Fatal(err)
	}
	var texts []string
	for _, event := range list.Items {
		if event.Regarding.UID == object.GetUID() {
			texts = append(texts, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Note))
		}
	}
	return texts
}

// WaitForEvent waits for an event for an object that begins with text.
func (e *Env) WaitForEvent(object client.Object, text string) {
	e.t.Helper()
	Eventually(e.t, func() string {
		events := e.ListEventsFor(object)
		if slices.ContainsFunc(events, func(event string) bool { return strings.HasPrefix(event, text) }) {
			return ""
		}
		return fmt.Sprintf("no event %q among %q", text, events)
	})
}

// Eventually waits until wrong returns "". After a timeout that only failing tests reach,
// it fails the test with the last result.
func Eventually(t testing.TB, wrong func() string) {
	t.Helper()
	last := ""
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, eventuallyTimeout, true, func(context.Context) (bool, error) {
		last = wrong()
		return last == "", nil
	})
	if err != nil {
		t.Fatalf("timed out: %s", last)
	}
}

// SortedByName iterates over cases by name, so that the tree of specs is the same in each process.
func SortedByName[V any](cases map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			if !yield(name, cases[name]) {
				return
			}
		}
	}
}

// Spec returns the testing.TB of a Ginkgo spec, for helpers that plain tests call, too. GinkgoTB
// has another context for each call, and neither a context nor Cleanup during clean-up.
func Spec(t testing.TB) testing.TB {
	t.Helper()
	s := &spec{TB: t, ctx: t.Context()}
	t.Cleanup(s.cleanUp)
	return s
}

type spec struct {
	testing.TB
	ctx      context.Context //nolint:containedctx // testing.TB is what has a context.
	cleanups []func()
}

// Context implements testing.TB.
func (s *spec) Context() context.Context { return s.ctx }

// Cleanup implements testing.TB.
func (s *spec) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

// TempDir implements testing.TB. Clean-up removes the directory in its turn, as that of a test does.
func (s *spec) TempDir() string {
	s.Helper()
	dir, err := os.MkdirTemp("", "grapnel-spec-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			s.Error(err)
		}
	})
	return dir
}

// cleanUp calls the functions of Cleanup, the last one first, even if one fails or adds another.
func (s *spec) cleanUp() {
	if len(s.cleanups) == 0 {
		return
	}
	defer s.cleanUp()
	last := s.cleanups[len(s.cleanups)-1]
	s.cleanups = s.cleanups[:len(s.cleanups)-1]
	last()
}
