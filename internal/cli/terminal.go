// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// terminal is where text is printed. It removes control characters, with which a name or a log line could move the
// cursor, or hide or forge other lines.
type terminal struct {
	raw io.Writer
	// isTerminal reports whether a person reads the text. Only then are there colors.
	isTerminal bool
}

func newTerminal(w io.Writer) *terminal {
	file, isFile := w.(*os.File)
	return &terminal{raw: w, isTerminal: isFile && term.IsTerminal(int(file.Fd()))}
}

// Write implements io.Writer.
func (t *terminal) Write(p []byte) (int, error) {
	if _, err := io.WriteString(t.raw, text.StripControl(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// printf prints text without control characters.
func (t *terminal) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(t, format, args...)
	return err
}

// dataWriter returns where json and yaml are written: another program gets the data as they are.
func (t *terminal) dataWriter() io.Writer {
	if t.isTerminal {
		return t
	}
	return t.raw
}

// copyData copies json of any size, without control characters only to a terminal.
func (t *terminal) copyData(data io.Reader) error {
	if t.isTerminal {
		return t.copyText(data)
	}
	_, err := io.Copy(t.raw, data)
	return err
}

// copyText copies a text of any size without control characters.
func (t *terminal) copyText(content io.Reader) error {
	_, err := io.Copy(t.raw, transform.NewReader(content, runes.Remove(runes.Predicate(text.IsControl))))
	return err
}

// printPhase prints a line with a phase, in its color if a person reads it.
func (t *terminal) printPhase(before string, phase v1alpha1.RunPhase, after string) error {
	shown := text.StripControl(string(phase))
	if color := phaseColor(phase); color != "" && t.hasColors() {
		shown = "\x1b[" + color + "m" + shown + "\x1b[0m"
	}
	_, err := io.WriteString(t.raw, text.StripControl(before)+shown+text.StripControl(after)+"\n")
	return err
}

// hasColors reports whether texts may have colors.
func (t *terminal) hasColors() bool { return t.isTerminal && os.Getenv("NO_COLOR") == "" }

// phaseColor returns the color of a phase (ECMA-48); empty for none.
func phaseColor(phase v1alpha1.RunPhase) string {
	const green, yellow, red = "32", "33", "31"
	switch phase {
	case v1alpha1.RunPhaseCompleted:
		return green
	case v1alpha1.RunPhasePartiallyFailed, v1alpha1.RunPhaseWaitingForPluginOperationsPartiallyFailed, v1alpha1.RunPhaseFinalizingPartiallyFailed:
		return yellow
	case v1alpha1.RunPhaseFailed, v1alpha1.RunPhaseFailedValidation, v1alpha1.RunPhaseFailedPreBackupActions,
		v1alpha1.RunPhaseFailedPreRestoreActions, v1alpha1.RunPhaseCancelled:
		return red
	case v1alpha1.RunPhaseNew, v1alpha1.RunPhaseInProgress, v1alpha1.RunPhaseWaitingForPluginOperations, v1alpha1.RunPhaseFinalizing:
	}
	return ""
}

// width returns the number of columns; 0 if it is unknown.
func (t *terminal) width() int {
	file, isFile := t.raw.(*os.File)
	if !isFile {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return columns
}
