// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// safety limits how long a test waits; only failing tests reach it.
const safety = 30 * time.Second

// subject is a Backup as a controller would pass it.
const subject = `{"apiVersion":"grapnel.dev/v1alpha1","kind":"Backup",
	"metadata":{"name":"nightly","namespace":"grapnel-system","uid":"u-1"},
	"spec":{"includedNamespaces":["shop","cart"]},"status":{"phase":"InProgress"}}`

var plugins string

func TestMain(m *testing.M) {
	switch {
	case os.Getenv("CATALOG_TEST_PLUGIN") != "":
		servePrinter()
		return
	case os.Getenv("CATALOG_TEST_VERSIONS") != "":
		serveVersions(os.Getenv("CATALOG_TEST_VERSIONS"))
		return
	case os.Getenv("CATALOG_TEST_ASYNC") != "":
		serveAsync()
		return
	case os.Getenv("CATALOG_TEST_OPERATOR") != "":
		operate(os.Getenv("CATALOG_TEST_OPERATOR"))
		return
	}
	os.Exit(plugintesting.RunWithPlugins(context.Background(), func(dir string) int {
		plugins = dir
		return m.Run()
	}, "faultplugin", "exampleplugin"))
}

// servePrinter makes this program a plugin that prints. It uses the complete SDK, unlike
// faultplugin, which has its own server code.
func servePrinter() {
	serve.New().RegisterPreBackupActionV1("print", func() (prebackupv1.PreBackupAction, error) {
		return printer{}, nil
	}).Serve()
}

type printer struct{}

func (printer) Execute(_ context.Context, req *hook.Request) (*hook.Response, error) {
	fmt.Println("printed to standard output by " + req.IdempotencyKey)
	fmt.Fprintln(os.Stderr, "printed to standard error by "+req.IdempotencyKey)
	slog.Warn("logged with slog by " + req.IdempotencyKey)
	return hook.Done(), nil
}

// newCatalog returns a Catalog that is closed at the end of the test. After that no
// goroutine and no process may be left.
func newCatalog(t *testing.T, opts catalog.Options) *catalog.Catalog {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	c := catalog.New(opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), safety)
		defer cancel()
		c.Close(ctx)
		goleak.VerifyNone(t, ignore)
		if left := plugintesting.ListChildren(plugins); len(left) > 0 {
			t.Errorf("processes left behind: %q", left)
		}
	})
	return c
}

func fault(name string, env map[string]string) catalog.Spec {
	return catalog.Spec{Name: name, Process: catalog.ProcessSpec{
		Path: filepath.Join(plugins, "faultplugin"), Env: env, StartTimeout: safety,
	}}
}

func load(t *testing.T, c *catalog.Catalog, spec catalog.Spec) catalog.Info {
	t.Helper()
	info, err := c.Load(t.Context(), spec)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return info
}

func preBackup(key string, parameters map[string]string) executor.Call {
	return executor.Call{
		Point: executor.PointPreBackup, Action: "fault.example.io/fault", Key: key, Attempt: 1,
		Subject: []byte(subject), Parameters: parameters,
	}
}

func execute(t *testing.T, c *catalog.Catalog, plugin string, call executor.Call, log *plugintesting.Log) (executor.Answer, error) {
	t.Helper()
	e, err := c.Executor(plugin, call.ActionKind(), call.Action)
	if err != nil {
		t.Fatalf("Executor: %v", err)
	}
	ctx := t.Context()
	if log != nil {
		ctx = logr.NewContext(ctx, log.Logger())
	}
	return e.Execute(ctx, call)
}
