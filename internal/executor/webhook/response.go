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
	// maxHeader is the largest head of an answer in bytes.
	maxHeader = 64 << 10
	// maxBody is the largest body of an answer in bytes.
	maxBody = 1 << 20
	// maxLogLines is how many lines of one answer are logged.
	maxLogLines = 1000
)

// reply is an answer as it came. If err is not nil, body is what came before it.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// response is the body of an answer. An unknown field is an error: a misspelt
// retryAfterSeconds would end a run that has not ended.
type response struct {
	APIVersion        string            `json:"apiVersion"`
	Kind              string            `json:"kind"`
	Message           string            `json:"message"`
	Outputs           map[string]string `json:"outputs"`
	RetryAfterSeconds int64             `json:"retryAfterSeconds"`
	Log               []string          `json:"log"`
}

// answer says what a reply means.
func (e *Executor) answer(ctx context.Context, in reply) (executor.Answer, error) {
	switch in.status {
	case http.StatusOK:
		return e.ok(ctx, in)
	case http.StatusAccepted:
		return e.accepted(ctx, in)
	}
	message := e.errorText(ctx, in)
	text := fmt.Sprintf("answered %d", in.status)
	if name := http.StatusText(in.status); name != "" {
		text += " " + name
	}
	if hint := hintFor(in.status); hint != "" {
		text += ", " + hint
	}
	if message != "" {
		text += ": " + message
	}
	busy := in.status == http.StatusTooManyRequests || in.status == http.StatusServiceUnavailable
	if after, ok := retryAfter(in.header); busy && ok && after <= executor.MaxAgain {
		return executor.Answer{Again: max(after, executor.MinAgain), Message: e.line(text)}, nil
	}
	return executor.Answer{}, &failure{kind: kindOfStatus(in.status, busy), text: text, err: errors.New("the status is " + strconv.Itoa(in.status))}
}

// kindOfStatus returns the kind of a status that is no answer. That of a busy endpoint,
// and of one that has no answer because something in it is broken, says nothing about the
// action; any other is what somebody decided.
func kindOfStatus(status int, busy bool) executor.Kind {
	if busy || status >= 500 && status < 600 {
		return executor.Unreachable
	}
	return executor.Failed
}

// hintFor says what to do about a status.
func hintFor(status int) string {
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

// ok reads an answer with status 200: the action is done, unless it says otherwise.
func (e *Executor) ok(ctx context.Context, in reply) (executor.Answer, error) {
	decoded, err := decode(in)
	if err != nil {
		return executor.Answer{}, err
	}
	e.relay(ctx, decoded.Log)
	if decoded.RetryAfterSeconds != 0 {
		return e.again(decoded, seconds(decoded.RetryAfterSeconds))
	}
	if err := hook.ValidateOutputs(decoded.Outputs); err != nil {
		return executor.Answer{}, broken("answered with outputs that are not allowed: "+err.Error(), err)
	}
	return executor.Answer{Message: e.line(decoded.Message), Outputs: decoded.Outputs}, nil
}

// accepted reads an answer with status 202: the action is not done. The header wins, since
// whatever stands before the endpoint looks at it as well.
func (e *Executor) accepted(ctx context.Context, in reply) (executor.Answer, error) {
	decoded := &response{}
	if len(in.body) > 0 || in.err != nil {
		var err error
		if decoded, err = decode(in); err != nil {
			return executor.Answer{}, err
		}
	}
	e.relay(ctx, decoded.Log)
	after, ok := retryAfter(in.header)
	if !ok {
		after = seconds(decoded.RetryAfterSeconds)
	}
	if !ok && after == 0 {
		return executor.Answer{}, broken("answered 202 without saying when to call again: set the header Retry-After, or retryAfterSeconds", nil)
	}
	return e.again(decoded, after)
}

// again returns the answer of an action that is not done. Outputs count only when it is.
func (e *Executor) again(decoded *response, after time.Duration) (executor.Answer, error) {
	if after < 0 || after > executor.MaxAgain {
		return executor.Answer{}, broken(fmt.Sprintf("asked to be called again at a time that is not allowed: say a number of seconds up to %d",
			int64(executor.MaxAgain/time.Second)), nil)
	}
	return executor.Answer{Again: max(after, executor.MinAgain), Message: e.line(decoded.Message)}, nil
}

// decode reads the body of a successful answer.
func decode(in reply) (*response, error) {
	switch {
	case len(in.body) > maxBody:
		return nil, broken(fmt.Sprintf("answered with more than %d bytes: write large things where they belong and return a reference", maxBody), nil)
	case in.err != nil:
		return nil, in.err
	case encoded(in.header):
		return nil, broken("answered with a Content-Encoding, which it was not asked for", nil)
	}
	var out response
	if err := json.Unmarshal(in.body, &out, json.RejectUnknownMembers(true)); err != nil {
		return nil, broken(describe(err, in), err)
	}
	if jsontext.Value(in.body).Kind() != jsontext.KindBeginObject {
		return nil, broken("answered null instead of a JSON object", nil)
	}
	if out.APIVersion != "" && out.APIVersion != APIVersion || out.Kind != "" && out.Kind != ResponseKind {
		return nil, broken(fmt.Sprintf("answered with apiVersion %.100q and kind %.100q instead of %q and %q",
			out.APIVersion, out.Kind, APIVersion, ResponseKind), nil)
	}
	return &out, nil
}

// encoded says whether a body is something else than its text.
func encoded(header http.Header) bool {
	encoding := header.Get("Content-Encoding")
	return encoding != "" && encoding != "identity"
}

// describe says what is wrong with a body. The library's own text differs from process to
// process.
func describe(err error, in reply) string {
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

// seconds does not overflow: more than MaxAgain is refused, whatever it is.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, -1), int64(executor.MaxAgain/time.Second)+1)) * time.Second
}

// retryAfter reads the header of that name (RFC 9110, section 10.2.3). A date counts from
// the answer's own Date, so that nobody's clock matters.
func retryAfter(header http.Header) (time.Duration, bool) {
	text := header.Get("Retry-After")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return seconds(n), true
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

// errorText returns what the body of an answer says about an error: the field message (or
// detail, RFC 9457) of an object, or the text. The page of some proxy is left out.
func (e *Executor) errorText(ctx context.Context, in reply) string {
	body := in.body[:min(len(in.body), maxBody)]
	var object struct {
		Message string   `json:"message"`
		Detail  string   `json:"detail"`
		Log     []string `json:"log"`
	}
	if err := json.Unmarshal(body, &object); err == nil {
		e.relay(ctx, object.Log)
		return cmp.Or(object.Message, object.Detail)
	}
	if media, _, _ := mime.ParseMediaType(in.header.Get("Content-Type")); media == "text/plain" {
		return string(body)
	}
	return ""
}

// relay logs what an answer says for the log of the run.
func (e *Executor) relay(ctx context.Context, lines []string) {
	log := logr.FromContextOrDiscard(ctx)
	stream := e.redactor.NewStream()
	for _, line := range lines[:min(len(lines), maxLogLines)] {
		if text, ok := stream.Line(line); ok {
			log.Info(executor.OneLine(text))
		}
	}
	if dropped := len(lines) - maxLogLines; dropped > 0 {
		log.Info("The rest of what the webhook wanted to log is dropped", "lines", dropped)
	}
}

// line brings text from outside to what may be shown.
func (e *Executor) line(text string) string {
	return executor.OneLine(e.redactor.String(text))
}
