// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

func TestParser_Parse(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range host.MaxFields + 5 {
		many.WriteString(`,"f` + strconv.Itoa(100+i) + `":1`)
	}
	for name, tc := range map[string]struct {
		line string
		cut  bool
		want host.Record
	}{
		"plain":     {line: "hello", want: host.Record{Level: "info", Message: "hello"}},
		"prefix":    {line: "[ERROR] no disk", want: host.Record{Level: "error", Message: "no disk"}},
		"panic":     {line: "panic: nil map", want: host.Record{Level: "error", Message: "panic: nil map"}},
		"cut":       {line: "abc", cut: true, want: host.Record{Level: "info", Message: "abc… (the rest of the line is dropped)"}},
		"cut JSON":  {line: `{"@message":"m"}`, cut: true, want: host.Record{Level: "info", Message: `{"@message":"m"}… (the rest of the line is dropped)`}},
		"control":   {line: "a\x1b[2Jb\x07\tc", want: host.Record{Level: "info", Message: "a[2Jb c"}},
		"not UTF-8": {line: "a\xffb", want: host.Record{Level: "info", Message: "a\uFFFDb"}},
		"secret":    {line: "password=hunter2hunter2", want: host.Record{Level: "info", Message: "password=" + redact.Placeholder}},
		"null":      {line: "null", want: host.Record{Level: "info", Message: "null"}},
		"long":      {line: strings.Repeat("x", host.MaxTextBytes+9), want: host.Record{Level: "info", Message: strings.Repeat("x", host.MaxTextBytes-3) + "…"}},
		"hclog": {
			line: `{"@level":"WARN","@message":"two\nlines","@timestamp":"2026-01-01T00:00:00Z","@module":"m","n":7,"password":"x"}`,
			want: host.Record{Level: "warn", Message: "two | lines", Fields: []any{"module", "m", "n", "7", "password", redact.Placeholder}},
		},
		"tagged":      {line: `{"@message":"m","@key":"k","@call":"3"}`, want: host.Record{Message: "m", Key: "k", CallID: "3"}},
		"end":         {line: `{"@end":"3"}`, want: host.Record{EndedCallID: "3"}},
		"broken JSON": {line: `{"@message":"m"`, want: host.Record{Level: "info", Message: `{"@message":"m"`}},
		"odd types": {
			line: `{"@message":5,"x":null,"y":[1],"z":{"a":"b"}}`,
			want: host.Record{Message: "5", Fields: []any{"x", "null", "y", "[1]", "z", `{"a":"b"}`}},
		},
		"odd tags":    {line: `{"@message":"m","@key":{"a":1},"@call":3,"@level":null}`, want: host.Record{Message: "m"}},
		"forged keys": {line: `{"@message":"m","a\nb":"c\u001b[31m"}`, want: host.Record{Message: "m", Fields: []any{"a | b", "c[31m"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := host.NewParser(redact.New()).Parse([]byte(tc.line), tc.cut)
			tc.want.Size = len(tc.line)
			if diff := cmp.Diff(tc.want, got); diff != "" || !ok {
				t.Errorf("record (-want +got), shown %v:\n%s", ok, diff)
			}
		})
	}
	got, _ := host.NewParser(redact.New()).Parse([]byte(`{"@message":"m"`+many.String()+`}`), false)
	if len(got.Fields) != 2*host.MaxFields {
		t.Errorf("%d fields are passed on", len(got.Fields)/2)
	}
}

// TestParser_ParsePrivateKey checks a private key, which has several lines, of which only the
// first identifies it.
func TestParser_ParsePrivateKey(t *testing.T) {
	t.Parallel()
	p := host.NewParser(redact.New())
	var shown []string
	for _, line := range []string{"before", "-----BEGIN RSA PRIVATE KEY-----", "MIIEow", "-----END RSA PRIVATE KEY-----", "after"} {
		if r, ok := p.Parse([]byte(line), false); ok {
			shown = append(shown, r.Message)
		}
	}
	if diff := cmp.Diff([]string{"before", redact.Placeholder, "after"}, shown); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestRecord_LogTo(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{
		"trace": `"level"=2 "msg"="m" "a"="b"`, "debug": `"level"=1 "msg"="m" "a"="b"`, "info": `"level"=0 "msg"="m" "a"="b"`,
		"": `"level"=0 "msg"="m" "a"="b"`, "odd": `"level"=0 "msg"="m" "a"="b"`,
		"warn": `"level"=0 "msg"="m" "severity"="warning" "a"="b"`, "error": `"msg"="m" "error"=null "a"="b"`,
	} {
		var got string
		log := funcr.New(func(_, args string) { got = args }, funcr.Options{Verbosity: 9})
		host.Record{Level: level, Message: "m", Fields: []any{"a", "b"}}.LogTo(log)
		if got != want {
			t.Errorf("%q: logged %s, want %s", level, got, want)
		}
	}
}

func TestCallBudget_SpendBytes(t *testing.T) {
	t.Parallel()
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	var b host.CallBudget
	if !b.SpendBytes(host.MaxCallBytes, log) || len(lines) != 0 {
		t.Errorf("a line that just fits is dropped: %v", lines)
	}
	for range 3 {
		if b.SpendBytes(1, log) {
			t.Error("more than the budget is logged")
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "Dropping further log lines of this call") {
		t.Errorf("logged %q", lines)
	}
}

// FuzzParse checks that a line of a plugin never becomes two lines, sends control codes to
// a terminal, or panics.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{", "{}", `{"@message":"a\nb","x":[1e999]}`, "[WARN] x\x1b[2J", "\xff\x00", `{"\u0000":"\r"}`} {
		f.Add([]byte(seed))
	}
	redactor := redact.New()
	f.Fuzz(func(t *testing.T, line []byte) {
		r, _ := host.NewParser(redactor).Parse(line, false)
		r.LogTo(logr.Discard())
		for _, field := range append(r.Fields, r.Message) {
			text := field.(string)
			if !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%q is logged for %q", text, line)
			}
		}
	})
}
