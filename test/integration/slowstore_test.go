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
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// slowStore is a location in a bucket whose service does not answer the upload of an
// archive until it is released.
type slowStore struct {
	// location is its name.
	location string
	held     chan struct{}
	released chan struct{}
	hold     func()
	release  func()
}

// newSlowStore creates the location until the test ends.
func newSlowStore(t *testing.T, s *site) *slowStore {
	t.Helper()
	server := s3server.Start(t, s3server.Options{})
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowStore{held: make(chan struct{}), released: make(chan struct{})}
	slow.hold = sync.OnceFunc(func() { close(slow.held) })
	slow.release = sync.OnceFunc(func() { close(slow.released) })
	// The signature covers the host that the client asked for.
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upload := r.Method == http.MethodPut || r.Method == http.MethodPost
		if upload && strings.HasSuffix(path.Base(r.URL.Path), ".tar.gz") {
			slow.hold()
			select {
			case <-slow.released:
			case <-r.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	t.Cleanup(slow.release)
	secret := create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "slow-"},
		StringData: map[string]string{"accessKeyID": server.AccessKey, "secretAccessKey": server.SecretKey},
	})
	slow.location = create(t, &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "slow-"},
		Spec: v1alpha1.BackupStorageLocationSpec{S3: &v1alpha1.S3Location{
			Bucket: server.Bucket, Endpoint: front.URL, Region: "us-east-1", ForcePathStyle: true,
			CredentialsSecret: &v1alpha1.SecretReference{Name: secret.Name},
		}},
	}).Name
	return slow
}

// awaitHeld waits until an upload is held.
func (s *slowStore) awaitHeld(t *testing.T) {
	t.Helper()
	select {
	case <-s.held:
	case <-t.Context().Done():
		t.Fatal("no archive was uploaded")
	}
}
