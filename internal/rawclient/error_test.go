// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestList_Failures(t *testing.T) {
	forever := func(a listAnswer) []listAnswer {
		return []listAnswer{a, a, a, a, a, a, a, a, a, a}
	}
	for name, tc := range map[string]struct {
		answers []listAnswer
		is      func(error) bool
		asked   int
	}{
		"forbidden": {
			answers: []listAnswer{{code: 403, body: `{"kind":"Status","reason":"Forbidden","code":403,"message":"no"}`}},
			is:      apierrors.IsForbidden, asked: 1,
		},
		"not found":          {answers: []listAnswer{{code: 404, body: "404 page not found"}}, is: apierrors.IsNotFound, asked: 1},
		"always unavailable": {answers: forever(listAnswer{code: 503}), is: apierrors.IsServiceUnavailable, asked: maxAttempts},
		"always cut off":     {answers: forever(listAnswer{body: `{"items":[`, cut: true}), is: anyError, asked: maxAttempts},
		"not JSON":           {answers: forever(listAnswer{body: "<html>"}), is: isSyntax, asked: maxSyntaxAttempts},
		"object that breaks the list": {
			answers: forever(listAnswer{body: page("", podJSON("a"), `{"metadata":{"name":"b"}}]`, podJSON("c"))}), is: isSyntax, asked: maxSyntaxAttempts,
		},
		"status instead":      {answers: []listAnswer{{body: `{"kind":"Status","code":500,"message":"x"}`}}, is: isNotList, asked: 1},
		"object instead":      {answers: []listAnswer{{body: podJSON("a")}}, is: isNotList, asked: 1},
		"items not a list":    {answers: []listAnswer{{body: `{"items":{}}`}}, is: isNotList, asked: 1},
		"item not an object":  {answers: []listAnswer{{body: `{"items":["x"]}`}}, is: isNotList, asked: 1},
		"status behind items": {answers: []listAnswer{{body: page("", podJSON("a")) + `{"kind":"Status"}`}}, is: isNotList, asked: 1},
		"expires forever": {
			answers: append([]listAnswer{{body: page("next")}}, forever(listAnswer{code: 410, body: fmt.Sprintf(gone, "again")})...),
			is:      apierrors.IsResourceExpired, asked: maxAttempts + 2,
		},
		"restarts forever": {
			answers: slices.Repeat([]listAnswer{{body: page("next", podJSON("a"))}, {code: 410, body: fmt.Sprintf(gone, "")}}, 20),
			is:      apierrors.IsResourceExpired, asked: 2 * (maxAttempts + 1),
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := &script{answers: tc.answers}
			client, _ := clientOf(t, server, ListOptions{})
			var got []string
			_, err := client.List(context.Background(), ListRequest{ResourceKind: pods}, items(&got))
			if !tc.is(err) {
				t.Errorf("unexpected error %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "pods") {
				t.Errorf("error %q does not name the resource", err)
			}
			if len(server.asked) != tc.asked {
				t.Errorf("server got %d requests, want %d", len(server.asked), tc.asked)
			}
		})
	}
}

func anyError(err error) bool { return err != nil }

func isNotList(err error) bool { return errors.Is(err, errNotList) }

func isSyntax(err error) bool { return errors.Is(err, errSyntax) }

func TestList_HandlerError(t *testing.T) {
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
			server := &script{answers: []listAnswer{{body: page("next", podJSON("a"))}, {body: page("", podJSON("a"))}}}
			client, _ := clientOf(t, server, ListOptions{})
			_, err := client.List(context.Background(), ListRequest{ResourceKind: pods}, tc.handler)
			if !errors.Is(err, tc.want) || len(server.asked) != 1 {
				t.Errorf("error %v after %d requests, want %v after 1", err, len(server.asked), tc.want)
			}
		})
	}
}

func TestList_Canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	client, _ := clientOf(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}), ListOptions{})
	var got []string
	if _, err := client.List(ctx, ListRequest{ResourceKind: pods}, items(&got)); !errors.Is(err, context.Canceled) {
		t.Errorf("List: %v", err)
	}
}
