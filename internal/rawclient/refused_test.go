// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// nested returns the JSON of an object with that many nested arrays in its spec.
func nested(name string, arrays int) string {
	return fmt.Sprintf(`{"metadata":{"labels":{"app":"x"},"name":%q,"namespace":"ns"},"spec":%s%s}`,
		name, strings.Repeat("[", arrays), strings.Repeat("]", arrays))
}

func TestList_Refused(t *testing.T) {
	const deepest = 9_999 // and the object itself
	large := `{"metadata":{"name":"b","namespace":"ns"},"data":"` + strings.Repeat(`x\"{[`, maxItemBytes/4) + `"}`
	for name, tc := range map[string]struct {
		item        string
		wantRefused []string
		wantError   string
	}{
		"as deep as the API server stores it": {item: nested("b", deepest)},
		"one level deeper":                    {item: nested("b", deepest+1), wantRefused: []string{"ns/b"}, wantError: "exceeded max depth"},
		"far deeper":                          {item: nested("b", 3_000_000), wantRefused: []string{"ns/b"}, wantError: "exceeded max depth"},
		"too large":                           {item: large, wantRefused: []string{"ns/b"}, wantError: "larger than 16 MiB"},
		"not JSON":                            {item: `{"metadata":{"name":"b","namespace":"ns"},"spec":nothing}`, wantRefused: []string{"ns/b"}, wantError: "invalid character"},
		"brackets do not match":               {item: `{"metadata":{"name":"b"},"spec":{"a":[1}}]`, wantRefused: []string{"b"}, wantError: "invalid character"},
		"name is not readable":                {item: `{"metadata":{"name":"\x","namespace":"ns"}}`, wantRefused: []string{""}, wantError: "invalid"},
		"nothing is readable":                 {item: `{"metadata","name"}`, wantRefused: []string{""}, wantError: "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			server := &script{answers: []listAnswer{{body: page("next", podJSON("a"), tc.item, podJSON("c"))}, {body: page("", podJSON("d"))}}}
			client, _ := clientOf(t, server, ListOptions{})
			var got, refused []string
			var reason error
			handler := items(&got)
			handler.Refused = func(err *RefusedError) {
				refused = append(refused, err.Item.Key)
				reason = err
			}
			if _, err := client.List(t.Context(), ListRequest{ResourceKind: pods}, handler); err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i], _, _ = strings.Cut(got[i], "=")
			}
			want := []string{"ns/a", "ns/c", "ns/d"}
			if tc.wantRefused == nil {
				want = []string{"ns/a", "ns/b", "ns/c", "ns/d"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRefused, refused); diff != "" {
				t.Errorf("refused objects (-want +got):\n%s", diff)
			}
			if tc.wantError != "" && (!strings.Contains(fmt.Sprint(reason), tc.wantError) || len(reason.Error()) > 200) {
				t.Errorf("error %.300q, want a short error with %q", fmt.Sprint(reason), tc.wantError)
			}
		})
	}
}

// A user may have excluded an object that cannot be read, by its labels.
func TestList_RefusedLabels(t *testing.T) {
	client, _ := clientOf(t, &script{answers: []listAnswer{{body: page("", nested("b", 10_000))}}}, ListOptions{})
	var labels map[string]string
	var got []string
	handler := items(&got)
	handler.Refused = func(err *RefusedError) { labels, _ = err.Item.Labels() }
	if _, err := client.List(t.Context(), ListRequest{ResourceKind: pods}, handler); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"app": "x"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestList_RefusedWithoutHandler(t *testing.T) {
	server := &script{answers: []listAnswer{{body: page("", podJSON("a"), nested("b", 10_000))}}}
	client, _ := clientOf(t, server, ListOptions{})
	var got []string
	_, err := client.List(t.Context(), ListRequest{ResourceKind: pods}, items(&got))
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Item.Key != "ns/b" || len(server.asked) != 1 {
		t.Errorf("after %d requests: %v, want an error that names ns/b", len(server.asked), err)
	}
}

// collected collects the results of a scanner.
type collected struct {
	batch   *Batch
	refusal int
}

func (c *collected) handlePageMeta(pageMeta) error { return nil }
func (c *collected) handleObject(*scanner) error   { return nil }
func (c *collected) handleRefused(_ *RefusedError) { c.refusal++ }
func (c *collected) scan(body []byte) error        { return c.scanIn(body, false) }
func (c *collected) scanSlow(b []byte) error       { return c.scanIn(b, true) }
func (c *collected) keys() (out []string) {
	c.batch.sealItems()
	for _, item := range c.batch.Items {
		out = append(out, item.Key+"="+string(item.JSON))
	}
	return out
}

func (c *collected) scanIn(body []byte, bytewise bool) error {
	s := newScanner()
	if err := s.prepareForKind(widgets); err != nil {
		return err
	}
	c.batch, c.refusal = &Batch{}, 0
	s.batch = c.batch
	if bytewise {
		return s.scanPage(iotest.OneByteReader(bytes.NewReader(body)), c)
	}
	return s.scanPage(bytes.NewReader(body), c)
}

// FuzzScanner: for any input, split in any way, the scanner finds the objects that
// encoding/json finds, or fails.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		page(""), page("next", podJSON("a"), podJSON("b\\\"]}")), page("", nested("deep", 40)), `{"items":null}`, `{"items":[{}, {"metadata":1}]}`,
		`{"metadata":{},"items":[{"metadata":{"name":"\\"}},{"metadata":{"name":"a"},"x":nul}]}`, `{"items":[{"a":[}]`, `{"items":[{"metadata":{"labels":{"`,
		`{"kind":"\u0041","other":[1,"]",{"x":"\\\\\""}],"items":[ {"metadata" : {"name":"a b"}} ]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var whole, slow collected
		err, slowErr := whole.scan(body), slow.scanSlow(body)
		if (err == nil) != (slowErr == nil) || whole.refusal != slow.refusal {
			t.Fatalf("in one part: %v, %d refused; byte for byte: %v, %d refused", err, whole.refusal, slowErr, slow.refusal)
		}
		if diff := cmp.Diff(whole.keys(), slow.keys()); err == nil && diff != "" {
			t.Fatalf("objects (-in one part +byte for byte):\n%s", diff)
		}
		var want struct{ Items []json.RawMessage }
		if err != nil || json.Unmarshal(body, &want) != nil {
			return
		}
		if whole.refusal > 0 {
			t.Fatalf("%d objects of a valid list are refused", whole.refusal)
		}
		for _, item := range whole.batch.Items {
			if !json.Valid(item.JSON) {
				t.Fatalf("object %q is not valid JSON: %s", item.Key, item.JSON)
			}
		}
	})
}
