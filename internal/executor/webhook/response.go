// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

const (
	// maxHeaderBytes is the maximum size of the headers of an answer in bytes.
	maxHeaderBytes = 64 << 10
	// maxBodyBytes is the maximum size of the body of an answer in bytes.
	maxBodyBytes = 1 << 20
	// maxLogLines is how many lines of one answer are logged.
	maxLogLines = 1000
)

// httpReply is an answer as received. If err is not nil, body is what was received before it.
type httpReply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// responseBody is the body of an answer. An unknown field is an error: a misspelled
// retryAfterSeconds would end a run that is not done.
type responseBody struct {
	APIVersion        string            `json:"apiVersion"`
	Kind              string            `json:"kind"`
	Message           string            `json:"message"`
	Outputs           map[string]string `json:"outputs"`
	RetryAfterSeconds int64             `json:"retryAfterSeconds"`
	Log               []string          `json:"log"`
}

// interpretReply interprets a reply.
func (e *Executor) interpretReply(ctx context.Context, in httpReply) (executor.Answer, error) {
	switch in.status {
	case http.StatusOK:
		return e.interpretOK(ctx, in)
	case http.StatusAccepted:
		return e.interpretAccepted(ctx, in)
	}
	message := e.readErrorMessage(ctx, in)
	text := fmt.Sprintf("answered %d", in.status)
	if name := http.StatusText(in.status); name != "" {
		text += " " + name
	}
	if hint := hintForStatus(in.status); hint != "" {
		text += ", " + hint
	}
	if message != "" {
		text += ": " + message
	}
	busy := in.status == http.StatusTooManyRequests || in.status == http.StatusServiceUnavailable
	if after, ok := parseRetryAfter(in.header); busy && ok && after <= executor.MaxRetryAfter {
		return executor.Answer{RetryAfter: max(after, executor.MinRetryAfter), Message: e.redactToLine(text)}, nil
	}
	return executor.Answer{}, &failure{kind: errorKindForStatus(in.status, busy), text: text, err: errors.New("the status is " + strconv.Itoa(in.status))}
}

// errorKindForStatus returns the error kind of a status that is not an answer. The status of a busy
// endpoint, or of one without an answer because a component failed, says nothing about the action.
// Any other status is a decision of the endpoint.
func errorKindForStatus(status int, busy bool) executor.ErrorKind {
	if busy || status >= 500 && status < 600 {
		return executor.Unreachable
	}
	return executor.Failed
}

// hintForStatus returns what to do about a status.
func hintForStatus(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "check the credentials in the Plugin's Secret"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return "check url and path in the Plugin"
	case http.StatusRequestEntityTooLarge:
		return "let the endpoint accept larger requests"
	case http.StatusMisdirectedRequest:
		return "check the host name in the Plugin's url"
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return "check the endpoint behind the proxy"
	}
	switch {
	case status >= 300 && status < 400:
		return "redirects are not followed: put the address of the action itself into the Plugin's url"
	case status < 300:
		return "which is not part of the contract: answer 200, or 202 to be called again"
	}
	return ""
}

// interpretOK reads an answer with status 200: the action is done, unless the answer says
// otherwise.
func (e *Executor) interpretOK(ctx context.Context, in httpReply) (executor.Answer, error) {
	decoded, err := decodeResponse(in)
	if err != nil {
		return executor.Answer{}, err
	}
	e.logResponseLines(ctx, decoded.Log)
	if decoded.RetryAfterSeconds != 0 {
		return e.newRetryAnswer(decoded, toClampedDuration(decoded.RetryAfterSeconds))
	}
	if err := hook.ValidateOutputs(decoded.Outputs); err != nil {
		return executor.Answer{}, newContractError("answered with outputs that are not allowed: "+err.Error(), err)
	}
	return executor.Answer{Message: e.redactToLine(decoded.Message), Outputs: decoded.Outputs}, nil
}

// interpretAccepted reads an answer with status 202: the action is not done. The header has
// precedence, since proxies in front of the endpoint read it as well.
func (e *Executor) interpretAccepted(ctx context.Context, in httpReply) (executor.Answer, error) {
	decoded := &responseBody{}
	if len(in.body) > 0 || in.err != nil {
		var err error
		if decoded, err = decodeResponse(in); err != nil {
			return executor.Answer{}, err
		}
	}
	e.logResponseLines(ctx, decoded.Log)
	after, ok := parseRetryAfter(in.header)
	if !ok {
		after = toClampedDuration(decoded.RetryAfterSeconds)
	}
	if !ok && after == 0 {
		return executor.Answer{}, newContractError("answered 202 without a time for the next call: set the header Retry-After, or retryAfterSeconds", nil)
	}
	return e.newRetryAnswer(decoded, after)
}

// newRetryAnswer returns the answer of an action that is not done. Outputs count only when it is
// done.
func (e *Executor) newRetryAnswer(decoded *responseBody, after time.Duration) (executor.Answer, error) {
	if after < 0 || after > executor.MaxRetryAfter {
		return executor.Answer{}, newContractError(fmt.Sprintf("requested a next call at a time that is not allowed: set a number of seconds up to %d",
			int64(executor.MaxRetryAfter/time.Second)), nil)
	}
	return executor.Answer{RetryAfter: max(after, executor.MinRetryAfter), Message: e.redactToLine(decoded.Message)}, nil
}

// decodeResponse reads the body of a successful answer.
func decodeResponse(in httpReply) (*responseBody, error) {
	switch {
	case len(in.body) > maxBodyBytes:
		return nil, newContractError(fmt.Sprintf("answered with more than %d bytes: store large data elsewhere and return a reference", maxBodyBytes), nil)
	case in.err != nil:
		return nil, in.err
	case hasContentEncoding(in.header):
		return nil, newContractError("answered with a Content-Encoding that was not requested", nil)
	}
	var out responseBody
	if err := json.Unmarshal(in.body, &out, json.RejectUnknownMembers(true)); err != nil {
		return nil, newContractError(describeDecodeError(err, in), err)
	}
	if jsontext.Value(in.body).Kind() != jsontext.KindBeginObject {
		return nil, newContractError("answered null instead of a JSON object", nil)
	}
	if out.APIVersion != "" && out.APIVersion != APIVersion || out.Kind != "" && out.Kind != ResponseKind {
		return nil, newContractError(fmt.Sprintf("answered with apiVersion %.100q and kind %.100q instead of %q and %q",
			out.APIVersion, out.Kind, APIVersion, ResponseKind), nil)
	}
	return &out, nil
}

// hasContentEncoding reports whether a body is encoded.
func hasContentEncoding(header http.Header) bool {
	encoding := header.Get("Content-Encoding")
	return encoding != "" && encoding != "identity"
}

// describeDecodeError describes what is wrong with a body. The text of the library differs between
// processes.
func describeDecodeError(err error, in httpReply) string {
	if len(in.body) == 0 {
		return "answered 200 without a body: answer a JSON object, {} at least"
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(err, json.ErrUnknownName) {
			return fmt.Sprintf("answered with the field %.100q, which is not part of the contract", semantic.JSONPointer.LastToken())
		}
		return fmt.Sprintf("answered with a value of the wrong type at %.100q", cmp.Or(string(semantic.JSONPointer), "/"))
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return "answered with a JSON object that has a field twice"
	}
	text := "answered with something that is not JSON"
	if media, _, err := mime.ParseMediaType(in.header.Get("Content-Type")); err == nil && media != "application/json" {
		text += fmt.Sprintf(" but %.100q", media)
	}
	return text + ": check url and path in the Plugin, and the endpoint"
}

// toClampedDuration converts seconds without overflow: more than MaxRetryAfter is rejected in any
// case.
func toClampedDuration(n int64) time.Duration {
	return time.Duration(min(max(n, -1), int64(executor.MaxRetryAfter/time.Second)+1)) * time.Second
}

// parseRetryAfter reads the Retry-After header (RFC 9110, section 10.2.3). A date is relative to
// the Date header of the answer, so no clock matters.
func parseRetryAfter(header http.Header) (time.Duration, bool) {
	text := header.Get("Retry-After")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return toClampedDuration(n), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return 0, false
	}
	return max(0, at.Sub(date)), true
}

// readErrorMessage returns the error message in the body of an answer: the field message (or
// detail, RFC 9457) of an object, or the text. It ignores the error page of a proxy.
func (e *Executor) readErrorMessage(ctx context.Context, in httpReply) string {
	body := in.body[:min(len(in.body), maxBodyBytes)]
	var object struct {
		Message string   `json:"message"`
		Detail  string   `json:"detail"`
		Log     []string `json:"log"`
	}
	if err := json.Unmarshal(body, &object); err == nil {
		e.logResponseLines(ctx, object.Log)
		return cmp.Or(object.Message, object.Detail)
	}
	if media, _, _ := mime.ParseMediaType(in.header.Get("Content-Type")); media == "text/plain" {
		return string(body)
	}
	return ""
}

// logResponseLines logs the log lines of an answer to the log of the run.
func (e *Executor) logResponseLines(ctx context.Context, lines []string) {
	log := logr.FromContextOrDiscard(ctx)
	stream := e.redactor.NewStream()
	for _, line := range lines[:min(len(lines), maxLogLines)] {
		if text, ok := stream.RedactLine(line); ok {
			log.Info(executor.OneLine(text))
		}
	}
	if dropped := len(lines) - maxLogLines; dropped > 0 {
		log.Info("The remaining log lines of the webhook are dropped", "lines", dropped)
	}
}

// redactToLine redacts text from outside and reduces it to one line.
func (e *Executor) redactToLine(text string) string {
	return executor.OneLine(e.redactor.String(text))
}
