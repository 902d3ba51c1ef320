// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/plugin"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// contents is a catalog whose plugins provide what their binary contains.
func contents(_ context.Context, spec catalog.Spec) (catalog.Info, error) {
	text, err := os.ReadFile(spec.Process.Path)
	if err != nil {
		return catalog.Info{}, &catalog.LoadError{Reason: "BinaryNotFound", Message: "there is no such file: copy it into the plugin folder"}
	}
	return catalog.Info{Digest: string(text), Actions: []catalog.Action{{Kind: "PreBackupAction", Version: "v1", Name: "x/a"}}}, nil
}

// install puts a binary into its place in one step, as an installer does.
func install(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func awaitDigest(env *suite.Env, p *v1alpha1.Plugin, digest string) {
	suite.Await(env, p, func(p *v1alpha1.Plugin) string {
		if p.Status.Digest != digest {
			return "the digest is " + p.Status.Digest + ", want " + digest
		}
		return ""
	})
}

// TestBinaryComesChangesAndGoes has no retry in sight: only the watch can see it.
func TestBinaryComesChangesAndGoes(t *testing.T) {
	t.Parallel()
	env := cluster.Env(t)
	dir := filepath.Join(t.TempDir(), "plugins")
	operator(t, env, &loader{load: contents}, func(r *plugin.Reconciler) {
		r.Dir, r.Retry, r.Settle = dir, time.Hour, 50*time.Millisecond
	})
	p, other := create(t, env, command("vendor/one")), create(t, env, command("two"))
	await(env, p, metav1.ConditionFalse, "BinaryNotFound")
	await(env, other, metav1.ConditionFalse, "BinaryNotFound")
	install(t, filepath.Join(dir, "vendor", "one"), "first")
	await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
	awaitDigest(env, p, "first")
	install(t, filepath.Join(dir, "vendor", "one"), "second")
	awaitDigest(env, p, "second")
	if err := os.RemoveAll(filepath.Join(dir, "vendor")); err != nil {
		t.Fatal(err)
	}
	await(env, p, metav1.ConditionFalse, "BinaryNotFound")
	install(t, filepath.Join(dir, "vendor", "one"), "third")
	await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
	awaitDigest(env, p, "third")
	suite.Await(env, other, func(p *v1alpha1.Plugin) string {
		if p.Status.Digest != "" {
			return "another Plugin was loaded"
		}
		return ""
	})
}

// TestBinaryChangesWhileItIsLoaded must not be taken for the one that was loaded.
func TestBinaryChangesWhileItIsLoaded(t *testing.T) {
	t.Parallel()
	env := cluster.Env(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "slow")
	install(t, path, "first")
	read, goOn := make(chan struct{}, 8), make(chan struct{})
	plugins := &loader{load: func(ctx context.Context, spec catalog.Spec) (catalog.Info, error) {
		info, err := contents(ctx, spec)
		read <- struct{}{}
		<-goOn
		return info, err
	}}
	operator(t, env, plugins, func(r *plugin.Reconciler) { r.Dir, r.Retry, r.Settle = dir, time.Hour, time.Millisecond })
	p := create(t, env, command("slow"))
	<-read
	install(t, path, "second")
	close(goOn)
	awaitDigest(env, p, "second")
}
