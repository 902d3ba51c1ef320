// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// What runs archive: a few objects of several kinds, see testdata/objects.yaml, or
// so much that it is stored in parts.
const (
	smallData = "crash-data"
	largeData = "crash-large"
	// movedData has operations, see testdata/moved.yaml.
	movedData = "crash-moved"
)

// site is what all lanes share: an API server with data, and a bucket.
type site struct {
	plane     *controlplane.ControlPlane
	transport http.RoundTripper
	client    client.WithWatch
	discovery discovery.DiscoveryInterface
	bucket    *s3server.Server
	objects   *s3.Store
	programs  operator.Programs
	// stack is the CSI driver, and csiPlugin the path of its plugin; see newVolumeSite.
	stack     *csi.Stack
	csiPlugin string
}

// newSite starts everything but operators, until the test ends.
func newSite(t *testing.T) *site {
	t.Helper()
	s := startSite(t, controlplane.Options{CRDPaths: []string{"testdata/crd.yaml"}})
	s.createData(t)
	return s
}

// startSite starts a site without data.
func startSite(t *testing.T, options controlplane.Options) *site {
	t.Helper()
	s := &site{}
	var err error
	if s.programs, err = operator.BuildPrograms(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.programs.ExamplePlugin = "" // not needed here
	s.keepPrograms(t)
	options.CRDPaths = append(options.CRDPaths, "../../config/crd/bases")
	if s.plane, err = controlplane.Start(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	if s.transport, err = rest.TransportFor(s.plane.Config()); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	if s.client, err = client.NewWithWatch(s.plane.Config(), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if s.discovery, err = discovery.NewDiscoveryClientForConfig(s.plane.Config()); err != nil {
		t.Fatal(err)
	}
	s.bucket = s3server.Start(t, s3server.Options{})
	if s.objects, err = s3.New(s.bucket.S3Options()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.objects.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// keepPrograms keeps the programs as they are: another build of them meanwhile would
// make the runs differ.
func (s *site) keepPrograms(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []*string{&s.programs.Operator, &s.programs.FaultPlugin} {
		content, err := os.ReadFile(*path)
		if err != nil {
			t.Fatal(err)
		}
		*path = filepath.Join(dir, filepath.Base(*path))
		if err := os.WriteFile(*path, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// createData creates what is archived.
func (s *site) createData(t *testing.T) {
	t.Helper()
	for _, object := range append(read(t, "testdata/objects.yaml", ""), read(t, "testdata/moved.yaml", movedData)...) {
		s.create(t, object)
	}
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: largeData}})
	random := rand.NewChaCha8([32]byte{}) // so that it cannot be compressed
	for i := range 12 {
		noise := make([]byte, 1<<20-1<<10)
		_, _ = random.Read(noise) // never fails
		s.create(t, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: largeData, Name: fmt.Sprintf("noise-%d", i)},
			Data:       map[string][]byte{"noise": noise},
		})
	}
}

func (s *site) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := s.client.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
	}
}
