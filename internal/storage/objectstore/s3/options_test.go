// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
)

func TestPutOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		opts    s3.Options
		wantErr string
	}{
		"Amazon":            {s3.Options{Bucket: "backups", Region: "eu-central-1"}, ""},
		"with a port":       {s3.Options{Bucket: "backups", Endpoint: "https://minio.example:9000/"}, ""},
		"without a scheme":  {s3.Options{Bucket: "backups", Endpoint: "minio.example:9000"}, ""},
		"no bucket":         {s3.Options{}, "bucket"},
		"bucket with slash": {s3.Options{Bucket: "a/b"}, "bucket"},
		"password in URL":   {s3.Options{Bucket: "backups", Endpoint: "https://user:hush@minio.example"}, "credentials"},
		"broken URL":        {s3.Options{Bucket: "backups", Endpoint: "https://user:hush@minio.example:port"}, "not a URL"},
		"path":              {s3.Options{Bucket: "backups", Endpoint: "https://minio.example/bucket"}, "path"},
		"other scheme":      {s3.Options{Bucket: "backups", Endpoint: "ftp://minio.example"}, "http"},
		"other checksum":    {s3.Options{Bucket: "backups", Checksum: "CRC64"}, "checksum"},
		"other encryption":  {s3.Options{Bucket: "backups", Encryption: s3.Encryption{Algorithm: "DES"}}, "encryption"},
		"key of no KMS":     {s3.Options{Bucket: "backups", Encryption: s3.Encryption{Algorithm: s3.EncryptionAES256, KMSKeyID: "k"}}, "KMS"},
		"broken CA":         {s3.Options{Bucket: "backups", CACert: []byte("x")}, "PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := s3.New(tc.opts)
			switch {
			case tc.wantErr == "" && err != nil:
				t.Error(err)
			case tc.wantErr == "":
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), tc.wantErr):
				t.Errorf("error %v, want one about %s", err, tc.wantErr)
			case strings.Contains(err.Error(), "hush"):
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}
