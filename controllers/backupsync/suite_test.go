// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/backupsync"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var cluster suite.Cluster

var (
	_ = BeforeSuite(func() { Expect(cluster.Start()).To(Succeed()) })
	_ = AfterSuite(func() { Expect(cluster.Stop()).To(Succeed()) })
)

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Backup sync controller")
}

// operator starts an operator whose locations are below root. It syncs each location once, unless
// something changes or a test requests a short interval.
func operator(t testing.TB, env *suite.Env, root string, options ...func(*backupsync.Reconciler)) (stop func()) {
	t.Helper()
	return env.StartManager(func(mgr ctrl.Manager) error {
		metrics, err := backupsync.NewMetrics(prometheus.NewRegistry())
		if err != nil {
			return err
		}
		redactor := redact.New()
		r := &backupsync.Reconciler{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("grapnel"), Redactor: redactor, Metrics: metrics,
			Opener: &location.Opener{Reader: mgr.GetAPIReader(), Root: root, Redactor: redactor}, Interval: time.Hour, Limiter: waits(func() {}),
		}
		for _, option := range options {
			option(r)
		}
		return r.SetupWithManager(mgr)
	})
}

func often(r *backupsync.Reconciler) { r.Interval = 50 * time.Millisecond }

// opener counts how often locations are opened.
type opener struct {
	backupsync.Opener
	opened atomic.Int64
}

// Open implements backupsync.Opener.
func (o *opener) Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*location.Store, error) {
	o.opened.Add(1)
	return o.Opener.Open(ctx, bsl)
}

// counted counts syncs.
func counted(o *opener) func(*backupsync.Reconciler) {
	return func(r *backupsync.Reconciler) { o.Opener, r.Opener = r.Opener, o }
}

// tokens is a limiter that allows as many writes as values are sent to it.
type tokens chan struct{}

// Wait implements backupsync.Limiter.
func (l tokens) Wait(ctx context.Context) error {
	select {
	case <-l:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// writing is a client that counts its writes, and whose status writes fail while it is set to
// broken.
type writing struct {
	client.Client
	writes atomic.Int64
	broken atomic.Bool
}

// Create implements client.Client.
func (w *writing) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	w.writes.Add(1)
	return w.Client.Create(ctx, o, opts...)
}

// Patch implements client.Client.
func (w *writing) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	w.writes.Add(1)
	return w.Client.Patch(ctx, o, p, opts...)
}

// Status implements client.Client.
func (w *writing) Status() client.SubResourceWriter { return statusOf{w.Client.Status(), w} }

type statusOf struct {
	client.SubResourceWriter
	of *writing
}

// Patch implements client.SubResourceWriter.
func (s statusOf) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	if _, isBackup := o.(*v1alpha1.Backup); isBackup && s.of.broken.Load() {
		return errors.New("the operator died")
	}
	s.of.writes.Add(1)
	return s.SubResourceWriter.Patch(ctx, o, p, opts...)
}

// through makes a Reconciler write through a client.
func through(w *writing) func(*backupsync.Reconciler) {
	return func(r *backupsync.Reconciler) { w.Client, r.Client = r.Client, w }
}

// directory creates a location in a directory. It is not checked yet.
func directory(env *suite.Env, name, path string) *v1alpha1.BackupStorageLocation {
	return suite.Create(env, &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.BackupStorageLocationSpec{Filesystem: &v1alpha1.FilesystemLocation{Path: path}},
	})
}

// check records the result of a check of a location.
func check(t testing.TB, env *suite.Env, bsl *v1alpha1.BackupStorageLocation, is metav1.ConditionStatus) {
	t.Helper()
	suite.GetIfExists(env, bsl)
	patch := client.MergeFrom(bsl.DeepCopy())
	conditions.Set(bsl, v1alpha1.ConditionAvailable, is, v1alpha1.ReasonAvailable, "said by a test")
	if err := env.Client.Status().Patch(t.Context(), bsl, patch); err != nil {
		t.Fatal(err)
	}
}

// put stores a manifest in a directory below root.
func put(t testing.TB, root, path, name, content string) {
	t.Helper()
	dir := filepath.Join(root, path, "backups", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "velero-backup.json"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// velero stores a backup as Velero does.
func velero(t testing.TB, root, path, name, uid string) {
	t.Helper()
	put(t, root, path, name, manifestOf(name, uid, "Completed"))
}

func named(env *suite.Env, name string) *v1alpha1.Backup {
	return &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name}}
}

// awaitPhase waits until a Backup exists and has a phase.
func awaitPhase(env *suite.Env, name string, phase v1alpha1.RunPhase) *v1alpha1.Backup {
	b := named(env, name)
	suite.WaitFor(env, b, func(b *v1alpha1.Backup) string {
		if b.Status.Phase == phase && b.Status.ObservedGeneration == b.Generation {
			return ""
		}
		return fmt.Sprintf("Backup %s is %+v, want %s", name, b.Status, phase)
	})
	return b
}

// awaitCondition waits until a condition has a status, a reason and a part of a message.
func awaitCondition[T interface {
	client.Object
	conditions.Object
}](env *suite.Env, object T, of string, status metav1.ConditionStatus, reason, message string,
) {
	suite.WaitFor(env, object, func(object T) string {
		c := conditions.Get(object, of)
		if c != nil && c.Status == status && c.Reason == reason && strings.Contains(c.Message, message) {
			return ""
		}
		return fmt.Sprintf("%s of %s is %+v, want %s because of %s: %s", of, object.GetName(), c, status, reason, message)
	})
}

// awaitMore waits until two more syncs of a location have ended: the second one began after this
// call.
func awaitMore(t testing.TB, o *opener) {
	t.Helper()
	before := o.opened.Load()
	suite.Eventually(t, func() string {
		if o.opened.Load() >= before+3 {
			return ""
		}
		return "the location was not synced"
	})
}

func backups(t testing.TB, env *suite.Env) []v1alpha1.Backup {
	t.Helper()
	var list v1alpha1.BackupList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(env.Namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}
