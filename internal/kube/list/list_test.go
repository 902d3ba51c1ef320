// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var (
	pods    = Kind{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod"}
	widgets = Kind{
		Resource: schema.GroupVersionResource{Group: "example.org", Version: "v1beta1", Resource: "widgets"},
		Kind:     "Widget",
	}
)

// answer is one response of a scripted API server.
type answer struct {
	code       int // 0 is 200
	body       string
	retryAfter string
	// cut ends the connection after the body, before the response is complete.
	cut bool
}

// script is an API server that gives its answers in turn and remembers what it
// was asked.
type script struct {
	mu      sync.Mutex
	answers []answer
	asked   []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	query, _ := url.QueryUnescape(r.URL.RawQuery)
	s.asked = append(s.asked, strings.TrimSuffix(r.URL.EscapedPath()+"?"+query, "?"))
	a := answer{code: http.StatusTeapot, body: "nothing left to say"}
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

// clientOf returns a Client of a server, and the delays it asked for instead
// of waiting.
func clientOf(t *testing.T, handler http.Handler, opts Options) (*Client, *[]time.Duration) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	var slept []time.Duration
	opts.Sleep = func(ctx context.Context, d time.Duration) error {
		slept = append(slept, d)
		return ctx.Err()
	}
	client, err := New(&rest.Config{Host: server.URL}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return client, &slept
}

// items is a Handler that keeps "key=json" of what it gets.
func items(got *[]string) Handler {
	return Handler{Batch: func(b *Batch) error {
		for _, item := range b.Items {
			*got = append(*got, item.Key+"="+string(item.JSON))
		}
		b.Release()
		return nil
	}}
}

func page(next string, items ...string) string {
	return fmt.Sprintf(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":%q},"items":[%s]}`+"\n",
		next, strings.Join(items, ","))
}

func podJSON(name string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"ns"},"spec":{}}`, name)
}

func wantPod(name string) string {
	return fmt.Sprintf(`ns/%s={"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"ns"},"spec":{}}`, name, name)
}

func TestListPassesObjectsOnAsTheyAre(t *testing.T) {
	huge := strings.Repeat("0123456789abcdef", 1_400_000/16)
	for name, tc := range map[string]struct {
		kind Kind
		body string
		want []string
	}{
		"core objects get their kind": {
			pods, page("", podJSON("a"), podJSON("b")), []string{wantPod("a"), wantPod("b")},
		},
		"custom resources have it": {
			widgets, page("", `{"apiVersion":"example.org/v1beta1","kind":"Widget","metadata":{"name":"w"}}`),
			[]string{`w={"apiVersion":"example.org/v1beta1","kind":"Widget","metadata":{"name":"w"}}`},
		},
		"fields before apiVersion": {
			widgets, page("", `{"aaa":{"kind":"x"},"apiVersion":"example.org/v1beta1","kind":"Widget","metadata":{"name":"w"}}`),
			[]string{`w={"aaa":{"kind":"x"},"apiVersion":"example.org/v1beta1","kind":"Widget","metadata":{"name":"w"}}`},
		},
		"kind behind the metadata": {
			widgets, page("", `{"metadata":{"name":"w"},"kind":"Widget","apiVersion":"example.org/v1beta1"}`,
				`{"metadata":{"name":"x"},"kind":"Widget","apiVersion":"example.org/v1beta1"}`),
			[]string{
				`w={"metadata":{"name":"w"},"kind":"Widget","apiVersion":"example.org/v1beta1"}`,
				`x={"metadata":{"name":"x"},"kind":"Widget","apiVersion":"example.org/v1beta1"}`,
			},
		},
		"white space is removed": {
			pods, "{ \"metadata\" : {},\n \"items\" : [ {\n \"metadata\": {\n \"name\" : \"a b\" , \"namespace\":\"ns\"}, \"x\": [ 1, 2 ]\n}\n ] }",
			[]string{`ns/a b={"apiVersion":"v1","kind":"Pod","metadata":{"name":"a b","namespace":"ns"},"x":[1,2]}`},
		},
		"escapes, brackets and quotes in strings": {
			pods, page("", `{"metadata":{"annotations":{"a\"}":"]}\\\\","b":"{\"name\":\"no\"}"},"name":"sn\u00f6\u003c","namespace":"ns"}}`),
			[]string{`ns/snö<={"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"a\"}":"]}\\\\","b":"{\"name\":\"no\"}"},"name":"sn\u00f6\u003c","namespace":"ns"}}`},
		},
		"names of RBAC": {
			pods, page("", `{"metadata":{"name":"system:a b\\\\c"}}`),
			[]string{`system:a b\\c={"apiVersion":"v1","kind":"Pod","metadata":{"name":"system:a b\\\\c"}}`},
		},
		"empty object fields": {
			pods, page("", `{"metadata":{"name":"a","labels":{},"deletionTimestamp":null,"managedFields":[{"f":{}}]}}`),
			[]string{`a={"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{},"deletionTimestamp":null,"managedFields":[{"f":{}}]}}`},
		},
		"no items":             {pods, page(""), nil},
		"items null":           {pods, `{"metadata":{},"items":null}`, nil},
		"items first":          {pods, `{"items":[` + podJSON("a") + `],"metadata":{"resourceVersion":"1"}}`, []string{wantPod("a")}},
		"an object of 1.4 MiB": {pods, page("", podJSON("a"), `{"metadata":{"name":"big"},"d":"`+huge+`"}`, podJSON("z")), []string{wantPod("a"), `big={"apiVersion":"v1","kind":"Pod","metadata":{"name":"big"},"d":"` + huge + `"}`, wantPod("z")}},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := clientOf(t, &script{answers: []answer{{body: tc.body}}}, Options{})
			var got []string
			summary, err := client.List(context.Background(), Request{Kind: tc.kind}, items(&got))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%.1000s", diff)
			}
			if summary.Items != len(tc.want) {
				t.Errorf("summary counts %d objects, want %d", summary.Items, len(tc.want))
			}
		})
	}
}

func TestListFindsWhatDecidesAboutAnObject(t *testing.T) {
	body := page("",
		`{"metadata":{"name":"a","namespace":"ns","labels":{"x":"1","y":"\"z"},"deletionTimestamp":"2026-01-01T00:00:00Z"}}`,
		`{"spec":{"labels":{"no":"no"},"deletionTimestamp":"no"},"metadata":{"labels":null,"name":"b"}}`)
	client, _ := clientOf(t, &script{answers: []answer{{body: body}}}, Options{})
	type seen struct {
		Namespace, Name string
		Labels          map[string]string
		Deleting        bool
	}
	var got []seen
	_, err := client.List(context.Background(), Request{Kind: pods}, Handler{Batch: func(b *Batch) error {
		for _, item := range b.Items {
			labels, err := item.Labels()
			if err != nil {
				return err
			}
			got = append(got, seen{item.Namespace, item.Name, labels, item.Deleting})
		}
		b.Release()
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []seen{{"ns", "a", map[string]string{"x": "1", "y": `"z`}, true}, {"", "b", nil, false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

const gone = `{"kind":"Status","status":"Failure","reason":"Expired","code":410,"metadata":{"continue":%q},"message":"too old"}`

func TestListRecovers(t *testing.T) {
	list := "/api/v1/pods?"
	first := answer{body: page("next", podJSON("a"), podJSON("b"))}
	last := answer{body: page("", podJSON("c"))}
	all := []string{wantPod("a"), wantPod("b"), wantPod("c")}
	cutOff := answer{body: strings.TrimSuffix(page("next", podJSON("a")), "]}\n") + ",", cut: true}
	for name, tc := range map[string]struct {
		req     Request
		answers []answer
		want    []string
		asked   []string
		slept   []time.Duration
		summary Summary
	}{
		"pages": {
			answers: []answer{first, last},
			want:    all,
			asked:   []string{list + "limit=2500", list + "continue=next&limit=2500"},
			summary: Summary{Pages: 2},
		},
		"continue token expired, with a new one": {
			answers: []answer{first, {code: 410, body: fmt.Sprintf(gone, "inconsistent")}, last},
			want:    all,
			asked:   []string{list + "limit=2500", list + "continue=next&limit=2500", list + "continue=inconsistent&limit=2500"},
			summary: Summary{Pages: 2, Expired: 1, Retries: 1},
		},
		"continue token expired, without a new one": {
			answers: []answer{first, {code: 410, body: fmt.Sprintf(gone, "")}, first, last},
			want:    []string{wantPod("a"), wantPod("b"), wantPod("a"), wantPod("b"), wantPod("c")},
			asked:   []string{list + "limit=2500", list + "continue=next&limit=2500", list + "limit=2500", list + "continue=next&limit=2500"},
			summary: Summary{Pages: 3, Expired: 1, Retries: 1},
		},
		"every continue token expired, because the handler is slow": {
			answers: slices.Concat(slices.Repeat([]answer{first, {code: 410, body: fmt.Sprintf(gone, "inconsistent")}}, 20), []answer{last}),
			want:    append(slices.Repeat([]string{wantPod("a"), wantPod("b")}, 20), wantPod("c")),
			summary: Summary{Pages: 21, Expired: 20, Retries: 20},
		},
		"too many requests": {
			answers: []answer{{code: 429, retryAfter: "3"}, {code: 429, retryAfter: "4000"}, {code: 429}, first, last},
			want:    all,
			slept:   []time.Duration{3 * time.Second, 30 * time.Second, 800 * time.Millisecond},
			summary: Summary{Pages: 2, Retries: 3},
		},
		"server errors": {
			answers: []answer{{code: 500, body: "oops"}, first, {code: 503}, last},
			want:    all,
			slept:   []time.Duration{200 * time.Millisecond, 200 * time.Millisecond},
			summary: Summary{Pages: 2, Retries: 2},
		},
		"connection cut in a page": {
			answers: []answer{cutOff, first, last},
			want:    all,
			asked:   []string{list + "limit=2500", list + "limit=1250", list + "continue=next&limit=1250"},
			slept:   []time.Duration{200 * time.Millisecond},
			summary: Summary{Pages: 2, Retries: 1},
		},
		"exact version": {
			req:     Request{ResourceVersion: "7"},
			answers: []answer{first, last},
			want:    all,
			asked: []string{
				list + "limit=2500&resourceVersion=7&resourceVersionMatch=Exact",
				list + "continue=next&limit=2500",
			},
			summary: Summary{Pages: 2, Exact: true},
		},
		"exact version compacted": {
			req:     Request{ResourceVersion: "7"},
			answers: []answer{{code: 410, body: fmt.Sprintf(gone, "")}, first, last},
			want:    all,
			asked: []string{
				list + "limit=2500&resourceVersion=7&resourceVersionMatch=Exact", list + "limit=2500",
				list + "continue=next&limit=2500",
			},
			summary: Summary{Pages: 2, Retries: 1},
		},
		"exact version too large": {
			req:     Request{ResourceVersion: "7"},
			answers: []answer{{code: 504, body: `{"kind":"Status","reason":"Timeout","code":504}`}, last},
			want:    []string{wantPod("c")},
			summary: Summary{Pages: 1, Retries: 1},
		},
		"exact version not supported": {
			req:     Request{ResourceVersion: "7"},
			answers: []answer{{code: 400}, last},
			want:    []string{wantPod("c")},
			summary: Summary{Pages: 1, Retries: 1},
		},
		"exact version ignored": {
			req:     Request{ResourceVersion: "6"},
			answers: []answer{last},
			want:    []string{wantPod("c")},
			summary: Summary{Pages: 1},
		},
		"namespace, selector and first page": {
			req:     Request{Namespace: "ns", LabelSelector: "a in (b,c)", FirstPageSize: 64},
			answers: []answer{first, last},
			want:    all,
			asked: []string{
				"/api/v1/namespaces/ns/pods?labelSelector=a in (b,c)&limit=64",
				"/api/v1/namespaces/ns/pods?continue=next&labelSelector=a in (b,c)&limit=2500",
			},
			summary: Summary{Pages: 2},
		},
		"object without a name": {
			answers: []answer{{body: page("", podJSON("a"), `{"metadata":{}}`, `{}`, podJSON("c"))}},
			want:    []string{wantPod("a"), wantPod("c")},
			summary: Summary{Pages: 1, Nameless: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := &script{answers: tc.answers}
			client, slept := clientOf(t, server, Options{})
			tc.req.Kind = pods
			var got []string
			summary, err := client.List(context.Background(), tc.req, items(&got))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.asked, server.asked); tc.asked != nil && diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.slept, *slept); tc.slept != nil && diff != "" {
				t.Errorf("delays (-want +got):\n%s", diff)
			}
			tc.summary.Items, tc.summary.Bytes, tc.summary.ResourceVersion = len(tc.want), summary.Bytes, "7"
			if diff := cmp.Diff(tc.summary, summary); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}

// A page that breaks off after some of its objects were handed over is asked
// for again, and they do not come twice.
func TestListGoesOnBehindWhatItHasWhenAPageBreaksOff(t *testing.T) {
	large := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"data":%q}`, name, strings.Repeat("x", batchBytes))
	}
	whole := page("", large("a"), large("b"), large("c"))
	server := &script{answers: []answer{
		{body: whole[:len(whole)*2/3], cut: true},
		{body: whole},
	}}
	client, _ := clientOf(t, server, Options{})
	var got []string
	summary, err := client.List(context.Background(), Request{Kind: pods}, Handler{Batch: func(b *Batch) error {
		for _, item := range b.Items {
			got = append(got, item.Name)
		}
		b.Release()
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" || summary.Items != 3 || summary.Retries != 1 {
		t.Errorf("got %+v (-want +got):\n%s", summary, diff)
	}
}

func TestListFails(t *testing.T) {
	forever := func(a answer) []answer {
		return []answer{a, a, a, a, a, a, a, a, a, a}
	}
	for name, tc := range map[string]struct {
		answers []answer
		is      func(error) bool
		asked   int
	}{
		"forbidden": {
			answers: []answer{{code: 403, body: `{"kind":"Status","reason":"Forbidden","code":403,"message":"no"}`}},
			is:      apierrors.IsForbidden, asked: 1,
		},
		"not found":           {answers: []answer{{code: 404, body: "404 page not found"}}, is: apierrors.IsNotFound, asked: 1},
		"always unavailable":  {answers: forever(answer{code: 503}), is: apierrors.IsServiceUnavailable, asked: maxAttempts},
		"always cut off":      {answers: forever(answer{body: `{"items":[`, cut: true}), is: anyError, asked: maxAttempts},
		"not JSON":            {answers: forever(answer{body: "<html>"}), is: anyError, asked: maxAttempts},
		"status instead":      {answers: []answer{{body: `{"kind":"Status","code":500,"message":"x"}`}}, is: isNotList, asked: 1},
		"object instead":      {answers: []answer{{body: podJSON("a")}}, is: isNotList, asked: 1},
		"items are no list":   {answers: []answer{{body: `{"items":{}}`}}, is: isNotList, asked: 1},
		"item is no object":   {answers: []answer{{body: `{"items":["x"]}`}}, is: isNotList, asked: 1},
		"status behind items": {answers: []answer{{body: page("", podJSON("a")) + `{"kind":"Status"}`}}, is: isNotList, asked: 1},
		"expires for ever": {
			answers: append([]answer{{body: page("next")}}, forever(answer{code: 410, body: fmt.Sprintf(gone, "again")})...),
			is:      apierrors.IsResourceExpired, asked: maxAttempts + 2,
		},
		"begins again for ever": {
			answers: slices.Repeat([]answer{{body: page("next", podJSON("a"))}, {code: 410, body: fmt.Sprintf(gone, "")}}, 20),
			is:      apierrors.IsResourceExpired, asked: 2 * (maxAttempts + 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := &script{answers: tc.answers}
			client, _ := clientOf(t, server, Options{})
			var got []string
			_, err := client.List(context.Background(), Request{Kind: pods}, items(&got))
			if !tc.is(err) {
				t.Errorf("unexpected error %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "pods") {
				t.Errorf("error %q does not name the resource", err)
			}
			if len(server.asked) != tc.asked {
				t.Errorf("server was asked %d times, want %d", len(server.asked), tc.asked)
			}
		})
	}
}

func anyError(err error) bool  { return err != nil }
func isNotList(err error) bool { return errors.Is(err, errNotList) }

func TestListReturnsTheErrorOfItsHandler(t *testing.T) {
	enough := errors.New("enough")
	for name, tc := range map[string]struct {
		handler Handler
		want    error
	}{
		"from a batch": {Handler{Batch: func(b *Batch) error { b.Release(); return enough }}, enough},
		"from a page":  {Handler{Page: func(Page) error { return enough }, Batch: func(*Batch) error { return nil }}, enough},
		"stop":         {Handler{Page: func(Page) error { return ErrStop }, Batch: func(*Batch) error { return enough }}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := &script{answers: []answer{{body: page("next", podJSON("a"))}, {body: page("", podJSON("a"))}}}
			client, _ := clientOf(t, server, Options{})
			_, err := client.List(context.Background(), Request{Kind: pods}, tc.handler)
			if !errors.Is(err, tc.want) || len(server.asked) != 1 {
				t.Errorf("error %v after %d requests, want %v after 1", err, len(server.asked), tc.want)
			}
		})
	}
}

func TestListTellsAboutPages(t *testing.T) {
	server := &script{answers: []answer{
		{body: `{"metadata":{"continue":"x","remainingItemCount":1234},"items":[]}`},
		{body: `{"metadata":{"continue":"y"},"items":[]}`},
		{body: page("")},
	}}
	client, _ := clientOf(t, server, Options{})
	var got []Page
	_, err := client.List(context.Background(), Request{Kind: pods}, Handler{
		Page:  func(p Page) error { got = append(got, p); return nil },
		Batch: func(*Batch) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Page{{First: true, More: true, Remaining: 1234}, {More: true, Remaining: -1}, {Remaining: 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

func TestListStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	client, _ := clientOf(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}), Options{})
	var got []string
	if _, err := client.List(ctx, Request{Kind: pods}, items(&got)); !errors.Is(err, context.Canceled) {
		t.Errorf("List: %v", err)
	}
}

func TestGet(t *testing.T) {
	server := &script{answers: []answer{{code: 500}, {body: podJSON("a b")}, {code: 404}}}
	client, _ := clientOf(t, server, Options{})
	item, err := client.Get(context.Background(), pods, "ns", "a b")
	if err != nil {
		t.Fatal(err)
	}
	if got := item.Key + "=" + string(item.JSON); got != wantPod("a b") {
		t.Errorf("Get: %s", got)
	}
	if _, err := client.Get(context.Background(), widgets, "", "x"); !apierrors.IsNotFound(err) {
		t.Errorf("Get of what is not there: %v", err)
	}
	want := []string{"/api/v1/namespaces/ns/pods/a%20b", "/api/v1/namespaces/ns/pods/a%20b", "/apis/example.org/v1beta1/widgets/x"}
	if diff := cmp.Diff(want, server.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
