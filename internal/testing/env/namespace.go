// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// DefaultLocation is the name of the default location of a Namespace, and of its directory.
const DefaultLocation = "files"

// Namespace is an operator with its namespace and directory.
type Namespace struct {
	Name     string
	Dir      string
	Operator *operator.Operator

	args []string
	env  *Env
	// started are all operators that were started here. Tests may replace Operator while it runs.
	started []*operator.Operator
}

// SharedOperator returns the operator for tests that do not need their own, in the
// operator's default namespace. The first test that calls it starts the operator.
func (w *Env) SharedOperator(t testing.TB) *Namespace {
	t.Helper()
	w.sharedOnce.Do(func() {
		ctx := context.WithoutCancel(t.Context())
		if w.sharedErr = operator.CreateNamespace(ctx, w.Client); w.sharedErr == nil {
			w.shared, w.sharedErr = w.startOperatorWithLocation(ctx, operator.Namespace, w.opts.SharedArgs)
		}
	})
	if w.sharedErr != nil {
		t.Fatal(w.sharedErr)
	}
	w.WaitForPlugins(t, w.configuredPlugins()...)
	return w.shared
}

// StartOperator starts an operator with additional flags, for its own namespace, until the test
// ends.
func (w *Env) StartOperator(t testing.TB, args ...string) *Namespace {
	t.Helper()
	s, err := w.startOperatorWithLocation(t.Context(), w.CreateNamespace(t, "site-"), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of the operator of %s (it ended with %v, if it did):\n%s", s.Name, s.Operator.Err(), s.Operator.LastLogLines())
		}
		for _, op := range s.started {
			if err := op.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	w.WaitForPlugins(t, w.configuredPlugins()...)
	return s
}

// startOperatorWithLocation starts an operator and gives it a location.
func (w *Env) startOperatorWithLocation(ctx context.Context, namespace string, args []string) (*Namespace, error) {
	s := &Namespace{Name: namespace, Dir: filepath.Join(w.Dir, namespace), args: args, env: w}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := s.startOperator(ctx); err != nil {
		return nil, err
	}
	location := s.NewLocation(DefaultLocation)
	if w.opts.NewDefaultLocation != nil {
		location = w.opts.NewDefaultLocation(namespace)
	}
	location.Spec.Default = true
	if err := w.Client.Create(ctx, location); err != nil {
		return nil, errors.Join(err, s.Operator.Stop())
	}
	return s, nil
}

func (s *Namespace) startOperator(ctx context.Context) error {
	var err error
	s.Operator, err = s.startOperatorInDir(ctx, s.Dir)
	return err
}

// startOperatorInDir starts an operator with a given directory and additional flags.
func (s *Namespace) startOperatorInDir(ctx context.Context, dir string, more ...string) (*operator.Operator, error) {
	op, err := operator.Start(ctx, operator.Options{
		Programs: s.env.Programs, Kubeconfig: s.env.ControlPlane.KubeconfigPath(), Dir: dir,
		Args: slices.Concat([]string{"--namespace=" + s.Name}, s.args, more),
	})
	if err == nil {
		s.started = append(s.started, op)
	}
	return op, err
}

// StartStandby starts another operator with the same store and its own directory, until the
// test ends.
func (s *Namespace) StartStandby(t testing.TB) *operator.Operator {
	t.Helper()
	dir := s.Dir + "-standby"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	op, err := s.startOperatorInDir(t.Context(), dir, "--store-root="+s.StoreRoot())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := op.Stop(); err != nil {
			t.Error(err)
		}
	})
	return op
}

// RestartOperator starts the operator again after it was killed.
func (s *Namespace) RestartOperator(t testing.TB) {
	t.Helper()
	suite.Eventually(t, func() string {
		select {
		case <-s.Operator.Done():
			return ""
		default:
			return "the operator was not killed"
		}
	})
	if err := s.startOperator(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// NewLocation returns a location in the directory of its name. It creates neither.
func (s *Namespace) NewLocation(name string) *v1alpha1.BackupStorageLocation {
	return &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: name},
		Spec:       v1alpha1.BackupStorageLocationSpec{Filesystem: &v1alpha1.FilesystemLocation{Path: name}},
	}
}

// StoreRoot is the root directory of filesystem locations.
func (s *Namespace) StoreRoot() string { return filepath.Join(s.Dir, "store") }

// LocationDir is the directory with the files of a location of NewLocation.
func (s *Namespace) LocationDir(location string) string {
	return filepath.Join(s.StoreRoot(), location)
}

// NewBackup returns a Backup of the ConfigMaps of namespaces, without actions. It does not
// create the Backup.
func (s *Namespace) NewBackup(namespaces ...string) *v1alpha1.Backup {
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
	for _, namespace := range namespaces {
		b.Spec.IncludedNamespaces = append(b.Spec.IncludedNamespaces, v1alpha1.NamePattern(namespace))
	}
	b.Spec.IncludedResources = []v1alpha1.NamePattern{"configmaps"}
	return b
}

// CreateNamespace creates a namespace with a name prefix.
func (w *Env) CreateNamespace(t testing.TB, prefix string) string {
	t.Helper()
	return Create(t, w.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}).Name
}
