// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const gone = `{"kind":"Status","status":"Failure","reason":"Expired","code":410,"metadata":{"continue":%q},"message":"too old"}`

func TestList_Retries(t *testing.T) {
	list := "/api/v1/pods?"
	first := listAnswer{body: page("next", podJSON("a"), podJSON("b"))}
	last := listAnswer{body: page("", podJSON("c"))}
	all := []string{wantPod("a"), wantPod("b"), wantPod("c")}
	cutOff := listAnswer{body: strings.TrimSuffix(page("next", podJSON("a")), "]}\n") + ",", cut: true}
	for name, tc := range map[string]struct {
		req     ListRequest
		answers []listAnswer
		want    []string
		asked   []string
		slept   []time.Duration
		summary Summary
	}{
		"pages": {
			answers: []listAnswer{first, last},
			want:    all,
			asked:   []string{list + "limit=2500", list + "continue=next&limit=2500"},
			summary: Summary{Pages: 2},
		},
		"continue token expired, with a new one": {
			answers: []listAnswer{first, {code: 410, body: fmt.Sprintf(gone, "inconsistent")}, last},
			want:    all,
			asked:   []string{list + "limit=2500", list + "continue=next&limit=2500", list + "continue=inconsistent&limit=2500"},
			summary: Summary{Pages: 2, Expired: 1, Retries: 1},
		},
		"continue token expired, without a new one": {
			answers: []listAnswer{first, {code: 410, body: fmt.Sprintf(gone, "")}, first, last},
			want:    []string{wantPod("a"), wantPod("b"), wantPod("a"), wantPod("b"), wantPod("c")},
			asked:   []string{list + "limit=2500", list + "continue=next&limit=2500", list + "limit=2500", list + "continue=next&limit=2500"},
			summary: Summary{Pages: 3, Expired: 1, Retries: 1},
		},
		"every continue token expired, because the handler is slow": {
			answers: slices.Concat(slices.Repeat([]listAnswer{first, {code: 410, body: fmt.Sprintf(gone, "inconsistent")}}, 20), []listAnswer{last}),
			want:    append(slices.Repeat([]string{wantPod("a"), wantPod("b")}, 20), wantPod("c")),
			summary: Summary{Pages: 21, Expired: 20, Retries: 20},
		},
		"too many requests": {
			answers: []listAnswer{{code: 429, retryAfter: "3"}, {code: 429, retryAfter: "4000"}, {code: 429}, first, last},
			want:    all,
			slept:   []time.Duration{3 * time.Second, 30 * time.Second, 800 * time.Millisecond},
			summary: Summary{Pages: 2, Retries: 3},
		},
		"server errors": {
			answers: []listAnswer{{code: 500, body: "oops"}, first, {code: 503}, last},
			want:    all,
			slept:   []time.Duration{200 * time.Millisecond, 200 * time.Millisecond},
			summary: Summary{Pages: 2, Retries: 2},
		},
		"connection cut in a page": {
			answers: []listAnswer{cutOff, first, last},
			want:    all,
			asked:   []string{list + "limit=2500", list + "limit=1250", list + "continue=next&limit=1250"},
			slept:   []time.Duration{200 * time.Millisecond},
			summary: Summary{Pages: 2, Retries: 1},
		},
		"exact version": {
			req:     ListRequest{ResourceVersion: "7"},
			answers: []listAnswer{first, last},
			want:    all,
			asked: []string{
				list + "limit=2500&resourceVersion=7&resourceVersionMatch=Exact",
				list + "continue=next&limit=2500",
			},
			summary: Summary{Pages: 2, Exact: true},
		},
		"exact version compacted": {
			req:     ListRequest{ResourceVersion: "7"},
			answers: []listAnswer{{code: 410, body: fmt.Sprintf(gone, "")}, first, last},
			want:    all,
			asked: []string{
				list + "limit=2500&resourceVersion=7&resourceVersionMatch=Exact", list + "limit=2500",
				list + "continue=next&limit=2500",
			},
			summary: Summary{Pages: 2, Retries: 1},
		},
		"exact version too large": {
			req:     ListRequest{ResourceVersion: "7"},
			answers: []listAnswer{{code: 504, body: `{"kind":"Status","reason":"Timeout","code":504}`}, last},
			want:    []string{wantPod("c")},
			summary: Summary{Pages: 1, Retries: 1},
		},
		"exact version not supported": {
			req:     ListRequest{ResourceVersion: "7"},
			answers: []listAnswer{{code: 400}, last},
			want:    []string{wantPod("c")},
			summary: Summary{Pages: 1, Retries: 1},
		},
		"exact version ignored": {
			req:     ListRequest{ResourceVersion: "6"},
			answers: []listAnswer{last},
			want:    []string{wantPod("c")},
			summary: Summary{Pages: 1},
		},
		"namespace, selector and first page": {
			req:     ListRequest{Namespace: "ns", LabelSelector: "a in (b,c)", FirstPageSize: 64},
			answers: []listAnswer{first, last},
			want:    all,
			asked: []string{
				"/api/v1/namespaces/ns/pods?labelSelector=a in (b,c)&limit=64",
				"/api/v1/namespaces/ns/pods?continue=next&labelSelector=a in (b,c)&limit=2500",
			},
			summary: Summary{Pages: 2},
		},
		"object without a name": {
			answers: []listAnswer{{body: page("", podJSON("a"), `{"metadata":{}}`, `{}`, podJSON("c"))}},
			want:    []string{wantPod("a"), wantPod("c")},
			summary: Summary{Pages: 1, Nameless: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := &script{answers: tc.answers}
			client, slept := clientOf(t, server, ListOptions{})
			tc.req.ResourceKind = pods
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

// A page that is truncated after some of its objects were delivered is requested
// again, and these objects are not delivered twice.
func TestList_TruncatedPage(t *testing.T) {
	large := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"data":%q}`, name, strings.Repeat("x", batchBytes))
	}
	whole := page("", large("a"), large("b"), large("c"))
	server := &script{answers: []listAnswer{
		{body: whole[:len(whole)*2/3], cut: true},
		{body: whole},
	}}
	client, _ := clientOf(t, server, ListOptions{})
	var got []string
	summary, err := client.List(context.Background(), ListRequest{ResourceKind: pods}, Handler{Batch: func(b *Batch) error {
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
