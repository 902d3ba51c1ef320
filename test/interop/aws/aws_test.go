// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// provider is the name that the plugin registers.
const provider = "velero.io/aws"

// veleroPlugin is a program that nothing can import.
const veleroPlugin = "github.com/vmware-tanzu/velero-plugin-for-aws/velero-plugin-for-aws"

// load builds the plugin, which takes a minute the first time, and loads it.
func load(t *testing.T) *catalog.Catalog {
	t.Helper()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "velero-plugin-for-aws")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, veleroPlugin)
	build.Dir = filepath.Join(root, "test", "interop", "velero")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the plugin: %v\n%s", err, out)
	}
	c := catalog.New(catalog.Options{})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		c.Close(ctx)
	})
	info, err := c.Load(t.Context(), catalog.Spec{Name: "aws", Process: catalog.ProcessSpec{Path: binary}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the plugin provides %v", info.Actions)
	return c
}

// site is a service and a plugin.
type site struct {
	t       *testing.T
	server  *s3server.Server
	catalog *catalog.Catalog
}

// store returns the store of a location in a bucket, with credentials of their own.
func (s site) store(id, bucket, secretKey string) *pluginclient.Store {
	s.t.Helper()
	credentials := filepath.Join(s.t.TempDir(), "cloud")
	content := "[default]\naws_access_key_id=" + s.server.AccessKey + "\naws_secret_access_key=" + secretKey + "\n"
	if err := os.WriteFile(credentials, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
	resolve := s.catalog.ObjectStore(catalog.StoreSpec{Plugin: "aws", Name: provider, Location: id, Config: map[string]string{
		"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": s.server.URL,
		"bucket": bucket, "prefix": "", "credentialsFile": credentials,
	}})
	return pluginclient.NewStore(pluginclient.NewCaller(resolve, redact.New(secretKey)), pluginclient.StoreOptions{Action: provider, Bucket: bucket})
}

func TestAWS(t *testing.T) {
	s := site{t: t, server: s3server.Start(t, s3server.Options{}), catalog: load(t)}
	store := s.store("main", s.server.Bucket, s.server.SecretKey)
	t.Run("conformance", func(t *testing.T) {
		storetest.RunConformance(t, func() objectstore.Store {
			var keys []string
			for entry, err := range store.List(t.Context(), objectstore.ListOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, entry.Key)
			}
			if err := store.Delete(t.Context(), keys...); err != nil {
				t.Fatal(err)
			}
			return store
		})
	})
	t.Run("what Grapnel's own store finds there", func(t *testing.T) {
		if _, err := store.Put(t.Context(), "backups/a/velero-backup.json", strings.NewReader("{}"), objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		own, err := s3.New(s.server.S3Options())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = own.Close() }()
		if info, err := own.Stat(t.Context(), "backups/a/velero-backup.json"); err != nil || info.Size != 2 {
			t.Errorf("%+v, %v", info, err)
		}
	})
	for name, tc := range map[string]struct{ bucket, key, want string }{
		"wrong key":      {s.server.Bucket, "not-the-right-secret-key", "SignatureDoesNotMatch"},
		"missing bucket": {"no-such-bucket", s.server.SecretKey, "NoSuchBucket"},
	} {
		t.Run(name, func(t *testing.T) {
			store := s.store(name, tc.bucket, tc.key)
			_, putErr := store.Put(t.Context(), "key", strings.NewReader("x"), objectstore.PutOptions{})
			var listErr error
			for _, err := range store.List(t.Context(), objectstore.ListOptions{}) {
				listErr = err
			}
			for op, err := range map[string]error{"put": putErr, "list": listErr} {
				if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), tc.key) || errors.Is(err, objectstore.ErrNotExist) {
					t.Errorf("%s: error %v, want %s", op, err, tc.want)
				}
			}
		})
	}
}
