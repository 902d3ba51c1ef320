// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package awscredentials_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/awscredentials"
)

func TestParseFile(t *testing.T) {
	t.Parallel()
	const file = `# written by hand
[default]
aws_access_key_id = AKDEFAULT
aws_secret_access_key=sec/ret+1=#; ; the first one

[ profile other ] # a comment
  AWS_ACCESS_KEY_ID = AKOTHER
  ; aws_secret_access_key = HUSH
  aws_secret_access_key = s2
  aws_session_token = t2
  region = eu-central-1
s3 =
  max_queue_size = 10
[empty]
[role]
aws_access_key_id = AKROLE
aws_secret_access_key = HUSH
role_arn = arn:aws:iam::1:role/HUSH
[program]
credential_process = cat /HUSH
`
	for name, tc := range map[string]struct {
		file    string
		profile string
		want    awscredentials.Credentials
		wantErr string
	}{
		"default":              {file, "", awscredentials.Credentials{AccessKeyID: "AKDEFAULT", SecretAccessKey: "sec/ret+1=#;"}, ""},
		"with a token":         {file, "other", awscredentials.Credentials{AccessKeyID: "AKOTHER", SecretAccessKey: "s2", SessionToken: "t2"}, ""},
		"Windows":              {"\ufeff" + strings.ReplaceAll(file, "\n", "\r\n"), "", awscredentials.Credentials{AccessKeyID: "AKDEFAULT", SecretAccessKey: "sec/ret+1=#;"}, ""},
		"in two parts":         {"[x]\naws_access_key_id=a\n[y]\n[x]\naws_secret_access_key=s", "x", awscredentials.Credentials{AccessKeyID: "a", SecretAccessKey: "s"}, ""},
		"no profile":           {file, "missing", awscredentials.Credentials{}, `no profile "missing"`},
		"nothing in it":        {file, "empty", awscredentials.Credentials{}, "lacks"},
		"another identity":     {file, "role", awscredentials.Credentials{}, "role_arn, which is not supported"},
		"a program":            {file, "program", awscredentials.Credentials{}, "credential_process, which is not supported"},
		"empty file":           {"", "", awscredentials.Credentials{}, `"default"`},
		"only the secret":      {"[default]\nHUSH\n", "", awscredentials.Credentials{}, "line 2"},
		"an open section":      {"[default\naws_access_key_id=HUSH", "", awscredentials.Credentials{}, "line 1"},
		"no section":           {"aws_secret_access_key=HUSH", "", awscredentials.Credentials{}, "line 1 of the credentials file is before the first section"},
		"JSON":                 {`{"accessKeyID": "HUSH"}`, "", awscredentials.Credentials{}, "line 1"},
		"a huge file":          {"[default]\n#" + strings.Repeat("HUSH", 16<<10), "", awscredentials.Credentials{}, "more than 64 KiB"},
		"a control character":  {"[x]\naws_access_key_id=a\naws_secret_access_key=HUSH\x00", "x", awscredentials.Credentials{}, "cannot be printed"},
		"two words in one key": {"[x]\naws_access_key_id=HUSH HUSH\naws_secret_access_key=s", "x", awscredentials.Credentials{}, "white space"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := awscredentials.ParseFile([]byte(tc.file), tc.profile)
			switch {
			case tc.wantErr == "" && (err != nil || got != tc.want):
				t.Errorf("the credentials differ from those in the file, error %v", err)
			case tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)):
				t.Errorf("error %v, want one about %s", err, tc.wantErr)
			case err != nil && strings.Contains(err.Error(), "HUSH"):
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte("[default]\naws_access_key_id=a\naws_secret_access_key=b\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := awscredentials.ParseFile(file, "")
		if err == nil && (c.AccessKeyID == "" || c.SecretAccessKey == "" || strings.ContainsAny(c.AccessKeyID+c.SecretAccessKey+c.SessionToken, " \r\n\x00")) {
			t.Error("ParseFile returned credentials that cannot be used")
		}
	})
}

func TestCredentials_String(t *testing.T) {
	t.Parallel()
	type options struct{ Credentials awscredentials.Credentials }
	opts := options{awscredentials.Credentials{AccessKeyID: "AKIDX", SecretAccessKey: "hush", SessionToken: "tok"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, value := range []any{opts, &opts, opts.Credentials, &opts.Credentials} {
			got := fmt.Sprintf(format, value)
			if strings.Contains(got, "hush") || strings.Contains(got, "AKIDX") || strings.Contains(got, "tok") {
				t.Errorf("%s prints %s", format, got)
			}
		}
	}
}
