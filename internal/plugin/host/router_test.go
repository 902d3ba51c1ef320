// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

func logTo(text *strings.Builder) logr.Logger {
	return funcr.New(func(_, args string) { text.WriteString(args + "\n") }, funcr.Options{Verbosity: 9})
}

func TestLogRouter_RouteLogRecord(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rec  Record
		open []string
		// strays are abandoned calls of a child that does not report their end.
		strays []string
		want   string
	}{
		"by call":                      {rec: Record{Message: "m", CallID: "1", Key: "a"}, open: []string{"1=a", "2=b"}, want: "1"},
		"by call, two with one key":    {rec: Record{Message: "m", CallID: "2", Key: "a"}, open: []string{"1=a", "2=a"}, want: "2"},
		"by key":                       {rec: Record{Message: "m", Key: "b"}, open: []string{"1=a", "2=b"}, want: "2"},
		"by key of an earlier call":    {rec: Record{Message: "m", CallID: "0", Key: "b"}, open: []string{"1=a", "2=b"}, want: "2"},
		"untagged, one open":           {rec: Record{Message: "m"}, open: []string{"1=a"}, want: "1"},
		"untagged, two open":           {rec: Record{Message: "m"}, open: []string{"1=a", "2=b"}, want: "operator"},
		"untagged, none open":          {rec: Record{Message: "m"}, want: "operator"},
		"unknown key":                  {rec: Record{Message: "m", Key: "z"}, open: []string{"1=a"}, want: "operator"},
		"two calls with the same key":  {rec: Record{Message: "m", Key: "a"}, open: []string{"1=a", "2=a", "3=b"}, want: "run"},
		"untagged, one run":            {rec: Record{Message: "m"}, open: []string{"1=a", "2=a", "3=a"}, want: "run"},
		"untagged, a run and another":  {rec: Record{Message: "m"}, open: []string{"1=a", "2=a", "3=b"}, want: "operator"},
		"untagged, calls of no run":    {rec: Record{Message: "m"}, open: []string{"1=", "2="}, want: "operator"},
		"untagged, stray of the run":   {rec: Record{Message: "m"}, open: []string{"1=a", "2=a"}, strays: []string{"a"}, want: "run"},
		"untagged, stray of another":   {rec: Record{Message: "m"}, open: []string{"1=a"}, strays: []string{"b"}, want: "operator"},
		"untagged, many strays":        {rec: Record{Message: "m"}, open: []string{"1=a"}, strays: []string{"a", "b"}, want: "operator"},
		"tagged, stray of another":     {rec: Record{Message: "m", Key: "a"}, open: []string{"1=a"}, strays: []string{"b"}, want: "1"},
		"call that is no longer open":  {rec: Record{Message: "m", CallID: "1", Key: "a"}, open: []string{"1=a-"}, want: "operator"},
		"untagged, the other one over": {rec: Record{Message: "m"}, open: []string{"1=a-", "2=b"}, want: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := map[string]*strings.Builder{"operator": {}, "run": {}}
			r := newLogRouter(logTo(logs["operator"]))
			for _, entry := range tc.open {
				id, key, _ := strings.Cut(entry, "=")
				logs[id] = &strings.Builder{}
				s := r.beginCallLog(id, Call{Key: strings.TrimSuffix(key, "-"), Log: logTo(logs[id]), RunLog: logTo(logs["run"])})
				if strings.HasSuffix(key, "-") {
					s.detachRunLog()
				}
			}
			for _, key := range tc.strays {
				r.beginCallLog("stray", Call{Key: key, Log: logr.Discard()}).detachRunLog()
				r.removeAbandonedCall("stray")
			}
			r.routeLogRecord(tc.rec)
			for id, text := range logs {
				if got := text.Len() > 0; got != (id == tc.want) {
					t.Errorf("%s got the line: %v, want it in %s", id, got, tc.want)
				}
			}
		})
	}
}

func TestLogRouter_MarkCallEnded(t *testing.T) {
	t.Parallel()
	r := newLogRouter(logr.Discard())
	s := r.beginCallLog("1", Call{Key: "k", Log: logr.Discard()})
	r.routeLogRecord(Record{EndedCallID: "2"})
	select {
	case <-s.ended:
		t.Error("the end of another call ended this one")
	default:
	}
	// A plugin may report it twice.
	r.routeLogRecord(Record{EndedCallID: "1"})
	r.routeLogRecord(Record{EndedCallID: "1"})
	<-s.ended
}

func TestLogRouter_CallBudget(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	r := newLogRouter(logr.Discard())
	r.beginCallLog("1", Call{Key: "k", Log: logTo(&text)})
	for range 3 {
		r.routeLogRecord(Record{Message: "m", CallID: "1", Size: MaxCallBytes/2 + 1})
	}
	if lines := strings.Count(text.String(), "\n"); lines != 2 || !strings.Contains(text.String(), "Dropping further log lines") {
		t.Errorf("the log is: %s", text.String())
	}
}
