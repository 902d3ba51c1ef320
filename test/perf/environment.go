// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// locationName is the storage location of every Backup here.
const locationName = "bench"

// environment is what is measured: a control plane, and the programs that work
// with it.
type environment struct {
	dir      string
	plane    *controlplane.ControlPlane
	client   client.WithWatch
	programs operator.Programs
	// limit is the program that measures limits.
	limit string
	// notes gets progress messages for the user.
	notes io.Writer
	start time.Time
}

// setUp builds and starts everything but the operator. Close is to be called also
// after an error.
func setUp(ctx context.Context, notes io.Writer) (*environment, error) {
	e := &environment{notes: notes, start: time.Now()}
	root, err := program.ModuleRoot()
	if err != nil {
		return e, err
	}
	bin := filepath.Join(root, "bin")
	e.note("Building the programs")
	if e.programs, err = operator.BuildPrograms(ctx); err != nil {
		return e, err
	}
	e.limit = filepath.Join(bin, "test", "programs", "limit")
	if err := program.Build(ctx, filepath.Join(root, "test", "perf", "limit"), e.limit); err != nil {
		return e, err
	}
	// Below bin, which is on a disk: the directory for temporary files may be in
	// memory, where making a file durable costs nothing.
	if e.dir, err = os.MkdirTemp(bin, "bench-"); err != nil {
		return e, fmt.Errorf("creating a directory: %w", err)
	}
	return e, e.startPlane(ctx, root)
}

// startPlane starts an empty control plane, with other options if changes says so.
func (e *environment) startPlane(ctx context.Context, root string, changes ...func(*controlplane.Options)) error {
	e.note("Starting the control plane")
	options := controlplane.Options{
		Dir: e.dir, CRDPaths: []string{filepath.Join(root, "config", "crd", "bases")},
		APIServerArgs: map[string]string{"max-requests-inflight": "3000", "max-mutating-requests-inflight": "1000"},
	}
	for _, change := range changes {
		change(&options)
	}
	plane, err := controlplane.Start(ctx, options)
	if err != nil {
		return err
	}
	e.plane = plane
	return e.install(ctx)
}

// replacePlane ends the control plane with everything in it and starts an empty
// one. The backups stay in the store.
func (e *environment) replacePlane(ctx context.Context, changes ...func(*controlplane.Options)) error {
	root, err := program.ModuleRoot()
	if err != nil {
		return err
	}
	if err := e.plane.Stop(); err != nil {
		return err
	}
	e.plane = nil
	return e.startPlane(ctx, root, changes...)
}

// install makes a client, the operator's namespace and the storage location.
func (e *environment) install(ctx context.Context) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("making a scheme: %w", err)
	}
	var err error
	if e.client, err = client.NewWithWatch(e.plane.Config(), client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	if err := operator.CreateNamespace(ctx, e.client); err != nil {
		return err
	}
	location := &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: locationName},
		Spec:       v1alpha1.BackupStorageLocationSpec{Default: true, Filesystem: &v1alpha1.FilesystemLocation{}},
	}
	if err := e.client.Create(ctx, location); err != nil {
		return fmt.Errorf("creating the storage location: %w", err)
	}
	return nil
}

// close ends everything and removes its files.
func (e *environment) close() error {
	var errs []error
	if e.plane != nil {
		errs = append(errs, e.plane.Stop())
	}
	if e.dir != "" {
		errs = append(errs, os.RemoveAll(e.dir))
	}
	return errors.Join(errs...)
}

// withOperator runs measure while a fresh operator with some flags runs.
func (e *environment) withOperator(ctx context.Context, measure func(op *operator.Operator) error, args ...string) error {
	op, err := operator.Start(ctx, operator.Options{
		Programs: e.programs, Kubeconfig: e.plane.KubeconfigPath(), Dir: filepath.Join(e.dir, "operator"), Args: args,
	})
	if err != nil {
		return err
	}
	return errors.Join(measure(op), op.Stop())
}

// withNewPlane runs measure while a fresh operator runs in an empty control plane.
func (e *environment) withNewPlane(ctx context.Context, measure func(op *operator.Operator) error) error {
	if err := e.replacePlane(ctx); err != nil {
		return err
	}
	return e.withOperator(ctx, func(op *operator.Operator) error {
		if err := e.awaitAtWork(ctx); err != nil {
			return err
		}
		return measure(op)
	})
}

// awaitAtWork waits until the operator has checked the location. It is ready before
// its caches are filled, and an API server that has just started has them wait for
// about a second.
func (e *environment) awaitAtWork(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the operator never checked the storage location"))
	defer cancel()
	available := func(l *v1alpha1.BackupStorageLocation) (bool, error) {
		return l.Status.Phase == v1alpha1.LocationPhaseAvailable, nil
	}
	return await(ctx, e.client, &v1alpha1.BackupStorageLocationList{}, available, client.InNamespace(operator.Namespace))
}

// installPlugin builds the plugin in a directory of the repository, and gives it to operators by
// the name of the directory.
func (e *environment) installPlugin(ctx context.Context, source string) error {
	root, err := program.ModuleRoot()
	if err != nil {
		return err
	}
	name := filepath.Base(source)
	built := filepath.Join(root, "bin", "test", "programs", name)
	if err := program.Build(ctx, filepath.Join(root, source), built); err != nil {
		return err
	}
	installed := filepath.Join(e.dir, "operator", "plugins", name)
	if err := os.MkdirAll(filepath.Dir(installed), 0o755); err != nil {
		return fmt.Errorf("creating the plugin directory: %w", err)
	}
	if err := os.Link(built, installed); err != nil {
		return fmt.Errorf("installing the plugin: %w", err)
	}
	return nil
}

// store is where the operator keeps what is in the location.
func (e *environment) store() string { return filepath.Join(e.dir, "operator", "store") }

// askLimit runs the program that measures limits and reads what it prints.
func (e *environment) askLimit(ctx context.Context, request, result any, args ...string) error {
	in, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("writing the request for a limit: %w", err)
	}
	cmd := exec.CommandContext(ctx, e.limit, append([]string{"-kubeconfig", e.plane.KubeconfigPath()}, args...)...)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = e.notes
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("measuring a limit: %w", err)
	}
	if err := json.Unmarshal(out, result); err != nil {
		return fmt.Errorf("reading a limit: %w", err)
	}
	return nil
}

// note prints a progress message.
func (e *environment) note(format string, args ...any) {
	_, _ = fmt.Fprintf(e.notes, "%6.1f s  %s\n", time.Since(e.start).Seconds(), fmt.Sprintf(format, args...))
}
