// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/load"
)

const (
	// operationLabel is on the Backup whose objects concern the plugins.
	operationLabel = "bench.grapnel.dev/operations"
	// hanging is the number of the plugin that does not answer.
	hanging = 0
	// operationPatience is how long it may take until all operations were started, or have
	// ended: each of them is an object that is written several times.
	operationPatience = 30 * time.Minute
)

// The names of what belongs to the i-th plugin.
func operationPlugin(i int) string { return fmt.Sprintf("bench-operations-%02d", i) }

func operationAction(i int) string           { return fmt.Sprintf("bench.example.io/operations-%02d", i) }
func operationNamespace(which string) string { return "bench-operations-" + which }

// callsOf is the file in which the i-th plugin writes down its calls.
func callsOf(e *environment, i int) string {
	return filepath.Join(e.dir, "calls", operationPlugin(i))
}

// create creates the objects, and the plugins that start operations on them, and waits
// until all plugins run.
func (o operations) create(ctx context.Context, e *environment) error {
	e.note("Creating %d objects and starting %d plugins", o.all(), o.plugins)
	if err := e.installPlugin(ctx, "test/perf/operations"); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(callsOf(e, 0)), 0o755); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	for i := range o.plugins {
		namespace := operationNamespace(fmt.Sprintf("%02d", i))
		if err := createNamespaces(ctx, e, namespace); err != nil {
			return err
		}
		if err := e.client.Create(ctx, pluginOfOperations(i, namespace, callsOf(e, i))); err != nil {
			return fmt.Errorf("creating the Plugin %s: %w", operationPlugin(i), err)
		}
	}
	err := load.Create(ctx, e.plane.Config(), 0, o.all(), loadWorkers, func(i int) client.Object {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: operationNamespace(fmt.Sprintf("%02d", i%o.plugins)), Name: fmt.Sprintf("item-%04d", i/o.plugins),
			},
			Data: map[string]string{"key": "value"},
		}
	})
	if err != nil {
		return err
	}
	for i := range o.plugins {
		if err := waitForPlugin(ctx, e.client, operationPlugin(i)); err != nil {
			return err
		}
	}
	return nil
}

// pluginOfOperations is the i-th Plugin. All of them are the same program.
func pluginOfOperations(i int, namespace, calls string) *v1alpha1.Plugin {
	hangs := "no"
	if i == hanging {
		hangs = "yes"
	}
	return &v1alpha1.Plugin{
		ObjectMeta: metav1.ObjectMeta{Name: operationPlugin(i)},
		Spec: v1alpha1.PluginSpec{
			Executor: v1alpha1.Executor{Process: &v1alpha1.ProcessExecutor{
				Command: "operations",
				Env: []v1alpha1.EnvVar{
					{Name: "BENCH_ACTION", Value: operationAction(i)},
					{Name: "BENCH_NAMESPACE", Value: namespace},
					{Name: "BENCH_CALLS", Value: calls},
					{Name: "BENCH_HANGS", Value: hangs},
				},
			}},
			Actions: []v1alpha1.PluginAction{{
				Name: operationAction(i), Kind: v1alpha1.ActionKindAsyncBackupItem,
				Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{operationLabel: "yes"}},
				Operation: &v1alpha1.OperationPolicy{PollInterval: &metav1.Duration{Duration: operationInterval}},
			}},
		},
	}
}

// checkOpen checks that every operation continues.
func (o operations) checkOpen(ctx context.Context, e *environment) error {
	phases, err := phasesOfOperations(ctx, e)
	if err != nil {
		return err
	}
	e.note("The operations are %v", phases)
	var open int
	for _, phase := range []v1alpha1.AsyncOperationPhase{"", v1alpha1.AsyncOperationPhaseNew, v1alpha1.AsyncOperationPhaseInProgress} {
		open += phases[phase]
	}
	if open != o.all() {
		return fmt.Errorf("%d operations should go on: %v", o.all(), phases)
	}
	return nil
}

// phasesOfOperations counts the AsyncOperations by phase, and notes why one failed: none should.
func phasesOfOperations(ctx context.Context, e *environment) (map[v1alpha1.AsyncOperationPhase]int, error) {
	var list v1alpha1.AsyncOperationList
	if err := e.client.List(ctx, &list, client.InNamespace(operator.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the AsyncOperations: %w", err)
	}
	phases := map[v1alpha1.AsyncOperationPhase]int{}
	for i := range list.Items {
		status := &list.Items[i].Status
		phases[status.Phase]++
		if status.Phase == v1alpha1.AsyncOperationPhaseFailed {
			e.note("AsyncOperation %s failed: %s", list.Items[i].Name, status.Message)
		}
	}
	return phases, nil
}

// statusWrites returns how many writes of the statuses of operations and Backups the API
// server counted since it started.
func statusWrites(ctx context.Context, e *environment) (float64, error) {
	metrics, err := e.apiMetrics(ctx)
	if err != nil {
		return 0, err
	}
	return sumStatusWrites(metrics)
}

// sumStatusWrites adds up the counters of these writes, whatever their result.
func sumStatusWrites(metrics []byte) (sum float64, err error) {
	err = eachRequest(metrics, func(labels string, n float64) {
		if strings.Contains(labels, `,subresource="status"`) &&
			(strings.Contains(labels, `,resource="asyncoperations"`) || strings.Contains(labels, `,resource="backups"`)) {
			sum += n
		}
	})
	return sum, err
}

// apiMetrics reads the metrics of the API server.
func (e *environment) apiMetrics(ctx context.Context) ([]byte, error) {
	c, err := discovery.NewDiscoveryClientForConfig(e.plane.Config())
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	metrics, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	return metrics, nil
}

// eachRequest yields the counters of requests in the metrics of an API server.
func eachRequest(metrics []byte, yield func(labels string, n float64)) error {
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, mebibyte)
	for lines.Scan() {
		labels, value, found := strings.Cut(lines.Text(), "} ")
		if !found || !strings.HasPrefix(labels, "apiserver_request_total{") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("reading the metrics of the API server: %w", err)
		}
		yield(labels, n)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	return nil
}

// pause waits for a time.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// awaitBackup watches a Backup until it is as wanted, and reads it into b.
func awaitBackup(ctx context.Context, c client.WithWatch, b *v1alpha1.Backup, wanted func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, operationPatience, errors.New("it takes too long"))
	defer cancel()
	err := await(ctx, c, &v1alpha1.BackupList{}, func(seen *v1alpha1.Backup) (bool, error) {
		seen.DeepCopyInto(b)
		switch {
		case wanted():
			return true, nil
		case ended(b.GetConditions()):
			return false, fmt.Errorf("it ended: %s %v", b.Status.FailureReason, b.Status.ValidationErrors)
		}
		return false, nil
	}, client.InNamespace(b.Namespace), client.MatchingFields{"metadata.name": b.Name})
	if err != nil {
		return fmt.Errorf("waiting for the Backup %s, %s, %s: %w", b.Name, b.Status.Phase, b.Status.Message, err)
	}
	return nil
}
