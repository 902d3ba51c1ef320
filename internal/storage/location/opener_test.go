// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// opener returns an Opener whose cluster has one Secret, "keys" in "backups".
func opener(root string, keys map[string]string) *location.Opener {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "backups", Name: "keys"}, Data: map[string][]byte{}}
	for key, value := range keys {
		secret.Data[key] = []byte(value)
	}
	return &location.Opener{
		Reader: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(secret).Build(),
		Root:   root, Redactor: redact.New(),
	}
}

func bsl(spec v1alpha1.BackupStorageLocationSpec) *v1alpha1.BackupStorageLocation {
	return &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: "backups", Name: "main"}, Spec: spec}
}

func directory(path, prefix string) *v1alpha1.BackupStorageLocation {
	return bsl(v1alpha1.BackupStorageLocationSpec{Filesystem: &v1alpha1.FilesystemLocation{Path: path}, Prefix: prefix})
}

func bucket(server *s3server.Server, edits ...func(*v1alpha1.S3Location)) *v1alpha1.BackupStorageLocation {
	spec := &v1alpha1.S3Location{
		Bucket: server.Bucket, Endpoint: server.URL, Region: "us-east-1", ForcePathStyle: true,
		CredentialsSecret: &v1alpha1.SecretReference{Name: "keys"},
	}
	for _, edit := range edits {
		edit(spec)
	}
	return bsl(v1alpha1.BackupStorageLocationSpec{S3: spec})
}

// store stores a small file of a backup in a location, and reads it again.
func store(ctx context.Context, o *location.Opener, at *v1alpha1.BackupStorageLocation, name string) error {
	s, err := o.Open(ctx, at)
	if err != nil {
		return err
	}
	err = s.Claim(ctx, name, storage.Claim{BackupUID: "u-1"})
	if err == nil {
		_, err = s.PutFile(ctx, name, "u-1", storage.Logs, strings.NewReader("content"))
	}
	return errors.Join(err, s.Close())
}

func TestOpen_Directory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	o := opener(root, nil)
	for _, tc := range []struct {
		path, prefix, want string
	}{
		{path: "", want: "backups/a/a-logs.gz"},
		{path: "new/one", want: "new/one/backups/b/b-logs.gz"},
		{path: "new/one", prefix: "cluster-1", want: "new/one/cluster-1/backups/c/c-logs.gz"},
	} {
		name := strings.TrimSuffix(filepath.Base(tc.want), "-logs.gz")
		if err := store(t.Context(), o, directory(tc.path, tc.prefix), name); err != nil {
			t.Errorf("%+v: %v", tc, err)
		}
		if content, err := os.ReadFile(filepath.Join(root, tc.want)); err != nil || string(content) != "content" {
			t.Errorf("%s: %q, %v", tc.want, content, err)
		}
	}
}

// TestOpen_DirectoryOutsideRoot uses paths outside of the root; the API rejects the first of
// these already.
func TestOpen_DirectoryOutsideRoot(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	root := filepath.Join(parent, "root")
	if err := os.MkdirAll(filepath.Join(parent, "outside"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../outside", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../outside", "a/../../outside", "/" + parent + "/outside", "link", "link/below", "a//b", "a\x00b"} {
		if err := store(t.Context(), opener(root, nil), directory(path, ""), "a"); err == nil {
			t.Errorf("the path %q was accepted", path)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(parent, "outside")); err != nil || len(entries) > 0 {
		t.Errorf("files outside of the root: %v, %v", entries, err)
	}
}

func TestOpen_InvalidSpec(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	complete := map[string]string{"accessKeyID": server.AccessKey, "secretAccessKey": server.SecretKey}
	for name, tc := range map[string]struct {
		root string
		keys map[string]string
		at   *v1alpha1.BackupStorageLocation
		text string
	}{
		"nothing configured":    {root: t.TempDir(), at: bsl(v1alpha1.BackupStorageLocationSpec{}), text: "the location has no provider; set spec.filesystem, spec.s3 or spec.plugin"},
		"filesystem is refused": {at: directory("main", ""), text: "filesystem locations need the flag --store-root on the operator"},
		"no secretAccessKey":    {keys: map[string]string{"accessKeyID": "a"}, at: bucket(server), text: "Secret keys needs the keys accessKeyID and secretAccessKey"},
		"no accessKeyID":        {keys: map[string]string{"secretAccessKey": "s", "aws_access_key_id": "a"}, at: bucket(server), text: "Secret keys needs the keys"},
		"empty keys":            {keys: map[string]string{"accessKeyID": "", "secretAccessKey": ""}, at: bucket(server), text: "Secret keys needs the keys"},
		"both forms":            {keys: map[string]string{"accessKeyID": "a", "secretAccessKey": "HUSH", "cloud": "HUSH"}, at: bucket(server), text: "has the credentials in two forms"},
		"no such profile":       {keys: map[string]string{"cloud": veleroFile(server)}, at: bucket(server, withProfile("paris")), text: `Secret keys has a wrong value in the key cloud: the credentials file has no profile "paris"`},
		"no credentials file":   {keys: map[string]string{"cloud": "HUSH"}, at: bucket(server), text: "line 1 of the credentials file is neither"},
		"a profile of no file":  {keys: complete, at: bucket(server, withProfile("berlin")), text: "Secret keys needs the key cloud"},
		"unknown keys":          {keys: map[string]string{"credentials": veleroFile(server), "Cloud": "HUSH"}, at: bucket(server), text: "or the key cloud"},
		"a bucket with a slash": {keys: complete, at: bucket(server, func(s *v1alpha1.S3Location) { s.Bucket = "a/b/c" }), text: "a/b/c"},
		"an invalid endpoint":   {keys: complete, at: bucket(server, func(s *v1alpha1.S3Location) { s.Endpoint = "://" }), text: "endpoint"},
		"an invalid certificate": {keys: complete, at: bucket(server, func(s *v1alpha1.S3Location) {
			s.Endpoint, s.CACert = "https://127.0.0.1:1", []byte("rubbish")
		}), text: "caCert"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := opener(tc.root, tc.keys).Open(t.Context(), tc.at)
			if s != nil || !errors.Is(err, location.ErrInvalidSpec) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Open: %v, want ErrInvalidSpec with %q", err, tc.text)
			}
			if err != nil && (strings.Contains(err.Error(), "HUSH") || strings.Contains(err.Error(), server.SecretKey)) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

// TestOpen_TransientErrors covers errors that may disappear without a change of the location.
func TestOpen_TransientErrors(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	missing := bucket(server, func(s *v1alpha1.S3Location) { s.CredentialsSecret.Name = "missing" })
	elsewhere := bucket(server)
	elsewhere.Namespace = "another"
	for name, at := range map[string]*v1alpha1.BackupStorageLocation{"a missing Secret": missing, "a Secret in another namespace": elsewhere} {
		_, err := opener("", map[string]string{"accessKeyID": "a", "secretAccessKey": "s"}).Open(t.Context(), at)
		if !apierrors.IsNotFound(err) || errors.Is(err, location.ErrInvalidSpec) || !strings.Contains(err.Error(), at.Spec.S3.CredentialsSecret.Name) {
			t.Errorf("%s: %v, want NotFound", name, err)
		}
	}
	_, err := opener(filepath.Join(t.TempDir(), "not-mounted"), nil).Open(t.Context(), directory("main", ""))
	if !errors.Is(err, objectstore.ErrNoStore) || errors.Is(err, location.ErrInvalidSpec) {
		t.Errorf("a missing root: %v, want ErrNoStore", err)
	}
}

func TestOpen_Bucket(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	o := opener("", map[string]string{"accessKeyID": server.AccessKey, "secretAccessKey": server.SecretKey})
	at := bucket(server)
	at.Spec.Prefix = "cluster-1"
	if err := store(t.Context(), o, at, "a"); err != nil {
		t.Fatal(err)
	}
	s, err := o.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	r, err := s.GetFile(t.Context(), "a", storage.Logs)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if content, err := io.ReadAll(r); err != nil || string(content) != "content" {
		t.Errorf("read %q, %v", content, err)
	}
}

// veleroFile is the content of a Secret of Velero, whose default profile is wrong.
func veleroFile(server *s3server.Server) string {
	return "[default]\naws_access_key_id=wrong\naws_secret_access_key=wrong-HUSH\n" +
		"[berlin]\naws_access_key_id = " + server.AccessKey + "\naws_secret_access_key = " + server.SecretKey + "\naws_session_token = token-of-berlin\n"
}

func withProfile(profile string) func(*v1alpha1.S3Location) {
	return func(s *v1alpha1.S3Location) { s.Profile = profile }
}

// TestOpen_VeleroSecret stores with the profile of a Secret of Velero, and not with another one.
func TestOpen_VeleroSecret(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	o := opener("", map[string]string{"cloud": veleroFile(server)})
	if err := store(t.Context(), o, bucket(server, withProfile("berlin")), "a"); err != nil {
		t.Errorf("storing with the profile: %v", err)
	}
	if err := store(t.Context(), o, bucket(server), "b"); !errors.Is(err, objectstore.ErrAccess) {
		t.Errorf("storing with the default profile: %v, want ErrAccess", err)
	}
	for _, secret := range []string{server.SecretKey, "token-of-berlin", "wrong-HUSH"} {
		if text := o.Redactor.String("the server said " + secret + " is wrong"); strings.Contains(text, secret) {
			t.Errorf("the redactor does not remove %q", text)
		}
	}
}

// TestOpen_BucketOptions stores in buckets that refuse a location without its options.
func TestOpen_BucketOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server s3server.Options
		edit   func(*v1alpha1.S3Location)
	}{
		"encryption": {s3server.Options{RequireEncryption: "AES256"}, func(s *v1alpha1.S3Location) {
			s.ServerSideEncryption = &v1alpha1.ServerSideEncryption{Algorithm: v1alpha1.EncryptionAlgorithmAES256}
		}},
		"encryption with a key": {s3server.Options{RequireEncryption: "aws:kms=alias/backups"}, func(s *v1alpha1.S3Location) {
			s.ServerSideEncryption = &v1alpha1.ServerSideEncryption{Algorithm: v1alpha1.EncryptionAlgorithmKMS, KMSKeyID: "alias/backups"}
		}},
		"stored checksums": {s3server.Options{RequireChecksum: "SHA256"}, func(s *v1alpha1.S3Location) { s.ChecksumAlgorithm = "SHA256" }},
		"no checksums":     {s3server.Options{RequireChecksum: "None"}, func(s *v1alpha1.S3Location) { s.ChecksumAlgorithm = "None" }},
		"any certificate":  {s3server.Options{TLS: true}, func(s *v1alpha1.S3Location) { s.InsecureSkipTLSVerify = true }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := s3server.Start(t, tc.server)
			o := opener("", map[string]string{"accessKeyID": server.AccessKey, "secretAccessKey": server.SecretKey})
			if err := store(t.Context(), o, bucket(server, tc.edit), "a"); err != nil {
				t.Errorf("storing with the option: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // a wrong certificate is retried
			defer cancel()
			if err := store(ctx, o, bucket(server), "b"); err == nil {
				t.Error("the bucket can be used without the option")
			}
		})
	}
}

// TestOpen_WrongCredentials: wrong credentials are detected when they are used, and never appear in a
// text.
func TestOpen_WrongCredentials(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	const key, token = "wrong-secret-access-key", "session-token-of-a-user"
	o := opener("", map[string]string{"accessKeyID": server.AccessKey, "secretAccessKey": key, "sessionToken": token})
	err := store(t.Context(), o, bucket(server), "a")
	if !errors.Is(err, objectstore.ErrAccess) {
		t.Errorf("storing with the wrong key: %v, want ErrAccess", err)
	}
	for _, secret := range []string{key, token} {
		if text := o.Redactor.String("the server said " + secret + " is wrong"); strings.Contains(text, secret) {
			t.Errorf("the redactor does not remove %q", text)
		}
	}
}

// TestOpen_WithoutSecret opens a bucket without a Secret and reads none.
func TestOpen_WithoutSecret(t *testing.T) {
	server := s3server.Start(t, s3server.Options{})
	t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	o := opener("", nil)
	o.Reader = nil
	if err := store(t.Context(), o, bucket(server, func(s *v1alpha1.S3Location) { s.CredentialsSecret = nil }), "a"); err != nil {
		t.Errorf("storing with the operator's own identity: %v", err)
	}
}
