// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

func TestExecute_Answers(t *testing.T) {
	t.Parallel()
	const date = "Mon, 02 Nov 2026 10:00:00 GMT"
	for name, tc := range map[string]struct {
		status int
		header map[string]string
		body   string
		want   executor.Answer
	}{
		"done":    {status: 200, body: `{}`},
		"message": {status: 200, body: `{"message":"froze\n3 tables, password=hunter2"}`, want: executor.Answer{Message: "froze 3 tables, password=" + redact.Placeholder}},
		"outputs": {status: 200, body: `{"outputs":{"a.b":"c","d":""}}`, want: executor.Answer{Outputs: map[string]string{"a.b": "c", "d": ""}}},
		"largest output": {
			status: 200, body: `{"outputs":{"a":"` + strings.Repeat("x", 4096) + `"}}`,
			want: executor.Answer{Outputs: map[string]string{"a": strings.Repeat("x", 4096)}},
		},
		"with its kind": {status: 200, body: `{"apiVersion":"hooks.grapnel.dev/v1","kind":"HookResponse","log":null,"outputs":null}`},
		"again":         {status: 200, body: `{"retryAfterSeconds":5,"message":"copying"}`, want: executor.Answer{RetryAfter: 5 * time.Second, Message: "copying"}},
		"again drops outputs": {
			status: 200, body: `{"retryAfterSeconds":86400,"outputs":{"/":"not read"}}`, want: executor.Answer{RetryAfter: 24 * time.Hour},
		},
		"a header beside 200 has no meaning": {status: 200, header: map[string]string{"Retry-After": "9"}, body: `{}`},
		"accepted":                           {status: 202, header: map[string]string{"Retry-After": "7"}, want: executor.Answer{RetryAfter: 7 * time.Second}},
		"accepted, at once":                  {status: 202, header: map[string]string{"Retry-After": "0"}, want: executor.Answer{RetryAfter: executor.MinRetryAfter}},
		"accepted, until":                    {status: 202, header: map[string]string{"Retry-After": "Mon, 02 Nov 2026 10:01:30 GMT", "Date": date}, want: executor.Answer{RetryAfter: 90 * time.Second}},
		"accepted, until a time ago":         {status: 202, header: map[string]string{"Retry-After": "Sun, 01 Nov 2026 10:01:30 GMT", "Date": date}, want: executor.Answer{RetryAfter: executor.MinRetryAfter}},
		"accepted, in the body":              {status: 202, body: `{"retryAfterSeconds":3,"message":"queued"}`, want: executor.Answer{RetryAfter: 3 * time.Second, Message: "queued"}},
		"accepted, the header wins": {
			status: 202, header: map[string]string{"Retry-After": "4"}, body: `{"retryAfterSeconds":3}`, want: executor.Answer{RetryAfter: 4 * time.Second},
		},
		"busy": {
			status: 503, header: map[string]string{"Retry-After": "30", "Content-Type": "text/plain"}, body: "in maintenance",
			want: executor.Answer{RetryAfter: 30 * time.Second, Message: "answered 503 Service Unavailable: in maintenance"},
		},
		"too many": {
			status: 429, header: map[string]string{"Retry-After": "1"}, want: executor.Answer{RetryAfter: time.Second, Message: "answered 429 Too Many Requests"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := answering(t, tc.status, tc.header, tc.body).Execute(t.Context(), newCall())
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error is %v, answer (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestExecute_FailedAnswers(t *testing.T) {
	t.Parallel()
	retry := func(v string) map[string]string { return map[string]string{"Retry-After": v} }
	typed := func(v string) map[string]string { return map[string]string{"Content-Type": v} }
	for name, tc := range map[string]struct {
		status int
		header map[string]string
		body   string
		kind   executor.ErrorKind
		want   string
	}{
		"explicit":      {400, nil, `{"message":"no such\n database, token=abc"}`, executor.Failed, "answered 400 Bad Request: no such database, token=" + redact.Placeholder},
		"problem":       {409, typed("application/problem+json"), `{"title":"x","status":409,"detail":"is being dropped"}`, executor.Failed, "answered 409 Conflict: is being dropped"},
		"plain text":    {422, typed("text/plain; charset=utf-8"), "wrong schema\n", executor.Failed, "answered 422 Unprocessable Entity: wrong schema"},
		"a page":        {404, typed("text/html"), "<html>nginx</html>", executor.Failed, "answered 404 Not Found, check url and path in the Plugin"},
		"not allowed":   {401, nil, `{"message":"who?"}`, executor.Failed, "answered 401 Unauthorized, check the credentials in the Plugin's Secret: who?"},
		"no such thing": {418, nil, "", executor.Failed, "answered 418 I'm a teapot"},
		"unknown":       {499, nil, "", executor.Failed, "answered 499"},
		"giant message": {400, nil, `{"message":"` + strings.Repeat("y", 100000) + `"}`, executor.Failed, "answered 400 Bad Request: yyyy"},
		"giant text":    {400, typed("text/plain"), strings.Repeat("y", 3<<20), executor.Failed, "answered 400 Bad Request: yyyy"},
		"redirect":      {302, map[string]string{"Location": "https://example.com/?token=secret"}, "", executor.Failed, "answered 302 Found, redirects are not followed: put the address"},
		"redirect, 308": {308, map[string]string{"Location": "/other"}, "", executor.Failed, "answered 308 Permanent Redirect, redirects are not followed"},
		"no content":    {204, nil, "", executor.Failed, "answered 204 No Content, which is not part of the contract"},
		"broken":        {500, nil, `{"message":"oops"}`, executor.Unreachable, "answered 500 Internal Server Error: oops"},
		"bad gateway":   {502, typed("text/html"), "<html>", executor.Unreachable, "answered 502 Bad Gateway, check the endpoint behind the proxy"},
		"not ready":     {503, nil, "", executor.Unreachable, "answered 503 Service Unavailable"},
		"a long time":   {503, retry("86401"), "", executor.Unreachable, "answered 503 Service Unavailable"},
		"some time":     {503, retry("soon"), "", executor.Unreachable, "answered 503 Service Unavailable"},
		"too many":      {429, nil, "", executor.Unreachable, "answered 429 Too Many Requests"},
		"500 and later": {500, retry("5"), "", executor.Unreachable, "answered 500 Internal Server Error"},

		"no body":           {200, nil, "", executor.Failed, "answered 200 without a body: answer a JSON object"},
		"no JSON":           {200, typed("text/html"), "<html>", executor.Failed, `answered with something that is not JSON but "text/html": check url`},
		"half a JSON":       {200, typed("application/json"), `{"message":"x`, executor.Failed, "answered with something that is not JSON: check url"},
		"more than a JSON":  {200, typed("application/json"), `{} {}`, executor.Failed, "answered with something that is not JSON: check url"},
		"not UTF-8":         {200, typed("application/json"), "{\"message\":\"\xff\"}", executor.Failed, "answered with something that is not JSON: check url"},
		"null":              {200, nil, "null", executor.Failed, "answered null instead of a JSON object"},
		"a list":            {200, nil, "[]", executor.Failed, `answered with a value of the wrong type at "/"`},
		"misspelt":          {200, nil, `{"retryAfterSecond":5}`, executor.Failed, `answered with the field "retryAfterSecond", which is not part of the contract`},
		"other case":        {200, nil, `{"Message":"x"}`, executor.Failed, `answered with the field "Message"`},
		"twice":             {200, nil, `{"message":"x","message":"y"}`, executor.Failed, "answered with a JSON object that has a field twice"},
		"wrong type":        {200, nil, `{"outputs":{"a":1}}`, executor.Failed, `answered with a value of the wrong type at "/outputs/a"`},
		"half a second":     {200, nil, `{"retryAfterSeconds":0.5}`, executor.Failed, `answered with a value of the wrong type at "/retryAfterSeconds"`},
		"negative":          {200, nil, `{"retryAfterSeconds":-1}`, executor.Failed, "requested a next call at a time that is not allowed: set a number of seconds up to 86400"},
		"for ever":          {200, nil, `{"retryAfterSeconds":9223372036854775807}`, executor.Failed, "requested a next call at a time that is not allowed"},
		"other contract":    {200, nil, `{"apiVersion":"hooks.grapnel.dev/v2"}`, executor.Failed, `answered with apiVersion "hooks.grapnel.dev/v2" and kind ""`},
		"compressed":        {200, map[string]string{"Content-Encoding": "gzip"}, "{}", executor.Failed, "answered with a Content-Encoding"},
		"odd output":        {200, nil, `{"outputs":{"a/b":""}}`, executor.Failed, `answered with outputs that are not allowed: the output's key "a/b"`},
		"large output":      {200, nil, `{"outputs":{"a":"` + strings.Repeat("x", 4097) + `"}}`, executor.Failed, `answered with outputs that are not allowed: the output "a" has 4097 bytes, at most 4096`},
		"giant body":        {200, nil, `{"message":"` + strings.Repeat("y", 1<<20) + `"}`, executor.Failed, "answered with more than 1048576 bytes"},
		"accepted for ever": {202, retry("86401"), "", executor.Failed, "requested a next call at a time that is not allowed"},
		"accepted until?":   {202, nil, "", executor.Failed, "answered 202 without a time for the next call"},
		"accepted until??":  {202, retry("soon"), "{}", executor.Failed, "answered 202 without a time for the next call"},
		"accepted nonsense": {202, retry("5"), "ok", executor.Failed, "answered with something that is not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := answering(t, tc.status, tc.header, tc.body).Execute(t.Context(), newCall())
			wantError(t, err, tc.kind, tc.want)
			if diff := cmp.Diff(executor.Answer{}, answer); diff != "" {
				t.Errorf("there is an answer beside the error: %s", diff)
			}
			if err != nil && (len(err.Error()) > executor.MaxMessageLength || strings.Contains(err.Error(), "token=secret")) {
				t.Errorf("error is %q", err)
			}
		})
	}
}

// TestExecute_Redirect counts the requests at the target of the redirect.
func TestExecute_Redirect(t *testing.T) {
	t.Parallel()
	var paths []string
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		readAll(r)
		paths = append(paths, r.URL.Path)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	opts := optionsFor(server)
	opts.Path = "/hook"
	_, err := newExecutor(t, opts).Execute(t.Context(), newCall())
	wantError(t, err, executor.Failed, "answered 307 Temporary Redirect, redirects are not followed")
	if diff := cmp.Diff([]string{"/hook"}, paths); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestExecute_Logs(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`"x",`, 1002) + `"y"`
	for name, tc := range map[string]struct {
		status int
		body   string
		want   []string
	}{
		"with success": {200, `{"log":["one\u001b[0m\ntwo","password=hunter2"]}`, []string{"one [0m two", "password=" + redact.Placeholder}},
		"with again":   {200, `{"log":["still copying"],"retryAfterSeconds":1}`, []string{"still copying"}},
		"accepted":     {202, `{"log":["queued"],"retryAfterSeconds":1}`, []string{"queued"}},
		"with failure": {400, `{"log":["it was the disk"],"message":"no"}`, []string{"it was the disk"}},
		"a key over lines": {
			200, `{"log":["a","-----BEGIN PRIVATE KEY-----","MIIE","-----END PRIVATE KEY-----","b"]}`, []string{"a", redact.Placeholder, "b"},
		},
		"a long line": {200, `{"log":["` + strings.Repeat("z", 5000) + `"]}`, []string{strings.Repeat("z", 1021) + "…"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, log := recorded(t.Context())
			_, _ = answering(t, tc.status, nil, tc.body).Execute(ctx, newCall())
			var want []string
			for _, line := range tc.want {
				want = append(want, fmt.Sprintf(`"level"=0 "msg"=%q`, line))
			}
			if diff := cmp.Diff(want, log.all); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("too many", func(t *testing.T) {
		t.Parallel()
		ctx, log := recorded(t.Context())
		if _, err := answering(t, 200, nil, `{"log":[`+many+`]}`).Execute(ctx, newCall()); err != nil {
			t.Fatal(err)
		}
		if len(log.all) != 1001 || !strings.Contains(log.all[1000], `are dropped" "lines"=3`) {
			t.Errorf("%d lines, the last one is %s", len(log.all), log.all[len(log.all)-1])
		}
	})
}
