// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/text"
	"github.com/grapnel-dev/grapnel/sdk/proto"
)

// maxQuoteBytes is the maximum length of a plugin's output that an error message quotes.
const maxQuoteBytes = 160

// CheckExecutable returns a *StartError that explains what is wrong with the file at path,
// or nil if it may be started: the error of the kernel ("permission denied") is less clear.
func CheckExecutable(path string) error {
	if err := checkExecutable(path); err != nil {
		return err
	}
	return nil
}

func checkExecutable(path string) *StartError {
	if !filepath.IsAbs(path) {
		return &StartError{Reason: ReasonInvalidSpec, Message: fmt.Sprintf("the path %q of the plugin binary is not absolute", path)}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &StartError{Reason: ReasonBinaryNotFound, Err: err, Message: fmt.Sprintf(
			"there is no file %s: check the path in the Plugin and that the binary is in the operator's container", path)}
	case err != nil:
		return &StartError{Reason: ReasonNotExecutable, Err: err, Message: fmt.Sprintf(
			"%s cannot be read (%s): check the permissions of its parent directories", path, errnoText(err))}
	case info.IsDir():
		return &StartError{Reason: ReasonNotExecutable, Message: fmt.Sprintf(
			"%s is a directory: name the binary in it in the Plugin", path)}
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return &StartError{Reason: ReasonNotExecutable, Message: fmt.Sprintf(
			"%s is not executable: set its permissions with chmod +x", path)}
	}
	return nil
}

// toSpawnError explains why the kernel refused to start a file that passed CheckExecutable.
func toSpawnError(path string, err error) *StartError {
	switch {
	case errors.Is(err, errSpawnerClosed):
		return &StartError{Reason: ReasonUnloaded, Err: ErrUnloaded, Message: ErrUnloaded.Error()}
	case errors.Is(err, syscall.ENOEXEC):
		return &StartError{Reason: ReasonNotExecutable, Err: err, Message: fmt.Sprintf(
			"%s is not a program for this machine: build it for the operator's operating system and architecture", path)}
	case errors.Is(err, fs.ErrNotExist):
		return &StartError{Reason: ReasonNotExecutable, Err: err, Message: fmt.Sprintf(
			"the interpreter or loader that %s needs is missing: build it statically, with CGO_ENABLED=0", path)}
	case errors.Is(err, fs.ErrPermission):
		return &StartError{Reason: ReasonNotExecutable, Err: err, Message: fmt.Sprintf(
			"%s may not be executed by the operator: check its permissions and that its volume is not mounted noexec", path)}
	default:
		return &StartError{Reason: ReasonStartFailed, Err: err, Message: fmt.Sprintf(
			"the system could not start %s (%s)", path, errnoText(err))}
	}
}

// errnoText returns the system's text for err, without paths.
func errnoText(err error) string {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return "unknown error"
}

// checkHandshake explains what is wrong with the first line on standard output,
// or returns "".
func checkHandshake(line string, redactor *redact.Redactor) string {
	parts := strings.Split(line, "|")
	if core, err := strconv.Atoi(parts[0]); len(parts) < 4 || err != nil || core < 0 {
		return fmt.Sprintf("it printed %s instead of the plugin handshake: check that this is a plugin binary "+
			"and that it prints nothing to standard output before it serves", quoteRedacted(line, redactor))
	}
	if parts[0] != "1" {
		return fmt.Sprintf("it uses version %s of go-plugin's core protocol, version 1 is needed: rebuild the plugin", quoteRedacted(parts[0], redactor))
	}
	if want := strconv.Itoa(proto.HandshakeVersion); parts[1] != want {
		return fmt.Sprintf("it uses version %s of the plugin protocol, version %s is needed: "+
			"rebuild the plugin with a current SDK", quoteRedacted(parts[1], redactor), want)
	}
	if parts[2] != "unix" {
		return fmt.Sprintf("it listens on %s, only unix sockets are accepted: rebuild the plugin with the SDK", quoteRedacted(parts[2], redactor))
	}
	if len(parts) < 5 || parts[4] != "grpc" {
		return "it does not offer gRPC: rebuild the plugin with the SDK"
	}
	return ""
}

// quoteRedacted returns the output of a plugin quoted and redacted.
func quoteRedacted(output string, redactor *redact.Redactor) string {
	return strconv.Quote(text.Truncate(SanitizeLine(redactor.String(output)), maxQuoteBytes))
}

// lastLogLines returns the text about the last lines of a child's log. It omits leading
// dates, so that the text is always the same.
func lastLogLines(lines []string) string {
	date := regexp.MustCompile(`^\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d\S*\s*`)
	var words []string
	for _, line := range lines {
		if line = strings.TrimSpace(date.ReplaceAllString(line, "")); line != "" {
			words = append(words, strconv.Quote(text.Truncate(line, maxQuoteBytes)))
		}
	}
	if len(words) == 0 {
		return "it logged nothing, so start it manually in the operator's container to see more"
	}
	return "its log ends with " + strings.Join(words, ", ")
}

// describeExit says how a child ended.
func describeExit(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("was ended by signal %d (%s)", status.Signal(), status.Signal())
	}
	return fmt.Sprintf("ended with exit code %d", state.ExitCode())
}
