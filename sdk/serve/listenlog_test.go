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

// textsOf returns the lines queued for a follower.
func textsOf(f *logLineQueue) []string {
	var out []string
	for _, line := range f.takeQueuedLines() {
		if line.GetEnd() {
			out = append(out, line.GetCallId()+" end")
		} else {
			out = append(out, line.GetCallId()+" "+string(line.GetText()))
		}
	}
	return out
}

// TestLogHub_Write checks that every follower gets the lines of its own calls, and the program's own
// log gets all lines.
func TestLogHub_Write(t *testing.T) {
	t.Parallel()
	own := &strings.Builder{}
	h := newLogHub(own)
	a, errA := h.addFollower(strings.Repeat("a", 16))
	b, errB := h.addFollower(strings.Repeat("b", 16))
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
		t.Errorf("the first follower gets %q, want %q", got, want)
	}
	if got, want := textsOf(b), []string{id("b") + " " + lines[1]}; !slices.Equal(got, want) {
		t.Errorf("the second follower gets %q, want %q", got, want)
	}
}

func TestLogHub_FollowRejects(t *testing.T) {
	t.Parallel()
	h := newLogHub(&strings.Builder{})
	if _, err := h.addFollower(testSession); err != nil {
		t.Fatal(err)
	}
	for session, want := range map[string]codes.Code{
		testSession: codes.AlreadyExists, "short": codes.InvalidArgument, strings.Repeat("a", 65): codes.InvalidArgument,
		testSession + ".1": codes.InvalidArgument,
	} {
		if _, err := h.addFollower(session); status.Code(err) != want {
			t.Errorf("%s: %v, want %s", session, err, want)
		}
	}
	h.removeFollower(testSession)
	if _, err := h.addFollower(testSession); err != nil {
		t.Errorf("a session without follower: %v", err)
	}
}

// TestLogHub_SlowFollower checks that lines are dropped, that a line reports this, and that
// the ends of calls are kept.
func TestLogHub_SlowFollower(t *testing.T) {
	t.Parallel()
	f := newLogLineQueue()
	line := []byte(strings.Repeat("x", 2*maxLineBytes))
	const n = 40
	for range n {
		f.enqueueLogLine("s.1", line)
	}
	f.enqueueCallEnd("s.1")
	f.enqueueCallEnd("s.2")
	lines := f.takeQueuedLines()
	kept := maxQueuedBytes / (maxLineBytes + lineOverheadBytes)
	if len(lines) != kept+3 || len(lines[0].GetText()) != maxLineBytes {
		t.Fatalf("there are %d lines, the first has %d bytes; want %d and %d", len(lines), len(lines[0].GetText()), kept+3, maxLineBytes)
	}
	if text := string(lines[kept].GetText()); !strings.Contains(text, fmt.Sprintf(`"%d lines of this call are missing`, n-kept)) {
		t.Errorf("the line about dropped lines is %q", text)
	}
	if !lines[kept+1].GetEnd() || !lines[kept+2].GetEnd() {
		t.Error("an end is missing")
	}
	f.enqueueLogLine("s.3", line)
	if got := len(f.takeQueuedLines()); got != 1 {
		t.Errorf("there are %d lines after all were taken, want 1", got)
	}
}
