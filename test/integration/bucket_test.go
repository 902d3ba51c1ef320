// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// bucket is a location in a bucket whose service a test can disturb.
type bucket struct {
	// location is its name.
	location string
	// refuse says which requests are denied; none if it is nil.
	refuse atomic.Pointer[func(*http.Request) bool]
	// hold says that the upload of an archive is not answered until release.
	hold     atomic.Bool
	held     chan struct{}
	sawHeld  func()
	released chan struct{}
	release  func()
}

// newBucket creates the location until the test ends.
func newBucket(t testing.TB, s site) *bucket {
	t.Helper()
	server := s3server.Start(t, s3server.Options{})
	target, err := url.Parse(server.URL)
	Expect(err).NotTo(HaveOccurred())
	b := &bucket{held: make(chan struct{}), released: make(chan struct{})}
	b.sawHeld = sync.OnceFunc(func() { close(b.held) })
	b.release = sync.OnceFunc(func() { close(b.released) })
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // The signature covers it.
		},
		// A client that went away gets no answer.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	front := httptest.NewServer(b.disturb(proxy))
	t.Cleanup(front.Close)
	t.Cleanup(b.release)
	secret := env.Create(t, world.Client, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "bucket-"},
		StringData: map[string]string{"accessKeyID": server.AccessKey, "secretAccessKey": server.SecretKey},
	})
	b.location = env.Create(t, world.Client, &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "bucket-"},
		Spec: v1alpha1.BackupStorageLocationSpec{S3: &v1alpha1.S3Location{
			Bucket: server.Bucket, Endpoint: front.URL, Region: "us-east-1", ForcePathStyle: true,
			CredentialsSecret: &v1alpha1.SecretReference{Name: secret.Name},
		}},
	}).Name
	return b
}

func (b *bucket) disturb(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse := b.refuse.Load(); refuse != nil && (*refuse)(r) {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code><Message>Not today</Message></Error>"))
			return
		}
		if b.hold.Load() && uploadsArchive(r) {
			b.sawHeld()
			select {
			case <-b.released:
			case <-r.Context().Done():
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func uploadsArchive(r *http.Request) bool {
	upload := r.Method == http.MethodPut || r.Method == http.MethodPost
	return upload && strings.HasSuffix(path.Base(r.URL.Path), ".tar.gz")
}

// awaitHeld waits until an upload is held.
func (b *bucket) awaitHeld(t testing.TB) {
	t.Helper()
	select {
	case <-b.held:
	case <-t.Context().Done():
		t.Fatal("no archive was uploaded")
	}
}
