// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/redact"
)

// TestSecretValues has credentials files in the formats of the plugins for Velero.
func TestSecretValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		content      string
		hidden, seen []string
	}{
		"aws": {
			content: "[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key=wJalrXUtnFEMI/K7MDENG\nregion=eu-central-1\n",
			hidden:  []string{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG"}, seen: []string{"default", "eu-central-1"},
		},
		"azure": {
			content: "AZURE_TENANT_ID=11111111-2222-3333-4444-555555555555\nAZURE_CLIENT_SECRET='s3cr~t-of-azure'\nAZURE_CLOUD_NAME=AzurePublicCloud\n",
			hidden:  []string{"s3cr~t-of-azure", "11111111-2222-3333-4444-555555555555"},
		},
		"gcp": {
			content: `{"type": "account", "private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\n-----END", "nested": [{"api_key": "hunter-22"}], "token_uri_": 3, "auth_uri": "https://accounts.example.com/auth"}`,
			hidden:  []string{"MIIEvQIBADANBgkq", "hunter-22"}, seen: []string{"https://accounts.example.com/auth"},
		},
		"one token": {content: "abcdefghijklmnopqrstuvwxyz\n", hidden: []string{"abcdefghijklmnopqrstuvwxyz"}},
		"nothing":   {content: "", seen: []string{"x"}},
		"garbage":   {content: "=\n:\n\x00\xff=\x00\n" + strings.Repeat("a=b\n", 10000), seen: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redactor := redact.New()
			redactor.AddValues(secretValues(redactor, []byte(tc.content))...)
			for _, hidden := range tc.hidden {
				if text := redactor.String("it said <" + hidden + ">"); strings.Contains(text, hidden) {
					t.Errorf("the text is %q", text)
				}
			}
			for _, seen := range tc.seen {
				if text := redactor.String("it said <" + seen + ">"); text != "it said <"+seen+">" {
					t.Errorf("%q became %q", seen, text)
				}
			}
		})
	}
}
