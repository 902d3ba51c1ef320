// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// textsOf returns what is queued for a follower.
func textsOf(f *follower) []string {
	var out []string
	for _, line := range f.take() {
		if line.GetEnd() {
			out = append(out, line.GetCallId()+" end")
		} else {
			out = append(out, line.GetCallId()+" "+string(line.GetText()))
		}
	}
	return out
}

// TestHub: everybody gets the lines of their own calls, and the program's own log all of
// them.
func TestHub(t *testing.T) {
	t.Parallel()
	own := &strings.Builder{}
	h := newHub(own)
	a, errA := h.join(strings.Repeat("a", 16))
	b, errB := h.join(strings.Repeat("b", 16))
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	id := func(letter string) string { return strings.Repeat(letter, 16) + ".1" }
	lines := []string{
		fmt.Sprintf(`{"@message":"one","@call":%q}`, id("a")), fmt.Sprintf(`{"@message":"two","@call":%q}`, id("b")),
		fmt.Sprintf(`{"@message":"three","@call":%q}`, id("c")), `{"@message":"of no call"}`, `no JSON`,
	}
	if _, err := fmt.Fprintln(h, strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(h, "{\"@end\":%q}\n", id("a")); err != nil {
		t.Fatal(err)
	}
	if got := own.String(); got != strings.Join(lines, "\n")+"\n" {
		t.Errorf("the own log is %q", got)
	}
	if got, want := textsOf(a), []string{id("a") + " " + lines[0], id("a") + " end"}; !slices.Equal(got, want) {
		t.Errorf("one gets %q, want %q", got, want)
	}
	if got, want := textsOf(b), []string{id("b") + " " + lines[1]}; !slices.Equal(got, want) {
		t.Errorf("the other gets %q, want %q", got, want)
	}
}

func TestHubRefuses(t *testing.T) {
	t.Parallel()
	h := newHub(&strings.Builder{})
	if _, err := h.join(testSession); err != nil {
		t.Fatal(err)
	}
	for session, want := range map[string]codes.Code{
		testSession: codes.AlreadyExists, "short": codes.InvalidArgument, strings.Repeat("a", 65): codes.InvalidArgument,
		testSession + ".1": codes.InvalidArgument,
	} {
		if _, err := h.join(session); status.Code(err) != want {
			t.Errorf("%s: %v, want %s", session, err, want)
		}
	}
	h.leave(testSession)
	if _, err := h.join(testSession); err != nil {
		t.Errorf("a session that was left: %v", err)
	}
}

// TestFollowerDoesNotRead: then lines are dropped, which is said, and the ends of calls
// are not.
func TestFollowerDoesNotRead(t *testing.T) {
	t.Parallel()
	f := newFollower()
	line := []byte(strings.Repeat("x", 2*maxLine))
	const n = 40
	for range n {
		f.add("s.1", line)
	}
	f.end("s.1")
	f.end("s.2")
	lines := f.take()
	kept := maxQueued / (maxLine + lineCost)
	if len(lines) != kept+3 || len(lines[0].GetText()) != maxLine {
		t.Fatalf("there are %d lines, the first has %d bytes; want %d and %d", len(lines), len(lines[0].GetText()), kept+3, maxLine)
	}
	if text := string(lines[kept].GetText()); !strings.Contains(text, fmt.Sprintf(`"%d lines of this call are missing`, n-kept)) {
		t.Errorf("of what was dropped it says %q", text)
	}
	if !lines[kept+1].GetEnd() || !lines[kept+2].GetEnd() {
		t.Error("an end is missing")
	}
	f.add("s.3", line)
	if got := len(f.take()); got != 1 {
		t.Errorf("there are %d lines after all were taken, want 1", got)
	}
}
