// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel/sdk/proto"
)

// logWriter writes whole log lines, in the format that the operator reads from a plugin's
// standard error: hclog's JSON, with the fields that package proto adds. It is safe for concurrent
// use.
type logWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func newLogWriter(out io.Writer) *logWriter {
	return &logWriter{out: out}
}

// Write writes one or more whole lines without interleaving others.
func (w *logWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// logger returns a logger to w.
func (w *logWriter) logger(level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: replaceAttr}))
}

// callLogger returns a logger whose lines belong to one call.
func (w *logWriter) callLogger(level slog.Leveler, key, callID string) *slog.Logger {
	return w.logger(level).With(slog.String(proto.FieldKey, key), slog.String(proto.FieldCall, callID))
}

// endCall writes the line that marks the end of the lines of a call.
func (w *logWriter) endCall(callID string) error {
	line, err := json.Marshal(map[string]string{proto.FieldEnd: callID})
	if err != nil {
		return fmt.Errorf("encoding the end of a call: %w", err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// timeFormat is the format of hclog. Hosts that read lines with go-plugin, as Velero does,
// treat a line with any other format as unstructured text.
const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

// replaceAttr renames slog's fields to hclog's.
func replaceAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		a.Key = "@timestamp"
		if a.Value.Kind() == slog.KindTime {
			a.Value = slog.StringValue(a.Value.Time().Format(timeFormat))
		}
	case slog.MessageKey:
		a.Key = "@message"
	case slog.LevelKey:
		a.Key = "@level"
		if level, ok := a.Value.Any().(slog.Level); ok {
			a.Value = slog.StringValue(logLevelName(level))
		}
	}
	return a
}

func logLevelName(level slog.Level) string {
	switch {
	case level < slog.LevelDebug:
		return "trace"
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	default:
		return "error"
	}
}

// parseLogLevel returns the level for a name that a host passes in --log-level. Unknown names
// mean info.
func parseLogLevel(name string) slog.Level {
	switch strings.ToLower(name) {
	case "trace":
		return slog.LevelDebug - 4
	case "debug":
		return slog.LevelDebug
	case "warn", "warning":
		return slog.LevelWarn
	case "error", "fatal", "panic":
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
