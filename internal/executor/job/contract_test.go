// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/tracing"
)

func TestAnswerForExit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 9<<10)
	for name, tc := range map[string]struct {
		message string
		want    executor.Answer
		wantErr string
	}{
		"nothing":         {},
		"text":            {message: " frozen\nall token=abc\n", want: executor.Answer{Message: "frozen all token=[REDACTED]"}},
		"long text":       {message: long, want: executor.Answer{Message: executor.OneLine(long)}},
		"empty JSON":      {message: "{}"},
		"JSON":            {message: ` {"message":"m","outputs":{"a":"b"}} `, want: executor.Answer{Message: "m", Outputs: map[string]string{"a": "b"}}},
		"again":           {message: `{"message":"m","outputs":{"a":"b"},"retryAfterSeconds":1.5}`, want: executor.Answer{Message: "m", RetryAfter: 1500 * time.Millisecond}},
		"again at once":   {message: `{"retryAfterSeconds":0.000001}`, want: executor.Answer{RetryAfter: executor.MinRetryAfter}},
		"again next day":  {message: `{"retryAfterSeconds":86400}`, want: executor.Answer{RetryAfter: executor.MaxRetryAfter}},
		"again too late":  {message: `{"retryAfterSeconds":86401}`, wantErr: "retryAfterSeconds is 86401: more than 0 and at most 86400 is allowed"},
		"again before":    {message: `{"retryAfterSeconds":-1}`, wantErr: "retryAfterSeconds is -1"},
		"again never":     {message: fmt.Sprintf(`{"retryAfterSeconds":%g}`, math.MaxFloat64), wantErr: "retryAfterSeconds is 1.797"},
		"unknown field":   {message: `{"output":{"a":"b"}}`, wantErr: `unknown field "output"`},
		"cut off":         {message: `{"message":"` + strings.Repeat("x", 4084), wantErr: "Kubernetes keeps 4096 bytes of it, it has 4096"},
		"not only JSON":   {message: `{"message":"m"} trailing`, wantErr: "the JSON is followed by other text"},
		"two JSON":        {message: "{}{}", wantErr: "the JSON is followed by other text"},
		"wrong type":      {message: `{"outputs":{"a":1}}`, wantErr: "cannot unmarshal number"},
		"outputs' key":    {message: `{"outputs":{"a/b":"x"}}`, wantErr: `outputs that are not allowed: the output's key "a/b" is not allowed`},
		"outputs' size":   {message: `{"outputs":{"a":"` + long + `"}}`, wantErr: `the output "a" has 9216 bytes, at most 4096 are allowed`},
		"not quite JSON":  {message: "[1]", want: executor.Answer{Message: "[1]"}},
		"not UTF-8":       {message: "a\xffb", want: executor.Answer{Message: "a\uFFFDb"}},
		"only the spaces": {message: " \n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exit := &corev1.ContainerStateTerminated{Message: tc.message}
			got, failed := answerForExit(exit, "", redact.New().String)
			if tc.wantErr != "" {
				if failed == nil || failed.kind != executor.Failed || !strings.Contains(failed.text, tc.wantErr) {
					t.Errorf("failure is %+v, want %q", failed, tc.wantErr)
				}
				return
			}
			if failed != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("answer is %+v, %v; want %+v", got, failed, tc.want)
			}
		})
	}
}

func TestNewEnvVars(t *testing.T) {
	t.Parallel()
	c := executor.Call{
		Point: executor.PointPostRestore, Action: "a.io/b", Key: "k", Attempt: 3, BackupName: "nightly",
		Parameters: map[string]string{"db": "x", "max-lag.s": "$(GRAPNEL_PARAM_DB) $$ $", "größe": "ü", "path": ""},
	}
	options := Options{Env: []corev1.EnvVar{{Name: "PATH_TO", Value: "$(HOME)"}}}
	got, err := options.newEnvVars(c)
	if err != nil {
		t.Fatal(err)
	}
	want := []corev1.EnvVar{
		{Name: "PATH_TO", Value: "$(HOME)"},
		{Name: "GRAPNEL_IDEMPOTENCY_KEY", Value: "k"},
		{Name: "GRAPNEL_ATTEMPT", Value: "3"},
		{Name: "GRAPNEL_POINT", Value: "PostRestore"},
		{Name: "GRAPNEL_ACTION", Value: "a.io/b"},
		{Name: "GRAPNEL_BACKUP_NAME", Value: "nightly"},
		{Name: "GRAPNEL_SUBJECT_FILE", Value: "/grapnel/subject.json"},
		{Name: "GRAPNEL_OUTPUTS_FILE", Value: "/grapnel/outputs.json"},
		{Name: "GRAPNEL_BACKUP_OUTPUTS_FILE", Value: "/grapnel/backup-outputs.json"},
		{Name: "GRAPNEL_PARAM_DB", Value: "x"},
		{Name: "GRAPNEL_PARAM_GR__E", Value: "ü"},
		{Name: "GRAPNEL_PARAM_MAX_LAG_S", Value: "$$(GRAPNEL_PARAM_DB) $$$$ $$"},
		{Name: "GRAPNEL_PARAM_PATH", Value: ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if len(options.Env) != 1 {
		t.Error("the options were changed")
	}
}

func TestAttempt_Traceparent(t *testing.T) {
	t.Parallel()
	traced := (&tracing.Tracer{}).WithOperation(t.Context(), "0b6e2f0c-7f1d-4d3b-9a58-1f0d5d4c8e11", "operation-1")
	for name, tc := range map[string]struct {
		ctx  context.Context //nolint:containedctx // It is the input.
		want []string
	}{
		"off": {ctx: t.Context()},
		"on":  {ctx: traced, want: []string{tracing.Traceparent(traced)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &attempt{call: call()}
			if err := a.prepareInputs(tc.ctx); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range a.env {
				if v.Name == "TRACEPARENT" {
					got = append(got, v.Value)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("TRACEPARENT is %q, want %q", got, tc.want)
			}
		})
	}
}

// FuzzParameters: no parameter becomes another variable, or one that no container accepts.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{"", "a", "A=b", "a\nB=c", "LD_PRELOAD", "../x", "$(A)", "é\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, parameter string) {
		name := parameterEnvName(parameter)
		if !strings.HasPrefix(name, parameterEnvPrefix) || (name != parameterEnvPrefix && len(validation.IsCIdentifier(name)) > 0) {
			t.Errorf("the parameter %q becomes %q", parameter, name)
		}
	})
}

func TestNew_InvalidOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no client":        {func(o *Options) { o.Client = nil }, "Client and Logs are required"},
		"no logs":          {func(o *Options) { o.Logs = nil }, "Client and Logs are required"},
		"no image":         {func(o *Options) { o.Image = "" }, "Plugin, Namespace and Image are required"},
		"no namespace":     {func(o *Options) { o.Namespace = "" }, "Plugin, Namespace and Image are required"},
		"negative time":    {func(o *Options) { o.StartTimeout = -1 }, "is negative"},
		"command":          {func(o *Options) { o.Command = []string{"sh", "-c", "dump $(GRAPNEL_PARAM_DB)"} }, "parameters are data"},
		"arguments":        {func(o *Options) { o.Args = []string{"$(GRAPNEL_BACKUP_NAME)"} }, "parameters are data"},
		"variable of ours": {func(o *Options) { o.Env = []corev1.EnvVar{{Name: "GRAPNEL_KEY"}} }, "names that begin with GRAPNEL_ are Grapnel's"},
		"no variable":      {func(o *Options) { o.Env = []corev1.EnvVar{{Name: "A=B"}} }, `"A=B" is not a valid name`},
		"variable twice":   {func(o *Options) { o.Env = []corev1.EnvVar{{Name: "A"}, {Name: "A"}} }, "A is set twice"},
		"variable refers":  {func(o *Options) { o.Env = []corev1.EnvVar{{Name: "A", Value: "$(GRAPNEL_PARAM_DB)"}} }, "refers to a variable of Grapnel"},
		"other references": {func(o *Options) {
			o.Args, o.Env = []string{"$(A) $GRAPNEL_PARAM_DB"}, []corev1.EnvVar{{Name: "A", Value: "$(HOME)"}}
		}, ""},
		"nothing is refused": {func(*Options) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			options := w.options()
			tc.change(&options)
			_, err := New(options)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}
