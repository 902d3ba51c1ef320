// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
)

func TestParseCredentials(t *testing.T) {
	t.Parallel()
	const file = `# written by hand
[default]
aws_access_key_id = AKDEFAULT
aws_secret_access_key=sec/ret+1=

[profile other]
AWS_ACCESS_KEY_ID = AKOTHER
aws_secret_access_key = s2
aws_session_token = t2
region = eu-central-1
[empty]
`
	for name, tc := range map[string]struct {
		file    string
		profile string
		want    s3.Credentials
		wantErr string
	}{
		"default":         {file, "", s3.Credentials{AccessKeyID: "AKDEFAULT", SecretAccessKey: "sec/ret+1="}, ""},
		"with a token":    {file, "other", s3.Credentials{AccessKeyID: "AKOTHER", SecretAccessKey: "s2", SessionToken: "t2"}, ""},
		"no profile":      {file, "missing", s3.Credentials{}, `"missing"`},
		"nothing in it":   {file, "empty", s3.Credentials{}, "lacks"},
		"empty file":      {"", "", s3.Credentials{}, `"default"`},
		"only the secret": {"[default]\nTOP-SECRET\n", "", s3.Credentials{}, "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := s3.ParseCredentials([]byte(tc.file), tc.profile)
			if got != tc.want {
				t.Errorf("the credentials differ from those in the file")
			}
			switch {
			case tc.wantErr == "" && err != nil:
				t.Error(err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("error %v, want one about %s", err, tc.wantErr)
			case err != nil && strings.Contains(err.Error(), "TOP-SECRET"):
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestCredentials_String(t *testing.T) {
	t.Parallel()
	opts := s3.Options{Credentials: s3.Credentials{AccessKeyID: "AKIDX", SecretAccessKey: "hush", SessionToken: "tok"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, value := range []any{opts, &opts, opts.Credentials, &opts.Credentials} {
			got := fmt.Sprintf(format, value)
			if strings.Contains(got, "hush") || strings.Contains(got, "AKIDX") || strings.Contains(got, "tok") {
				t.Errorf("%s prints %s", format, got)
			}
		}
	}
}

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
