// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

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

// DefaultLocation is the name of the location that a Site has, and of its folder.
const DefaultLocation = "files"

// Site is an operator, the namespace it works for and the folder it keeps.
type Site struct {
	Namespace string
	Dir       string
	Op        *operator.Operator

	args  []string
	world *World
}

// Shared returns the operator of the tests that need none of their own, for the
// operator's usual namespace. It is started by the first test that asks for it.
func (w *World) Shared(t *testing.T) *Site {
	t.Helper()
	w.sharedOnce.Do(func() {
		ctx := context.WithoutCancel(t.Context())
		if w.sharedErr = operator.Install(ctx, w.Client); w.sharedErr == nil {
			w.shared, w.sharedErr = w.open(ctx, operator.Namespace, w.opts.SharedArgs)
		}
	})
	if w.sharedErr != nil {
		t.Fatal(w.sharedErr)
	}
	w.AwaitPlugins(t, w.plugins()...)
	return w.shared
}

// New starts an operator with flags of its own, for a namespace of its own, until the
// test ends.
func (w *World) New(t *testing.T, args ...string) *Site {
	t.Helper()
	s, err := w.open(t.Context(), w.NewNamespace(t, "site-"), args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of the operator of %s (it ended with %v, if it did):\n%s", s.Namespace, s.Op.Err(), s.Op.LastLines())
		}
		if err := s.Op.Stop(); err != nil {
			t.Error(err)
		}
	})
	w.AwaitPlugins(t, w.plugins()...)
	return s
}

// open starts an operator and gives it a location.
func (w *World) open(ctx context.Context, namespace string, args []string) (*Site, error) {
	s := &Site{Namespace: namespace, Dir: filepath.Join(w.Dir, namespace), args: args, world: w}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	location := s.Location(DefaultLocation)
	if w.opts.Location != nil {
		location = w.opts.Location(namespace)
	}
	location.Spec.Default = true
	if err := w.Client.Create(ctx, location); err != nil {
		return nil, errors.Join(err, s.Op.Stop())
	}
	return s, nil
}

func (s *Site) start(ctx context.Context) error {
	var err error
	s.Op, err = s.operate(ctx, s.Dir)
	return err
}

// operate starts an operator that keeps a folder, with further flags.
func (s *Site) operate(ctx context.Context, dir string, more ...string) (*operator.Operator, error) {
	return operator.Start(ctx, operator.Options{
		Programs: s.world.Programs, Kubeconfig: s.world.Plane.Kubeconfig(), Dir: dir,
		Args: slices.Concat([]string{"--namespace=" + s.Namespace}, s.args, more),
	})
}

// StandBy starts another operator with the same store and a folder of its own, until
// the test ends.
func (s *Site) StandBy(t *testing.T) *operator.Operator {
	t.Helper()
	dir := s.Dir + "-standby"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	op, err := s.operate(t.Context(), dir, "--store-root="+s.StoreRoot())
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

// Restart starts the operator again once it was killed.
func (s *Site) Restart(t *testing.T) {
	t.Helper()
	suite.Eventually(t, func() string {
		select {
		case <-s.Op.Done():
			return ""
		default:
			return "the operator was not killed"
		}
	})
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Location returns a location in the folder of its name, which is not created.
func (s *Site) Location(name string) *v1alpha1.BackupStorageLocation {
	return &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec:       v1alpha1.BackupStorageLocationSpec{Filesystem: &v1alpha1.FilesystemLocation{Path: name}},
	}
}

// StoreRoot is the folder that filesystem locations are in.
func (s *Site) StoreRoot() string { return filepath.Join(s.Dir, "store") }

// Folder is where a location of Location keeps its files.
func (s *Site) Folder(location string) string { return filepath.Join(s.StoreRoot(), location) }

// BackupOf returns a Backup of the ConfigMaps of namespaces, which asks for no action
// and is not created.
func (s *Site) BackupOf(namespaces ...string) *v1alpha1.Backup {
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: "story-"}}
	for _, namespace := range namespaces {
		b.Spec.IncludedNamespaces = append(b.Spec.IncludedNamespaces, v1alpha1.NamePattern(namespace))
	}
	b.Spec.IncludedResources = []v1alpha1.NamePattern{"configmaps"}
	return b
}

// NewNamespace creates a namespace with a name that begins so.
func (w *World) NewNamespace(t *testing.T, prefix string) string {
	t.Helper()
	return Create(t, w.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}).Name
}
