// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
)

// Logger returns a logger that redacts messages, errors and values and then passes them to
// l.
func (r *Redactor) Logger(l logr.Logger) logr.Logger {
	sink := l.GetSink()
	if r == nil || sink == nil {
		return l
	}
	return l.WithSink(newLogSink(r, sink))
}

// newLogSink keeps the call depth correct: it adds one frame of its own.
func newLogSink(r *Redactor, sink logr.LogSink) logr.LogSink {
	if deep, ok := sink.(logr.CallDepthLogSink); ok {
		sink = deep.WithCallDepth(1)
	}
	return &logSink{sink: sink, redactor: r}
}

type logSink struct {
	sink     logr.LogSink
	redactor *Redactor
}

var _ logr.CallDepthLogSink = (*logSink)(nil)

// Init does nothing: the wrapped sink was initialized by its own logger.
func (s *logSink) Init(logr.RuntimeInfo) {}

// Enabled calls the wrapped sink.
func (s *logSink) Enabled(level int) bool { return s.sink.Enabled(level) }

// Info redacts the message and passes it on.
func (s *logSink) Info(level int, msg string, kv ...any) {
	s.sink.Info(level, s.redactor.String(msg), s.redactor.KeysAndValues(kv)...)
}

// Error redacts the message and passes it on.
func (s *logSink) Error(err error, msg string, kv ...any) {
	if err != nil {
		if text := s.redactor.String(err.Error()); text != err.Error() {
			err = errors.New(text)
		}
	}
	s.sink.Error(err, s.redactor.String(msg), s.redactor.KeysAndValues(kv)...)
}

// WithValues redacts the values once.
func (s *logSink) WithValues(kv ...any) logr.LogSink {
	return &logSink{sink: s.sink.WithValues(s.redactor.KeysAndValues(kv)...), redactor: s.redactor}
}

// WithName passes the name on: names are constants of the program.
func (s *logSink) WithName(name string) logr.LogSink {
	return &logSink{sink: s.sink.WithName(name), redactor: s.redactor}
}

// WithCallDepth passes the depth on if the wrapped sink supports it.
func (s *logSink) WithCallDepth(depth int) logr.LogSink {
	if deep, ok := s.sink.(logr.CallDepthLogSink); ok {
		return &logSink{sink: deep.WithCallDepth(depth), redactor: s.redactor}
	}
	return s
}

// KeysAndValues returns a copy of logr's alternating keys and values with the
// values redacted.
func (r *Redactor) KeysAndValues(kv []any) []any {
	if r == nil {
		return kv
	}
	out := make([]any, len(kv))
	for i, v := range kv {
		if i%2 == 0 {
			out[i] = v
			continue
		}
		key, _ := kv[i-1].(string)
		out[i] = r.redactValue(key, v)
	}
	return out
}

// redactValue redacts one value of any type. A value that is not text is returned unchanged
// unless its text contains a secret.
func (r *Redactor) redactValue(key string, v any) any {
	switch v := v.(type) {
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
		return v
	case string:
		return r.RedactPair(key, v)
	case []byte:
		return r.RedactPair(key, string(v))
	case error:
		return r.RedactPair(key, v.Error())
	default:
		text := fmt.Sprintf("%+v", v)
		if redacted := r.RedactPair(key, text); redacted != text {
			return redacted
		}
		return v
	}
}

// ReplaceAttr redacts one attribute. It is a function for slog.HandlerOptions.ReplaceAttr,
// for which the message is an attribute, too.
func (r *Redactor) ReplaceAttr(_ []string, a slog.Attr) slog.Attr {
	if r == nil {
		return a
	}
	if kind := a.Value.Kind(); kind == slog.KindString {
		a.Value = slog.StringValue(r.RedactPair(a.Key, a.Value.String()))
	} else if kind == slog.KindAny {
		a.Value = slog.AnyValue(r.redactValue(a.Key, a.Value.Any()))
	}
	return a
}
