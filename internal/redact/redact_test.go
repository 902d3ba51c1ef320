// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/redact"
)

func TestString(t *testing.T) {
	t.Parallel()
	const m = redact.Placeholder
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
	for name, tc := range map[string]struct{ in, want string }{
		"plain text stays":              {in: "archived 12 items of namespace shop", want: "archived 12 items of namespace shop"},
		"a secret named as an object":   {in: `getting Secret "shop/db-creds": not found`, want: `getting Secret "shop/db-creds": not found`},
		"the kind in prose":             {in: "Listing secrets: forbidden", want: "Listing secrets: forbidden"},
		"equals":                        {in: "login password=hunter2 user=bob", want: "login password=" + m + " user=bob"},
		"colon":                         {in: "db_password: hunter2", want: "db_password: " + m},
		"quoted with spaces":            {in: `password="correct horse" next`, want: `password=` + m + ` next`},
		"json":                          {in: `{"token":"abc","n":1}`, want: `{"token":` + m + `,"n":1}`},
		"json in json":                  {in: `{"m":"{\"password\":\"abc\"}"}`, want: `{"m":"{\"password\":` + m + `}"}`},
		"json secret":                   {in: `{"secret": "abc"}`, want: `{"secret": ` + m + `}`},
		"client secret":                 {in: "client_secret: abc", want: "client_secret: " + m},
		"aws secret":                    {in: "aws_secret_access_key = wJalrXUtnFEMI/K7", want: "aws_secret_access_key = " + m},
		"api key":                       {in: "apikey=k1 api_key=k2 API-KEY: k3", want: "apikey=" + m + " api_key=" + m + " API-KEY: " + m},
		"bearer":                        {in: "sending Bearer abcdef0123456789==", want: "sending Bearer " + m},
		"authorization header":          {in: "Authorization: Basic dXNlcjpwYXNz", want: "Authorization: " + m},
		"authorization in json":         {in: `{"authorization":"Bearer abcdefgh","a":1}`, want: `{"authorization":"` + m + `","a":1}`},
		"jwt":                           {in: "got " + jwt + " from server", want: "got " + m + " from server"},
		"aws key id":                    {in: "using AKIAIOSFODNN7EXAMPLE", want: "using " + m},
		"url with credentials":          {in: "GET https://bob:pa:ss@example.com/x", want: "GET https://" + m + "@example.com/x"},
		"url without credentials stays": {in: "GET https://example.com/a@b", want: "GET https://example.com/a@b"},
		"presigned url":                 {in: "https://s3/x?X-Amz-Signature=aaa&X-Amz-Date=1", want: "https://s3/x?X-Amz-Signature=" + m + "&X-Amz-Date=1"},
		"flag":                          {in: "mysqldump --password hunter2 -h db", want: "mysqldump --password " + m + " -h db"},
		"private key":                   {in: "k -----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY----- z", want: "k " + m + " z"},
		"private key cut off":           {in: "k -----BEGIN PRIVATE KEY-----\nAAAA", want: "k " + m},
		"private key escaped":           {in: `k -----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----`, want: "k " + m},
		"public certificate stays":      {in: "-----BEGIN CERTIFICATE-----\nAAAA", want: "-----BEGIN CERTIFICATE-----\nAAAA"},
		"forge token":                   {in: "clone with ghp_0123456789abcdefghij01", want: "clone with " + m},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := redact.New().String(tc.in)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("String (-want +got):\n%s", diff)
			}
			if again := redact.New().String(got); again != got {
				t.Errorf("redacting twice changed the text to %q", again)
			}
		})
	}
}

func TestAddValues(t *testing.T) {
	t.Parallel()
	r := redact.New("first-value")
	r.AddValues("short", `qu"oted/val`, "first-value-longer")
	for name, tc := range map[string]struct{ in, want string }{
		"exact":            {in: "x first-value y", want: "x [REDACTED] y"},
		"longer one whole": {in: "x first-value-longer y", want: "x [REDACTED] y"},
		"too short stays":  {in: "a short word", want: "a short word"},
		"json form":        {in: `"qu\"oted/val"`, want: `"[REDACTED]"`},
		"base64 form":      {in: "Zmlyc3QtdmFsdWU=", want: "[REDACTED]"},
		"url form":         {in: "?q=qu%22oted%2Fval", want: "?q=[REDACTED]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, r.String(tc.in)); diff != "" {
				t.Errorf("String (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAddRecentValues uses tokens that rotate for years, and one that is used all the time.
func TestAddRecentValues(t *testing.T) {
	t.Parallel()
	r := redact.New("kept-for-ever")
	token := func(i int) string { return fmt.Sprintf("secret-token-%06d-of-the-store", i) }
	for i := range 1000 {
		r.AddRecentValues("used-all-the-time", token(i))
	}
	for text, hidden := range map[string]bool{
		"kept-for-ever": true, "used-all-the-time": true, token(999): true, token(600): true, token(0): false, token(400): false,
	} {
		if got := r.String(text); (got != text) != hidden {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
	if got := r.String("dXNlZC1hbGwtdGhlLXRpbWU="); got != redact.Placeholder {
		t.Errorf("in base64 it is shown as %q", got)
	}
}

// TestAddRecentValues_Large keeps the most recent values, regardless of their size.
func TestAddRecentValues_Large(t *testing.T) {
	t.Parallel()
	r := redact.New()
	large := func(i int) string { return fmt.Sprintf("%06d-", i) + strings.Repeat("x", 100_000) }
	for i := range 80 {
		r.AddRecentValues(large(i))
	}
	for i, hidden := range map[int]bool{79: true, 20: true, 3: false} {
		if got := r.String(large(i)); (got == redact.Placeholder) != hidden {
			t.Errorf("value %d is shown: %t", i, got != redact.Placeholder)
		}
	}
}

// TestString_MultilineValue logs a value of several lines, one line at a time.
func TestString_MultilineValue(t *testing.T) {
	t.Parallel()
	r := redact.New("db:5432:shop:bob:hunter2\r\n  other:5432:*:eve:x1y2z3\nabc\npassword=\n" +
		"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\n")
	for name, tc := range map[string]struct{ in, want string }{
		"first":                 {in: "> db:5432:shop:bob:hunter2", want: "> [REDACTED]"},
		"indented":              {in: "other:5432:*:eve:x1y2z3;", want: "[REDACTED];"},
		"all of it":             {in: "db:5432:shop:bob:hunter2\nother:5432:*:eve:x1y2z3", want: "[REDACTED]\n[REDACTED]"},
		"part of a key":         {in: "MIIEvQIBADANBg", want: "[REDACTED]"},
		"too short stays":       {in: "abc", want: "abc"},
		"another pair of a key": {in: "password=swordfish", want: "password=[REDACTED]"},
		"another private key": {
			in: "k -----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY----- z", want: "k [REDACTED] z",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, r.String(tc.in)); diff != "" {
				t.Errorf("String (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStream_RedactLine(t *testing.T) {
	t.Parallel()
	stream := redact.New().NewStream()
	var shown []string
	for _, line := range []string{"before", "key: -----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBg", "c2VjcmV0", "-----END PRIVATE KEY-----", "after"} {
		if text, ok := stream.RedactLine(line); ok {
			shown = append(shown, text)
		}
	}
	if diff := cmp.Diff([]string{"before", "key: [REDACTED]", "after"}, shown); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-value"
	r := redact.New(secret)
	var out strings.Builder
	log := r.Logger(funcr.New(func(prefix, args string) { out.WriteString(prefix + args + "\n") }, funcr.Options{}))
	log.WithValues("with", secret).Info("Saying "+secret, "plain", secret, "password", "x", "list", []string{secret}, "n", 7)
	log.Error(errors.New("failed with "+secret), "Failing")

	var slogOut bytes.Buffer
	slog.New(slog.NewTextHandler(&slogOut, &slog.HandlerOptions{ReplaceAttr: r.ReplaceAttr})).
		Info("saying "+secret, "token", "x", "err", errors.New(secret), "n", 7)

	for name, text := range map[string]string{"logr": out.String(), "slog": slogOut.String()} {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows the secret: %s", name, text)
		}
		if !strings.Contains(text, "7") || !strings.Contains(text, "aying") {
			t.Errorf("%s lost text that is not a secret: %s", name, text)
		}
	}
}

func TestRedactor_Nil(t *testing.T) {
	t.Parallel()
	var r *redact.Redactor
	r.AddValues("something")
	if got := r.String("password=x"); got != "password=x" {
		t.Errorf("nil Redactor changed the text to %q", got)
	}
	redact.New().Logger(logr.Discard()).Info("Testing")
}

func BenchmarkString(b *testing.B) {
	r := redact.New("some-secret-value")
	for name, text := range map[string]string{
		"harmless": "Archiving item 17 of 4211, resource deployments.apps, namespace shop, name checkout-frontend",
		"pair":     "Connecting to db.shop.svc:5432 with user=bob password=hunter2 and sslmode=require",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.String(text)
			}
		})
	}
}
