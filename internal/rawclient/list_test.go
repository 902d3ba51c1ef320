// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestList_ObjectContent(t *testing.T) {
	huge := strings.Repeat("0123456789abcdef", 1_400_000/16)
	for name, tc := range map[string]struct {
		kind ResourceKind
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
			client, _ := clientOf(t, &script{answers: []listAnswer{{body: tc.body}}}, ListOptions{})
			var got []string
			summary, err := client.List(context.Background(), ListRequest{ResourceKind: tc.kind}, items(&got))
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

func TestList_ItemFields(t *testing.T) {
	body := page("",
		`{"metadata":{"name":"a","namespace":"ns","labels":{"x":"1","y":"\"z"},"deletionTimestamp":"2026-01-01T00:00:00Z"}}`,
		`{"spec":{"labels":{"no":"no"},"deletionTimestamp":"no"},"metadata":{"labels":null,"name":"b"}}`)
	client, _ := clientOf(t, &script{answers: []listAnswer{{body: body}}}, ListOptions{})
	type seen struct {
		Namespace, Name string
		Labels          map[string]string
		Deleting        bool
	}
	var got []seen
	_, err := client.List(context.Background(), ListRequest{ResourceKind: pods}, Handler{Batch: func(b *Batch) error {
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

func TestList_Pages(t *testing.T) {
	server := &script{answers: []listAnswer{
		{body: `{"metadata":{"continue":"x","remainingItemCount":1234},"items":[]}`},
		{body: `{"metadata":{"continue":"y"},"items":[]}`},
		{body: page("")},
	}}
	client, _ := clientOf(t, server, ListOptions{})
	var got []Page
	_, err := client.List(context.Background(), ListRequest{ResourceKind: pods}, Handler{
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

func TestGet(t *testing.T) {
	server := &script{answers: []listAnswer{{code: 500}, {body: podJSON("a b")}, {code: 404}}}
	client, _ := clientOf(t, server, ListOptions{})
	item, err := client.Get(context.Background(), pods, "ns", "a b")
	if err != nil {
		t.Fatal(err)
	}
	if got := item.Key + "=" + string(item.JSON); got != wantPod("a b") {
		t.Errorf("Get: %s", got)
	}
	if _, err := client.Get(context.Background(), widgets, "", "x"); !apierrors.IsNotFound(err) {
		t.Errorf("Get of a missing object: %v", err)
	}
	want := []string{"/api/v1/namespaces/ns/pods/a%20b", "/api/v1/namespaces/ns/pods/a%20b", "/apis/example.org/v1beta1/widgets/x"}
	if diff := cmp.Diff(want, server.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
