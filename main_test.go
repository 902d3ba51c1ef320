// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/grpclog"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/grapnel-dev/grapnel/internal/redact"
)

// TestSetRedactingLogger: no line contains a secret that the operator knows, whoever writes it.
func TestSetRedactingLogger(t *testing.T) {
	const secret = "hunter2-3f0c"
	var out bytes.Buffer
	redactor := redact.New()
	setRedactingLogger(redactor, &zap.Options{DestWriter: &out})
	redactor.AddValues(secret) // a location is opened long after the start
	ctx := ctrl.LoggerInto(t.Context(), ctrl.Log.WithValues("answer", "403 for "+secret))
	for name, write := range map[string]func(){
		"a message":                 func() { ctrl.Log.Info("Opening with " + secret) },
		"a value":                   func() { ctrl.Log.Info("Opening", "with", secret) },
		"a value of a context":      func() { ctrl.LoggerFrom(ctx).Info("Opening") },
		"an error":                  func() { ctrl.Log.Error(fmt.Errorf("wrapped: %w", errors.New(secret)), "Failed") },
		"a library of Kubernetes":   func() { klog.ErrorS(errors.New(secret), "Failed") },
		"a line of such a library":  func() { klog.Warningf("failed: %s", secret) },
		"a server of net/http":      func() { panicInServer(t, secret) },
		"gRPC":                      func() { grpclog.Errorf("failed: %s", secret) },
		"an error that is handled":  func() { utilruntime.HandleError(errors.New(secret)) },
		"a panic of a worker":       func() { panics(t.Context(), secret) },
		"an error with its details": func() { ctrl.Log.WithName("x").V(0).Info("Failed", "error", detailed{secret}) },
	} {
		out.Reset()
		write()
		if text := out.String(); text == "" || strings.Contains(text, secret) {
			t.Errorf("%s is logged as %q", name, text)
		}
	}
}

// panicInServer makes a handler panic, which its server logs.
func panicInServer(t *testing.T, with string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(with) }))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := server.Client().Do(request); err == nil {
		_ = response.Body.Close()
		t.Error("the handler did not panic")
	}
}

// detailed is a value that shows its fields.
type detailed struct{ Token string }

// panics behaves like a worker of a library that panics.
func panics(ctx context.Context, with string) {
	defer func() { _ = recover() }()
	defer utilruntime.HandleCrashWithContext(ctx)
	panic(reconcile.TerminalError(errors.New(with)))
}

// TestLeaderElectionTimes_ValidateFlags: errors name the flags.
func TestLeaderElectionTimes_ValidateFlags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		times leaderElectionTimes
		want  string
	}{
		"the defaults":     {times: leaderElectionTimes{duration: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: 2 * time.Second}},
		"short ones":       {times: leaderElectionTimes{duration: 3 * time.Second, renewDeadline: 2 * time.Second, retryPeriod: 500 * time.Millisecond}},
		"no retry period":  {times: leaderElectionTimes{duration: 3 * time.Second, renewDeadline: 2 * time.Second}, want: "--leader-elect-retry-period is 0s"},
		"too few attempts": {times: leaderElectionTimes{duration: 3 * time.Second, renewDeadline: 2 * time.Second, retryPeriod: 2 * time.Second}, want: "--leader-elect-renew-deadline is 2s"},
		"no time to stop":  {times: leaderElectionTimes{duration: 3 * time.Second, renewDeadline: 3 * time.Second, retryPeriod: time.Second}, want: "--leader-elect-lease-duration is 3s"},
		"parts of seconds": {times: leaderElectionTimes{duration: 3500 * time.Millisecond, renewDeadline: 3 * time.Second, retryPeriod: time.Second}, want: "whole seconds"},
	} {
		err := tc.times.validateFlags()
		if (err == nil) != (tc.want == "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: error is %v, want %q", name, err, tc.want)
		}
	}
}

func TestValidateDefaultTTL(t *testing.T) {
	t.Parallel()
	for ttl, valid := range map[time.Duration]bool{0: true, time.Hour: true, 720 * time.Hour: true, 720 * time.Second: false, -time.Hour: false} {
		if err := validateDefaultTTL(ttl); (err == nil) != valid {
			t.Errorf("--default-backup-ttl=%s: %v", ttl, err)
		}
	}
}

func TestSoftMemoryLimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		container   int64
		environment string
		want        int64
	}{
		"a container with a limit": {container: 1 << 30, want: 858993456},
		"no limit":                 {},
		"GOMEMLIMIT is larger":     {container: 1 << 30, environment: "2GiB"},
	} {
		if got := softMemoryLimit(tc.container, tc.environment); got != tc.want {
			t.Errorf("%s: the limit is %d, want %d", name, got, tc.want)
		}
	}
}

// TestNewLeaderElection: the lease has its own client. Its timeout must not apply to the other
// clients, because reading an archive and watching take longer.
func TestNewLeaderElection(t *testing.T) {
	t.Parallel()
	cfg := &rest.Config{Host: "http://127.0.0.1:1", UserAgent: "grapnel"}
	want := rest.CopyConfig(cfg)
	made, err := newLeaderElection(cfg, options{leaderElect: true, lease: leaderElectionTimes{
		duration: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: 2 * time.Second,
	}})
	if err != nil || made.fence == nil {
		t.Fatalf("the election is %+v: %v", made, err)
	}
	if cfg.Timeout != want.Timeout || cfg.UserAgent != want.UserAgent {
		t.Errorf("the other clients have the timeout %s and the user agent %q, want %s and %q",
			cfg.Timeout, cfg.UserAgent, want.Timeout, want.UserAgent)
	}
}

// TestParseFlags_Documented compares the flags with their table, which says how an installation sets each.
func TestParseFlags_Documented(t *testing.T) {
	flags, args, bound := flag.CommandLine, os.Args, flag.NewFlagSet("manager", flag.PanicOnError)
	flag.CommandLine, os.Args = bound, []string{"manager"}
	t.Cleanup(func() { flag.CommandLine, os.Args = flags, args })
	config.RegisterFlags(bound)
	parseFlags()
	document, err := os.ReadFile("docs/guides/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| (.+) \\| (.+) \\| (.+) \\| (.+) \\|$").FindAllStringSubmatch(string(document), -1) {
		rows[row[1]] = row
	}
	bound.VisitAll(func(f *flag.Flag) {
		row := rows[f.Name]
		delete(rows, f.Name)
		if row == nil {
			t.Errorf("docs/guides/operate.md does not have the flag --%s", f.Name)
			return
		}
		said, quoted := strings.CutPrefix(row[3], "`")
		said = strings.TrimSuffix(said, "`")
		if duration, err := time.ParseDuration(said); err == nil && said != "0" {
			said = duration.String()
		}
		if quoted && said != f.DefValue {
			t.Errorf("docs/guides/operate.md has the default %s of --%s, which is %q", row[3], f.Name, f.DefValue)
		}
		if !quoted && f.DefValue != "" && f.Name != "restore-resource-priorities" { // its default is described
			t.Errorf("docs/guides/operate.md does not have the default %q of --%s", f.DefValue, f.Name)
		}
	})
	for name := range rows {
		t.Errorf("docs/guides/operate.md has the flag --%s, which the operator does not have", name)
	}
}

// TestPluginLogLevel: who sets the flag for more output of the operator gets more from its plugins,
// and the logs of runs lose nothing if the operator is quiet.
func TestPluginLogLevel(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		"": "info", "--zap-log-level=info": "info", "--zap-log-level=error": "info",
		"--zap-log-level=debug": "debug", "--zap-devel": "debug", "--zap-log-level=2": "trace", "--zap-log-level=5": "trace",
	} {
		logging := zap.Options{DestWriter: io.Discard}
		set := flag.NewFlagSet("operator", flag.ContinueOnError)
		logging.BindFlags(set)
		if err := set.Parse(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		output := redact.New().Logger(zap.New(zap.UseFlagOptions(&logging)))
		if got := pluginLogLevel(output); got != want {
			t.Errorf("with %q, plugins log at %q, want %q", flags, got, want)
		}
	}
}

func TestPluginFeatures(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"":                                {featureAllVersions},
		"EnableCSI, EnableUploadProgress": {featureAllVersions, "EnableCSI", "EnableUploadProgress"},
		",EnableAPIGroupVersions,,B,B":    {featureAllVersions, "B"},
	} {
		if got := pluginFeatures([]string{featureAllVersions}, list); !slices.Equal(got, want) {
			t.Errorf("with --plugin-features=%q, plugins get %q, want %q", list, got, want)
		}
	}
}
