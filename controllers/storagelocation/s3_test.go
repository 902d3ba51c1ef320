// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storagelocation_test

import (
	"context"
	"errors"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/storagelocation"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// bucket creates a location in the server's bucket, with credentials of a Secret.
func bucket(env *suite.Env, server *s3server.Server, secret string, edits ...func(*v1alpha1.S3Location)) *v1alpha1.BackupStorageLocation {
	spec := &v1alpha1.S3Location{
		Bucket: server.Bucket, Endpoint: server.URL, Region: "us-east-1", ForcePathStyle: true,
		CredentialsSecret: &v1alpha1.SecretReference{Name: secret},
	}
	for _, edit := range edits {
		edit(spec)
	}
	return suite.Create(env, &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "bucket-"}, Spec: v1alpha1.BackupStorageLocationSpec{S3: spec},
	})
}

// credentials creates a Secret.
func credentials(env *suite.Env, name string, data map[string]string) *corev1.Secret {
	return suite.Create(env, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data})
}

var _ = Describe("A location in a bucket", Label("import"), func() {
	It("reports wrong credentials until they are right", func() {
		t := GinkgoTB()
		env, server := cluster.NewEnv(t), s3server.Start(t, s3server.Options{})
		operator(t, env, "", often)
		bsl := bucket(env, server, "keys")
		await(env, bsl, unavailable(`reading the Secret keys of the location: secrets "keys" not found`))
		const wrong = "not-the-right-key"
		secret := credentials(env, "keys", map[string]string{"accessKeyID": server.AccessKey})
		await(env, bsl, invalid("Secret keys needs the keys accessKeyID and secretAccessKey"))
		suite.UpdateWithRetry(env, secret, func(secret *corev1.Secret) { secret.StringData = map[string]string{"secretAccessKey": wrong} })
		await(env, bsl, unavailable("checking the storage location: listing it"))
		suite.UpdateWithRetry(env, secret, func(secret *corev1.Secret) {
			secret.StringData = map[string]string{"secretAccessKey": server.SecretKey}
		})
		await(env, bsl, available)
		if bsl.Status.PutIfAbsent == nil || !*bsl.Status.PutIfAbsent {
			t.Errorf("putIfAbsent is %v", bsl.Status.PutIfAbsent)
		}
		for _, event := range env.ListEventsFor(bsl) {
			if strings.Contains(event, wrong) || strings.Contains(event, server.SecretKey) {
				t.Errorf("an event contains the key: %s", event)
			}
		}
	})

	It("reports why it cannot be used", func() {
		t := GinkgoTB()
		env, server := cluster.NewEnv(t), s3server.Start(t, s3server.Options{})
		operator(t, env, "", func(r *storagelocation.Reconciler) { r.Timeout = 5 * time.Second })
		credentials(env, "keys", map[string]string{"accessKeyID": server.AccessKey, "secretAccessKey": server.SecretKey})
		await(env, bucket(env, server, "keys", func(s *v1alpha1.S3Location) { s.Bucket = "no-such-bucket" }), unavailable("bucket"))
		await(env, bucket(env, server, "keys", func(s *v1alpha1.S3Location) { s.Endpoint = "http://127.0.0.1:1" }), unavailable("checking the storage location"))
		await(env, bucket(env, server, "keys", func(s *v1alpha1.S3Location) { s.Endpoint, s.CACert = "https://127.0.0.1:1", []byte("rubbish") }), invalid("caCert"))
	})

	It("reports that a server may overwrite objects", func() {
		t := GinkgoTB()
		env, server := cluster.NewEnv(t), s3server.Start(t, s3server.Options{IgnoreConditions: true})
		operator(t, env, "")
		credentials(env, "keys", map[string]string{"accessKeyID": server.AccessKey, "secretAccessKey": server.SecretKey})
		bsl := bucket(env, server, "keys")
		await(env, bsl, available)
		if bsl.Status.PutIfAbsent == nil || *bsl.Status.PutIfAbsent {
			t.Errorf("putIfAbsent is %v", bsl.Status.PutIfAbsent)
		}
	})

	It("survives hangs, panics and oversized messages", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		operator(t, env, "", func(r *storagelocation.Reconciler) {
			r.Timeout = 3 * time.Second
			r.Redactor.AddValues("secret-value-123")
			r.Opener = opener(func(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) error {
				switch bsl.Spec.Filesystem.Path {
				case "hangs":
					<-ctx.Done()
					return errors.Join(errors.New("it hangs"), ctx.Err())
				case "panics":
					panic("secret-value-123")
				case "tells":
					return errors.New("the server said secret-value-123 twice\nand more")
				}
				return errors.New(strings.Repeat("€", 2000))
			})
		})
		hangs := directory(env, "hangs")
		tells := directory(env, "tells")
		await(env, tells, unavailable("twice and more"))
		long := directory(env, "long")
		await(env, long, unavailable("€…"))
		panics := directory(env, "panics")
		await(env, panics, unavailable("internal error"))
		await(env, hangs, unavailable("it hangs"))
		if panics.Status.Message != "internal error; see the operator's log" {
			t.Errorf("the message after a panic is %q", panics.Status.Message)
		}
		for _, bsl := range []*v1alpha1.BackupStorageLocation{tells, panics} {
			if strings.Contains(bsl.Status.Message, "secret-value") {
				t.Errorf("the message contains a secret: %s", bsl.Status.Message)
			}
		}
		env.WaitForEvent(long, "Warning Unavailable: €€")
	})
})

// opener fails to open locations in ways that a provider cannot be made to.
type opener func(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) error

// Open implements storagelocation.Opener.
func (o opener) Open(ctx context.Context, bsl *v1alpha1.BackupStorageLocation) (*location.Store, error) {
	return nil, o(ctx, bsl)
}

// ReleaseDeletedLocation implements storagelocation.Opener.
func (o opener) ReleaseDeletedLocation(context.Context, types.NamespacedName) {}

// ReleaseReplacedLocation implements storagelocation.Opener.
func (o opener) ReleaseReplacedLocation(context.Context, types.UID) {}
