// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storagelocation_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/storagelocation"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// refusing is an S3 server with an empty bucket that answers every write with an error.
func refusing(t testing.TB, status int, code string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = fmt.Fprint(w, `<ListBucketResult><Name>bucket</Name><IsTruncated>false</IsTruncated></ListBucketResult>`)
			return
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `<Error><Code>%s</Code><Message>no more</Message></Error>`, code)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

var _ = Describe("A location that is full or does not answer", Label("import"), func() {
	It("can still be read and deleted from", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		operator(t, env, "")
		credentials(env, "keys", map[string]string{"accessKeyID": "key", "secretAccessKey": "secret"})
		for code, status := range map[string]int{
			"XMinioStorageFull": http.StatusInsufficientStorage, "XMinioAdminBucketQuotaExceeded": http.StatusBadRequest,
			"QuotaExceeded": http.StatusForbidden, "InsufficientStorageSpace": http.StatusForbidden,
		} {
			bsl := suite.Create(env, &v1alpha1.BackupStorageLocation{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "full-"},
				Spec: v1alpha1.BackupStorageLocationSpec{S3: &v1alpha1.S3Location{
					Bucket: "bucket", Region: "us-east-1", Endpoint: refusing(t, status, code), ForcePathStyle: true,
					CredentialsSecret: &v1alpha1.SecretReference{Name: "keys"},
				}},
			})
			suite.WaitFor(env, bsl, func(bsl *v1alpha1.BackupStorageLocation) string {
				available, writable := conditions.Get(bsl, v1alpha1.ConditionAvailable), conditions.Get(bsl, v1alpha1.ConditionWritable)
				if available == nil || available.Status != metav1.ConditionTrue || writable == nil || writable.Status != metav1.ConditionFalse ||
					writable.Reason != v1alpha1.ReasonFull || bsl.Status.Phase != v1alpha1.LocationPhaseFull ||
					!strings.Contains(bsl.Status.Message, "delete backups") || !strings.Contains(bsl.Status.Message, code) {
					return fmt.Sprintf("%s: status is %+v", code, bsl.Status)
				}
				return ""
			})
			env.WaitForEvent(bsl, "Warning Full: The location is full")
		}
	})

	It("becomes Unavailable, and affects no other location", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		release := make(chan struct{})
		resume := sync.OnceFunc(func() { close(release) })
		defer resume()
		operator(t, env, t.TempDir(), func(r *storagelocation.Reconciler) {
			r.Timeout, r.Interval = 500*time.Millisecond, time.Second
			r.Opener = &deaf{Opener: r.Opener, path: "hung", release: release}
		})
		hung, good := directory(env, "hung"), directory(env, "good")
		await(env, good, available)
		await(env, hung, unavailable("does not answer"))
		env.WaitForEvent(hung, "Warning Unavailable: the location does not answer")
		await(env, good, available)
		resume()
		await(env, hung, available)
	})
})

// deaf is an Opener that hangs for one location, regardless of the context.
type deaf struct {
	storagelocation.Opener
	path    string
	release chan struct{}
}

func (d *deaf) Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*location.Store, error) {
	if bsl.Spec.Filesystem.Path == d.path {
		<-d.release
	}
	return d.Opener.Open(ctx, bsl)
}
