// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// writeAnswer is one response of a scripted API server.
type writeAnswer struct {
	code       int // 0 is 200
	body       string
	retryAfter string
	// cut ends the connection before the response is complete.
	cut bool
}

// writeScript is an API server that gives its answers in order and records the
// requests.
type writeScript struct {
	mu      sync.Mutex
	answers []writeAnswer
	asked   []string
	slept   []time.Duration
}

func (s *writeScript) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.asked = append(s.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body)))
	a := writeAnswer{code: http.StatusTeapot, body: "no answer left"}
	if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	s.mu.Unlock()
	if a.retryAfter != "" {
		w.Header().Set("Retry-After", a.retryAfter)
	}
	if a.cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(a.body)+1000))
	}
	if a.code != 0 {
		w.WriteHeader(a.code)
	}
	_, _ = w.Write([]byte(a.body))
}

// client returns a Client of the script that does not wait.
func (s *writeScript) client(t *testing.T) *Writer {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := NewWriter(&rest.Config{Host: server.URL}, WriteOptions{
		FieldManager: "me",
		Sleep: func(ctx context.Context, d time.Duration) error {
			s.slept = append(s.slept, d)
			return ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var (
	pod    = Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "ns", Name: "p"}
	role   = Target{Resource: schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, Name: "a:b"}
	stored = writeAnswer{body: `{"kind":"PartialObjectMetadata","metadata":{"uid":"u","resourceVersion":"7"}}`}
)

func status(code int, reason string) writeAnswer {
	return writeAnswer{code: code, body: fmt.Sprintf(`{"kind":"Status","reason":%q,"message":"%s by order"}`, reason, reason)}
}

func TestRequests(t *testing.T) {
	s := &writeScript{answers: []writeAnswer{stored, stored, stored, stored, stored, stored}}
	c := s.client(t)
	ctx := t.Context()
	for _, do := range []func() error{
		func() error { return c.Create(ctx, pod, []byte(`{"a":1}`)) },
		func() error { return c.Create(ctx, role, []byte(`{}`)) },
		func() error { return c.Patch(ctx, pod, "status", []byte(`{"b":2}`)) },
		func() error { return c.Patch(ctx, role, "", []byte(`{"b":3}`)) },
		func() error { return c.Replace(ctx, pod, []byte(`{"c":4}`)) },
		func() error { return c.Delete(ctx, pod, "u") },
	} {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
	want := []string{
		`POST /api/v1/namespaces/ns/pods?fieldManager=me application/json {"a":1}`,
		`POST ` + roles + `?fieldManager=me application/json {}`,
		`PATCH /api/v1/namespaces/ns/pods/p/status?fieldManager=me application/merge-patch+json {"b":2}`,
		`PATCH ` + roles + `/a:b?fieldManager=me application/merge-patch+json {"b":3}`,
		`PUT /api/v1/namespaces/ns/pods/p?fieldManager=me application/json {"c":4}`,
		`DELETE /api/v1/namespaces/ns/pods/p application/json ` +
			`{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Background"}`,
	}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestSendWithRetry(t *testing.T) {
	forever := func(a writeAnswer) []writeAnswer { return []writeAnswer{a, a, a, a, a, a, a, a, a, a} }
	for name, tc := range map[string]struct {
		answers []writeAnswer
		asked   int
		is      func(error) bool // nil: success
	}{
		"busy":                 {[]writeAnswer{status(429, "TooManyRequests"), stored}, 2, nil},
		"always busy":          {forever(status(429, "TooManyRequests")), MaxAttempts, apierrors.IsTooManyRequests},
		"unavailable":          {[]writeAnswer{{code: 503}, {code: 503}, stored}, 3, nil},
		"webhook down":         {forever(status(500, "InternalError")), maxInternalErrorAttempts, apierrors.IsInternalError},
		"truncated response":   {[]writeAnswer{{body: `{"kind":`, cut: true}, status(409, "AlreadyExists")}, 2, apierrors.IsAlreadyExists},
		"refused":              {[]writeAnswer{status(422, "Invalid")}, 1, apierrors.IsInvalid},
		"forbidden":            {[]writeAnswer{status(403, "Forbidden")}, 1, apierrors.IsForbidden},
		"response is not JSON": {[]writeAnswer{{body: "<html>"}}, 1, func(err error) bool { return err != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &writeScript{answers: tc.answers}
			err := s.client(t).Create(t.Context(), pod, []byte("{}"))
			if tc.is == nil && err != nil || tc.is != nil && !tc.is(err) {
				t.Errorf("Create: %v", err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), `creating pods "ns/p": `) {
				t.Errorf("the error does not name the request: %v", err)
			}
			if len(s.asked) != tc.asked {
				t.Errorf("%d requests, want %d", len(s.asked), tc.asked)
			}
		})
	}
}

func TestSendWithRetry_RetryAfter(t *testing.T) {
	s := &writeScript{answers: []writeAnswer{{code: 429, retryAfter: "4", body: status(429, "TooManyRequests").body}, stored}}
	if err := s.client(t).Create(t.Context(), pod, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]time.Duration{4 * time.Second}, s.slept); diff != "" {
		t.Errorf("waited (-want +got):\n%s", diff)
	}
}

// object is a pod in a phase.
func object(version int, phase string) string {
	return fmt.Sprintf(`{"metadata":{"name":"p","resourceVersion":"%d"},"status":{"phase":%q}}`, version, phase)
}

func event(kind string, version int, phase string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object(version, phase)) + "\n"
}

func TestWait(t *testing.T) {
	errBad := errors.New("bad")
	const get, watch = "GET /api/v1/namespaces/ns/pods/p", "GET /api/v1/namespaces/ns/pods?fieldSelector=metadata.name%%3Dp&resourceVersion=%d&watch=true"
	from := func(version int) string { return fmt.Sprintf(watch, version) }
	for name, tc := range map[string]struct {
		answers []writeAnswer
		asked   []string
		// fails is the error of Wait, by errors.Is.
		fails error
	}{
		"at once":   {[]writeAnswer{{body: object(1, "good")}}, []string{get}, nil},
		"missing":   {[]writeAnswer{status(404, "NotFound")}, []string{get}, nil},
		"a change":  {[]writeAnswer{{body: object(1, "")}, {body: event("MODIFIED", 2, "") + event("BOOKMARK", 3, "good") + event("MODIFIED", 4, "good")}}, []string{get, from(1)}, nil},
		"a removal": {[]writeAnswer{{body: object(1, "")}, {body: event("DELETED", 2, "")}}, []string{get, from(1)}, nil},
		"a watch that ends": {
			[]writeAnswer{{body: object(1, "")}, {body: event("MODIFIED", 2, "")}, {body: object(2, "")}, {body: event("MODIFIED", 3, "good")}},
			[]string{get, from(1), get, from(2)},
			nil,
		},
		"a version that is too old": {
			[]writeAnswer{{body: object(1, "")}, {body: `{"type":"ERROR","object":{"kind":"Status","code":410}}`}, {body: object(9, "good")}},
			[]string{get, from(1), get},
			nil,
		},
		"a kind without watch":  {[]writeAnswer{{body: object(1, "")}, status(405, "MethodNotAllowed"), {body: object(2, "good")}}, []string{get, from(1), get}, nil},
		"a busy server":         {[]writeAnswer{status(503, "ServiceUnavailable"), {body: object(2, "good")}}, []string{get, get}, nil},
		"never":                 {[]writeAnswer{{body: object(1, "bad")}}, []string{get}, errBad},
		"never, after a change": {[]writeAnswer{{body: object(1, "")}, {body: event("MODIFIED", 2, "bad")}}, []string{get, from(1)}, errBad},
	} {
		t.Run(name, func(t *testing.T) {
			s := &writeScript{answers: tc.answers}
			err := s.client(t).Wait(t.Context(), pod, func(object []byte) (bool, error) {
				if strings.Contains(string(object), "bad") {
					return false, errBad
				}
				return object == nil || strings.Contains(string(object), "good"), nil
			})
			if !errors.Is(err, tc.fails) || (tc.fails == nil) != (err == nil) {
				t.Errorf("Wait: %v, want %v", err, tc.fails)
			}
			if diff := cmp.Diff(tc.asked, s.asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWait_Errors(t *testing.T) {
	s := &writeScript{answers: []writeAnswer{status(403, "Forbidden")}}
	err := s.client(t).Wait(t.Context(), pod, func([]byte) (bool, error) { return false, nil })
	if !apierrors.IsForbidden(err) {
		t.Errorf("without permission to read, Wait returned %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s = &writeScript{answers: []writeAnswer{{body: object(1, "")}}}
	err = s.client(t).Wait(ctx, pod, func([]byte) (bool, error) {
		cancel()
		return false, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after cancellation, Wait returned %v", err)
	}
}
